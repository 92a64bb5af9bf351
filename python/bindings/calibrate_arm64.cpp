// ARM64: SMLAL, SDOT, SMMLA and FMLA, on 128-bit vectors.
#include "calibrate_machine.h"

#if defined(__aarch64__)

namespace onnxruntime_mlas::bindings {
namespace {

// Registers 0-23 accumulate: twenty-four independent chains cover a latency of 4 at six per cycle. 24 and 25 hold the
// factors.
// clang-format off
#define ORT_MLAS_TWENTY_FOUR(STEP)                                                    \
  STEP("0") STEP("1") STEP("2") STEP("3") STEP("4") STEP("5") STEP("6") STEP("7")     \
  STEP("8") STEP("9") STEP("10") STEP("11") STEP("12") STEP("13") STEP("14") STEP("15") \
  STEP("16") STEP("17") STEP("18") STEP("19") STEP("20") STEP("21") STEP("22") STEP("23")
// clang-format on
constexpr unsigned kSteps = 24;

#define ORT_MLAS_CLEAR(r) "movi v" r ".2d, #0\n\t"

// LLVM must know a function's length for Windows' unwind tables, and doesn't once there is padding in the assembly.
#if defined(_WIN32)
#define ORT_MLAS_ALIGN
#else
#define ORT_MLAS_ALIGN ".p2align 6\n\t"
#endif

#define ORT_MLAS_PEAK_LOOP(function, table, STEP)                                                             \
  void function(uint64_t iterations) {                                                                        \
    asm volatile(ORT_MLAS_TWENTY_FOUR(ORT_MLAS_CLEAR) "ldp q24, q25, [%[factors]]\n\t"                      \
                 ORT_MLAS_ALIGN \
                 "1:\n\t" ORT_MLAS_TWENTY_FOUR(STEP) "subs %[iterations], %[iterations], #1\n\t"                      \
                 "b.ne 1b\n\t"                                                                                        \
                 : [iterations] "+r"(iterations)                                                                      \
                 : [factors] "r"(&(table))                                                                            \
                 : "cc", "memory", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12",   \
                   "v13", "v14", "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25"); \
  }

// Factors as a kernel meets them: zeros would let the core save power and clock higher than real data do.
struct alignas(16) IntegerFactors {
  int8_t codes[16];
  int8_t activations[16];
};
struct alignas(16) FloatFactors {
  float a[4];
  float b[4];
};

constexpr IntegerFactors kIntegerFactors = [] {
  IntegerFactors factors{};
  for (int i = 0; i < 16; ++i) {
    factors.codes[i] = static_cast<int8_t>(i * 7 % 4);
    factors.activations[i] = static_cast<int8_t>(i * 37 % 255 - 127);
  }
  return factors;
}();
constexpr FloatFactors kFloatFactors = {{0.75f, 0.78f, 0.81f, 0.84f}, {1e-3f, -2e-3f, 3e-3f, -4e-3f}};

#define ORT_MLAS_SMLAL(r) "smlal v" r ".8h, v24.8b, v25.8b\n\t"
// Encoded by hand: GNU as takes the two names only after .arch, which would hold for the compiler's own code as well.
#define ORT_MLAS_SDOT(r) ".inst 0x4e999700 + " r "\n\t"   // sdot vR.4s, v24.16b, v25.16b
#define ORT_MLAS_SMMLA(r) ".inst 0x4e99a700 + " r "\n\t"  // smmla vR.4s, v24.16b, v25.16b
#define ORT_MLAS_FMLA(r) "fmla v" r ".4s, v24.4s, v25.4s\n\t"

ORT_MLAS_PEAK_LOOP(Smlal, kIntegerFactors, ORT_MLAS_SMLAL)
ORT_MLAS_PEAK_LOOP(Sdot, kIntegerFactors, ORT_MLAS_SDOT)
ORT_MLAS_PEAK_LOOP(Smmla, kIntegerFactors, ORT_MLAS_SMMLA)
ORT_MLAS_PEAK_LOOP(Fmla, kFloatFactors, ORT_MLAS_FMLA)

const char* MissingNeon(const CpuFeatures& cpu) { return cpu.neon ? "" : "the CPU has no Advanced SIMD"; }
const char* MissingDotProd(const CpuFeatures& cpu) { return cpu.dotprod ? "" : "the CPU has no DotProd"; }
const char* MissingI8mm(const CpuFeatures& cpu) { return cpu.i8mm ? "" : "the CPU has no I8MM"; }

const PeakLoop kPeakLoops[] = {
    {"smmla", "SMMLA, 2 x 8 by 8 x 2", 64, kSteps, 1, 1, MissingI8mm, Smmla},
    {"sdot", "SDOT, 4 lanes of 4 bytes", 32, kSteps, 1, 1, MissingDotProd, Sdot},
    {"smlal", "SMLAL, 8 bytes to 16 bits", 16, kSteps, 1, 1, MissingNeon, Smlal},
    {"fmla", "FMLA, 4 floats", 8, kSteps, 1, 1, MissingNeon, Fmla},
};

}  // namespace

std::span<const PeakLoop> PeakLoops() { return kPeakLoops; }

void AddChain(uint64_t iterations) {
  uint64_t sum = 0;
  const uint64_t one = 1;
  asm volatile(
      "1:\n\t"
      ".rept 64\n\t"
      "add %[sum], %[sum], %[one]\n\t"
      ".endr\n\t"
      "subs %[iterations], %[iterations], #1\n\t"
      "b.ne 1b\n\t"
      : [sum] "+r"(sum), [iterations] "+r"(iterations)
      : [one] "r"(one)
      : "cc");
}

void ReadStreams(const std::byte* data, size_t part, size_t streams) {
  for (size_t offset = 0; offset < part; offset += kReadGroup) {
    for (size_t stream = 0; stream < streams; ++stream) {
      asm volatile(
          "ldp q0, q1, [%[p]]\n\t"
          "ldp q2, q3, [%[p], #32]\n\t"
          "ldp q4, q5, [%[p], #64]\n\t"
          "ldp q6, q7, [%[p], #96]\n\t"
          "ldp q0, q1, [%[p], #128]\n\t"
          "ldp q2, q3, [%[p], #160]\n\t"
          "ldp q4, q5, [%[p], #192]\n\t"
          "ldp q6, q7, [%[p], #224]\n\t" ::[p] "r"(data + stream * part + offset)
          : "memory", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7");
    }
  }
}

}  // namespace onnxruntime_mlas::bindings

#endif  // __aarch64__
