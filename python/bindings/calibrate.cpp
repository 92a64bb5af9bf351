// Peaks are measured by inline assembly: compilers add register moves to the same loop written in intrinsics, and a
// peak that reads low flatters every kernel compared with it. The instructions are named in the assembly only, so this
// file needs no ISA flags; each loop runs only where HostCpuFeatures() has what it needs.
#include "calibrate.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "onnxruntime_mlas/cpu.h"

namespace py = pybind11;

namespace {

using onnxruntime_mlas::CpuFeatures;
using onnxruntime_mlas::HostCpuFeatures;

// Long against the clock's resolution and an interrupt, short against a frequency change.
constexpr double kPassSeconds = 1e-3;
constexpr int kPasses = 15;
// A disturbed measurement is repeated this often before it is refused.
constexpr int kAttempts = 8;
// Half the distance between two plausible rates near 4 per cycle is 6 %.
constexpr double kRateTolerance = 0.05;

double Seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// Shortest time of one call of run(iterations), per iteration.
template <class Run>
double BestSecondsPerIteration(const Run& run) {
  uint64_t iterations = 1024;
  for (;;) {
    const double start = Seconds();
    run(iterations);
    if (Seconds() - start >= kPassSeconds) break;
    iterations *= 2;
  }
  double best = std::numeric_limits<double>::infinity();
  for (int pass = 0; pass < kPasses; ++pass) {
    const double start = Seconds();
    run(iterations);
    best = std::min(best, Seconds() - start);
  }
  return best / static_cast<double>(iterations);
}

struct PeakLoop {
  const char* name;
  const char* description;
  unsigned ops;           // multiplications and additions of one dot step: an instruction, or a sequence of them
  unsigned steps;         // dot steps per iteration of the loop
  unsigned multiplies;    // multiplying instructions per step
  unsigned instructions;  // all instructions per step
  const char* (*missing)(const CpuFeatures&);  // "" when the loop can run
  void (*run)(uint64_t iterations);
};

#if defined(__x86_64__)

// Each addition waits for the one before and takes one cycle. Register plus register: recent Intel cores fold additions
// of small immediates into later instructions, which then cost nothing.
constexpr unsigned kChainLength = 64;
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

#endif  // __x86_64__

double MeasureClockHz() {
#if defined(__x86_64__)
  return kChainLength / BestSecondsPerIteration(AddChain);
#else
  throw std::runtime_error("clock_hz is implemented for x86-64 only");
#endif
}

const PeakLoop& FindLoop(const std::string& name) {
  std::string known;
#if defined(__x86_64__)
  for (const PeakLoop& loop : kPeakLoops) {
    if (name == loop.name) return loop;
    known += (known.empty() ? "" : ", ") + std::string(loop.name);
  }
#endif
  throw py::value_error("unknown instruction '" + name + "'; known: " + known);
}

// Empty when `steps_per_cycle` is what a whole number of pipes can do, else what is wrong with it. A step is limited by
// the pipes that multiply or by all pipes that take its instructions; a half is a pipe of half the vector's width.
std::string ImplausibleReason(const PeakLoop& loop, double steps_per_cycle) {
  const unsigned instructions_per_step[] = {loop.multiplies, loop.instructions};
  for (const unsigned instructions : instructions_per_step) {
    const double per_cycle = steps_per_cycle * instructions;
    for (int halves = 1; halves <= 8; ++halves) {
      // Halves above 1 occur for single instructions only; allowing them for sequences would allow almost any rate.
      if (loop.instructions > 1 && halves > 1 && halves % 2 != 0) continue;
      const double plausible = 0.5 * halves;
      if (std::abs(per_cycle / plausible - 1.0) <= kRateTolerance) return "";
    }
  }
  char text[256];
  std::snprintf(
      text, sizeof(text),
      "%s: %.3f steps per cycle of the measured clock is impossible: no number of pipes up to 4 gives it, so the "
      "peak or the clock was disturbed; stop other work on this machine and repeat",
      loop.name, steps_per_cycle);
  return text;
}

void CheckPeak(const std::string& instruction, double ops_per_second, double clock_hz) {
  const PeakLoop& loop = FindLoop(instruction);
  if (!(ops_per_second > 0) || !(clock_hz > 0)) {
    throw py::value_error("ops_per_second and clock_hz must be positive");
  }
  const std::string reason = ImplausibleReason(loop, ops_per_second / loop.ops / clock_hz);
  if (!reason.empty()) throw std::runtime_error(reason);
}

double PeakOps(const std::string& instruction) {
  const PeakLoop& loop = FindLoop(instruction);
  const std::string missing = loop.missing(HostCpuFeatures());
  if (!missing.empty()) throw std::runtime_error(instruction + " can't run here: " + missing);
  const py::gil_scoped_release release;
  std::string reason;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    // The clock on both sides of the peak, so that a change of frequency between them shows.
    const double clock_before = MeasureClockHz();
    const double step_seconds = BestSecondsPerIteration(loop.run) / loop.steps;
    const double clock = std::max(clock_before, MeasureClockHz());
    reason = ImplausibleReason(loop, 1.0 / (step_seconds * clock));
    if (reason.empty()) return loop.ops / step_seconds;
  }
  throw std::runtime_error(reason);
}

py::list PeakInstructions() {
  py::list list;
#if defined(__x86_64__)
  for (const PeakLoop& loop : kPeakLoops) {
    py::dict row;
    row["name"] = loop.name;
    row["description"] = loop.description;
    row["ops"] = loop.ops;
    row["unavailable_reason"] = loop.missing(HostCpuFeatures());
    list.append(row);
  }
#endif
  return list;
}

// One pass over 256-byte groups: `streams` equally long parts are read side by side, since one stream may not keep
// enough cache lines in flight.
void ReadAll(const std::byte* data, size_t bytes, size_t streams) {
  const size_t part = bytes / streams / 256 * 256;
#if defined(__x86_64__)
  const bool wide = HostCpuFeatures().avx2;
  for (size_t offset = 0; offset < part; offset += 256) {
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
        for (size_t i = 0; i < 256; i += 64) {
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
#else
  for (size_t offset = 0; offset < part; offset += 256) {
    for (size_t stream = 0; stream < streams; ++stream) {
      const auto* words = reinterpret_cast<const volatile uint64_t*>(data + stream * part + offset);
      for (size_t i = 0; i < 32; ++i) (void)words[i];
    }
  }
#endif
}

double ReadBandwidth(size_t bytes) {
  constexpr size_t kPage = size_t{2} << 20;  // of a huge page, so that address translation costs as little as it can
  constexpr size_t kLeast = 4096;
  constexpr double kSecondsPerStreamCount = 0.25;
  if (bytes < kLeast) throw py::value_error("bytes must be at least 4096");
  const size_t allocated = (bytes + kPage - 1) / kPage * kPage;
  const std::unique_ptr<std::byte, void (*)(void*)> buffer(
      static_cast<std::byte*>(std::aligned_alloc(kPage, allocated)), std::free);
  if (!buffer) throw std::bad_alloc();
  const py::gil_scoped_release release;
#if defined(__linux__)
  (void)madvise(buffer.get(), allocated, MADV_HUGEPAGE);  // without effect where huge pages are off
#endif
  std::fill_n(buffer.get(), allocated, std::byte{1});

  double best = 0;
  for (const size_t streams : {size_t{1}, size_t{2}, size_t{4}}) {
    const size_t read = bytes / streams / 256 * 256 * streams;
    const size_t passes = std::max<size_t>(1, (size_t{1} << 20) / bytes);  // a pass much longer than a clock reading
    const double end = Seconds() + kSecondsPerStreamCount;
    do {
      const double start = Seconds();
      for (size_t pass = 0; pass < passes; ++pass) ReadAll(buffer.get(), bytes, streams);
      best = std::max(best, static_cast<double>(read * passes) / (Seconds() - start));
    } while (Seconds() < end);
  }
  return best;
}

}  // namespace

void BindCalibration(py::module_& module) {
  module.def(
      "clock_hz",
      [] {
        const py::gil_scoped_release release;
        return MeasureClockHz();
      },
      "Clock of this core now, from a chain of dependent additions.");
  module.def("peak_instructions", &PeakInstructions,
             "Instructions that peak_ops knows: name, description, ops per step, unavailable_reason.");
  module.def("peak_ops", &PeakOps, py::arg("instruction"),
             "Multiplications and additions per second that one core does with nothing but `instruction`.\n\n"
             "ValueError for an unknown name; RuntimeError when it can't run here or the result is implausible.");
  module.def("check_peak", &CheckPeak, py::arg("instruction"), py::arg("ops_per_second"), py::arg("clock_hz"),
             "RuntimeError when no whole number of pipes gives this peak at this clock.");
  module.def("read_bandwidth", &ReadBandwidth, py::arg("bytes"),
             "Bytes per second that one core reads from a buffer of `bytes` bytes, best of several passes.");
}
