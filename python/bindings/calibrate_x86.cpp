// x86-64: VPDPBUSD, VPMADDUBSW and its sequence, VFMADD231PS, each at the widths that kernels use.
#include "calibrate_machine.h"

#if defined(__x86_64__)

#include <cstdint>

namespace onnxruntime_mlas::bindings {
namespace {

// Registers 0-11 accumulate: twelve independent chains cover a latency of 5 at two per cycle. 12 and 13 hold the
// factors, 14 holds 16-bit ones, 15 is for intermediate results; the register renamer keeps their uses apart.
#define ORT_MLAS_TWELVE(STEP) \
  STEP("0")                   \
  STEP("1") STEP("2") STEP("3") STEP("4") STEP("5") STEP("6") STEP("7") STEP("8") STEP("9") STEP("10") STEP("11")
constexpr unsigned kSteps = 12;

#define ORT_MLAS_CLEAR(r) "vpxor %%xmm" r ", %%xmm" r ", %%xmm" r "\n\t"
#define ORT_MLAS_LOAD_YMM               \
  "vmovdqu (%[factors]), %%ymm12\n\t"   \
  "vmovdqu 64(%[factors]), %%ymm13\n\t" \
  "vmovdqu 128(%[factors]), %%ymm14\n\t"
#define ORT_MLAS_LOAD_ZMM                 \
  "vmovdqu32 (%[factors]), %%zmm12\n\t"   \
  "vmovdqu32 64(%[factors]), %%zmm13\n\t" \
  "vmovdqu32 128(%[factors]), %%zmm14\n\t"

#define ORT_MLAS_PEAK_LOOP(function, table, LOAD, STEP)                                                             \
  void function(uint64_t iterations) {                                                                              \
    asm volatile(ORT_MLAS_TWELVE(ORT_MLAS_CLEAR) LOAD                                                             \
                 ".p2align 6\n\t"                                                                                 \
                 "1:\n\t" ORT_MLAS_TWELVE(STEP) "decq %[iterations]\n\t"                                          \
                 "jnz 1b\n\t"                                                                                     \
                 "vzeroupper\n\t"                                                                                 \
                 : [iterations] "+r"(iterations)                                                                  \
                 : [factors] "r"(&(table))                                                                        \
                 : "cc", "memory", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", \
                   "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15"); \
  }

// Factors as a kernel meets them: zeros would let the core save power and clock higher than real data do.
struct alignas(64) IntegerFactors {
  uint8_t codes[64];
  int8_t activations[64];
  int16_t ones[32];
};
struct alignas(64) FloatFactors {
  float a[16];
  float b[16];
  float unused[16];
};

constexpr IntegerFactors kIntegerFactors = [] {
  IntegerFactors factors{};
  for (int i = 0; i < 64; ++i) {
    factors.codes[i] = static_cast<uint8_t>(i * 7 % 4);
    factors.activations[i] = static_cast<int8_t>(i * 37 % 255 - 127);
  }
  for (int16_t& one : factors.ones) one = 1;
  return factors;
}();
constexpr FloatFactors kFloatFactors = [] {
  FloatFactors factors{};
  for (int i = 0; i < 16; ++i) {
    factors.a[i] = 0.75f + 0.03f * static_cast<float>(i);
    factors.b[i] = (i % 2 ? 1e-3f : -1e-3f) * static_cast<float>(i + 1);
  }
  return factors;
}();

#define ORT_MLAS_VPDPBUSD_ZMM(r) "vpdpbusd %%zmm13, %%zmm12, %%zmm" r "\n\t"
#define ORT_MLAS_VPDPBUSD_YMM_EVEX(r) "%{evex%} vpdpbusd %%ymm13, %%ymm12, %%ymm" r "\n\t"
#define ORT_MLAS_VPDPBUSD_YMM_VEX(r) "%{vex%} vpdpbusd %%ymm13, %%ymm12, %%ymm" r "\n\t"
#define ORT_MLAS_SEQUENCE_YMM(r)             \
  "vpmaddubsw %%ymm13, %%ymm12, %%ymm15\n\t" \
  "vpmaddwd %%ymm14, %%ymm15, %%ymm15\n\t"   \
  "vpaddd %%ymm15, %%ymm" r ", %%ymm" r "\n\t"
#define ORT_MLAS_SEQUENCE_ZMM(r)             \
  "vpmaddubsw %%zmm13, %%zmm12, %%zmm15\n\t" \
  "vpmaddwd %%zmm14, %%zmm15, %%zmm15\n\t"   \
  "vpaddd %%zmm15, %%zmm" r ", %%zmm" r "\n\t"
#define ORT_MLAS_INT16_YMM(r)                \
  "vpmaddubsw %%ymm13, %%ymm12, %%ymm15\n\t" \
  "vpaddw %%ymm15, %%ymm" r ", %%ymm" r "\n\t"
#define ORT_MLAS_INT16_ZMM(r)                \
  "vpmaddubsw %%zmm13, %%zmm12, %%zmm15\n\t" \
  "vpaddw %%zmm15, %%zmm" r ", %%zmm" r "\n\t"
#define ORT_MLAS_FMA_YMM(r) "vfmadd231ps %%ymm13, %%ymm12, %%ymm" r "\n\t"
#define ORT_MLAS_FMA_ZMM(r) "vfmadd231ps %%zmm13, %%zmm12, %%zmm" r "\n\t"

ORT_MLAS_PEAK_LOOP(VpdpbusdZmm, kIntegerFactors, ORT_MLAS_LOAD_ZMM, ORT_MLAS_VPDPBUSD_ZMM)
ORT_MLAS_PEAK_LOOP(VpdpbusdYmmEvex, kIntegerFactors, ORT_MLAS_LOAD_YMM, ORT_MLAS_VPDPBUSD_YMM_EVEX)
ORT_MLAS_PEAK_LOOP(VpdpbusdYmmVex, kIntegerFactors, ORT_MLAS_LOAD_YMM, ORT_MLAS_VPDPBUSD_YMM_VEX)
ORT_MLAS_PEAK_LOOP(SequenceYmm, kIntegerFactors, ORT_MLAS_LOAD_YMM, ORT_MLAS_SEQUENCE_YMM)
ORT_MLAS_PEAK_LOOP(SequenceZmm, kIntegerFactors, ORT_MLAS_LOAD_ZMM, ORT_MLAS_SEQUENCE_ZMM)
ORT_MLAS_PEAK_LOOP(Int16Ymm, kIntegerFactors, ORT_MLAS_LOAD_YMM, ORT_MLAS_INT16_YMM)
ORT_MLAS_PEAK_LOOP(Int16Zmm, kIntegerFactors, ORT_MLAS_LOAD_ZMM, ORT_MLAS_INT16_ZMM)
ORT_MLAS_PEAK_LOOP(FmaYmm, kFloatFactors, ORT_MLAS_LOAD_YMM, ORT_MLAS_FMA_YMM)
ORT_MLAS_PEAK_LOOP(FmaZmm, kFloatFactors, ORT_MLAS_LOAD_ZMM, ORT_MLAS_FMA_ZMM)

const char* MissingAvx2(const CpuFeatures& cpu) { return cpu.avx2 ? "" : "the CPU or operating system has no AVX2"; }
const char* MissingFma(const CpuFeatures& cpu) {
  return cpu.avx2 && cpu.fma ? "" : "the CPU or operating system has no AVX2 and FMA";
}
const char* MissingAvxVnni(const CpuFeatures& cpu) { return cpu.avx_vnni ? "" : "the CPU has no AVX_VNNI"; }
const char* MissingAvx512F(const CpuFeatures& cpu) {
  return cpu.avx512f ? "" : "the CPU or operating system has no AVX512F";
}
const char* MissingAvx512Bw(const CpuFeatures& cpu) {
  return cpu.avx512f && cpu.avx512bw ? "" : "the CPU or operating system has no AVX512BW";
}
const char* MissingAvx512Vnni(const CpuFeatures& cpu) {
  return cpu.avx512f && cpu.avx512_vnni ? "" : "the CPU or operating system has no AVX512_VNNI";
}
const char* MissingAvx512VnniVl(const CpuFeatures& cpu) {
  return cpu.avx512f && cpu.avx512_vnni && cpu.avx512vl ? "" : "the CPU has no AVX512_VNNI with AVX512VL";
}

const PeakLoop kPeakLoops[] = {
    {"vpdpbusd_zmm", "VPDPBUSD, 512 bits", 128, kSteps, 1, 1, MissingAvx512Vnni, VpdpbusdZmm},
    {"vpdpbusd_ymm_evex", "VPDPBUSD, 256 bits, EVEX", 64, kSteps, 1, 1, MissingAvx512VnniVl, VpdpbusdYmmEvex},
    {"vpdpbusd_ymm_vex", "VPDPBUSD, 256 bits, VEX", 64, kSteps, 1, 1, MissingAvxVnni, VpdpbusdYmmVex},
    {"vpmaddubsw_sequence_zmm", "VPMADDUBSW + VPMADDWD + VPADDD, 512 bits", 128, kSteps, 2, 3, MissingAvx512Bw,
     SequenceZmm},
    {"vpmaddubsw_sequence_ymm", "VPMADDUBSW + VPMADDWD + VPADDD, 256 bits", 64, kSteps, 2, 3, MissingAvx2, SequenceYmm},
    {"vpmaddubsw_int16_zmm", "VPMADDUBSW + VPADDW, 512 bits", 128, kSteps, 1, 2, MissingAvx512Bw, Int16Zmm},
    {"vpmaddubsw_int16_ymm", "VPMADDUBSW + VPADDW, 256 bits", 64, kSteps, 1, 2, MissingAvx2, Int16Ymm},
    {"fma_zmm", "VFMADD231PS, 512 bits", 32, kSteps, 1, 1, MissingAvx512F, FmaZmm},
    {"fma_ymm", "VFMADD231PS, 256 bits", 16, kSteps, 1, 1, MissingFma, FmaYmm},
};

}  // namespace

std::span<const PeakLoop> PeakLoops() { return kPeakLoops; }

// Register plus register: recent Intel cores fold additions
// of small immediates into later instructions, which then cost nothing.
void AddChain(uint64_t iterations) {
  uint64_t sum = 0;
  const uint64_t one = 1;
  asm volatile(
      "1:\n\t"
      ".rept 64\n\t"
      "addq %[one], %[sum]\n\t"
      ".endr\n\t"
      "decq %[iterations]\n\t"
      "jnz 1b\n\t"
      : [sum] "+r"(sum), [iterations] "+r"(iterations)
      : [one] "r"(one)
      : "cc");
}

void ReadStreams(const std::byte* data, size_t part, size_t streams) {
  const bool wide = HostCpuFeatures().avx2;
  for (size_t offset = 0; offset < part; offset += kReadGroup) {
    for (size_t stream = 0; stream < streams; ++stream) {
      const std::byte* group = data + stream * part + offset;
      if (wide) {
        asm volatile(
            "vpaddd (%[p]), %%ymm0, %%ymm0\n\t"
            "vpaddd 32(%[p]), %%ymm1, %%ymm1\n\t"
            "vpaddd 64(%[p]), %%ymm2, %%ymm2\n\t"
            "vpaddd 96(%[p]), %%ymm3, %%ymm3\n\t"
            "vpaddd 128(%[p]), %%ymm0, %%ymm0\n\t"
            "vpaddd 160(%[p]), %%ymm1, %%ymm1\n\t"
            "vpaddd 192(%[p]), %%ymm2, %%ymm2\n\t"
            "vpaddd 224(%[p]), %%ymm3, %%ymm3\n\t" ::[p] "r"(group)
            : "memory", "xmm0", "xmm1", "xmm2", "xmm3");
      } else {
        for (size_t i = 0; i < kReadGroup; i += 64) {
          asm volatile(
              "paddd (%[p]), %%xmm0\n\t"
              "paddd 16(%[p]), %%xmm1\n\t"
              "paddd 32(%[p]), %%xmm2\n\t"
              "paddd 48(%[p]), %%xmm3\n\t" ::[p] "r"(group + i)
              : "memory", "xmm0", "xmm1", "xmm2", "xmm3");
        }
      }
    }
  }
  if (wide) asm volatile("vzeroupper" ::: "memory", "xmm0", "xmm1", "xmm2", "xmm3");
}

}  // namespace onnxruntime_mlas::bindings

#endif  // __x86_64__
