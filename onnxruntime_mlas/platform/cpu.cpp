#include "onnxruntime_mlas/cpu.h"

#include <iterator>

#include "platform/detect.h"

namespace onnxruntime_mlas {
namespace {

constexpr IsaInfo kIsas[] = {
    {Isa::kPortable, "portable", "baseline instructions"},
    {Isa::kAvx2, "avx2", "AVX2, FMA, F16C"},
    {Isa::kAvxVnni, "avxvnni", "AVX2, FMA, F16C, AVX-VNNI"},
    {Isa::kAvx512Bw, "avx512bw", "AVX512F, BW, DQ, VL, FMA, F16C"},
    {Isa::kAvx512Vnni, "avx512vnni", "AVX512F, BW, DQ, VL, VNNI, FMA, F16C"},
    {Isa::kNeon, "neon", "Advanced SIMD"},
    {Isa::kNeonDotProd, "neon_dotprod", "Advanced SIMD, DotProd"},
    {Isa::kNeonI8mm, "neon_i8mm", "Advanced SIMD, DotProd, I8MM"},
};

constexpr bool IndexedByIsa() {
  for (size_t i = 0; i < std::size(kIsas); ++i) {
    if (kIsas[i].isa != static_cast<Isa>(i)) return false;
  }
  return true;
}
static_assert(IndexedByIsa());

#if defined(__x86_64__)
constexpr char kThisArchitecture[] = "x86-64";
#elif defined(__aarch64__)
constexpr char kThisArchitecture[] = "ARM64";
#else
constexpr char kThisArchitecture[] = "an architecture without kernels of its own";
#define ORT_MLAS_NOTHING_TO_DETECT
#endif

struct Requirement {
  bool CpuFeatures::* flag;
  const char* name;
};

constexpr Requirement kAvx2Needs[] = {
    {&CpuFeatures::avx2, "AVX2"}, {&CpuFeatures::fma, "FMA"}, {&CpuFeatures::f16c, "F16C"}};
constexpr Requirement kAvx512Needs[] = {{&CpuFeatures::avx512f, "AVX512F"},
                                        {&CpuFeatures::avx512bw, "AVX512BW"},
                                        {&CpuFeatures::avx512dq, "AVX512DQ"},
                                        {&CpuFeatures::avx512vl, "AVX512VL"}};
constexpr Requirement kAvxVnniNeeds[] = {{&CpuFeatures::avx_vnni, "AVX-VNNI"}};
constexpr Requirement kAvx512VnniNeeds[] = {{&CpuFeatures::avx512_vnni, "AVX512_VNNI"}};
constexpr Requirement kNeonNeeds[] = {{&CpuFeatures::neon, "Advanced SIMD"}};
constexpr Requirement kDotProdNeeds[] = {{&CpuFeatures::dotprod, "DotProd"}};
constexpr Requirement kI8mmNeeds[] = {{&CpuFeatures::i8mm, "I8MM"}};

class MissingList {
 public:
  explicit MissingList(const CpuFeatures& cpu) : cpu_(cpu) {}

  void Check(std::span<const Requirement> needs) {
    for (const Requirement& need : needs) {
      if (!(cpu_.*need.flag)) names_ += (names_.empty() ? "" : ", ") + std::string(need.name);
    }
  }
  std::string Reason() const { return names_.empty() ? "" : "the CPU has no " + names_; }

 private:
  const CpuFeatures& cpu_;
  std::string names_;
};

[[maybe_unused]] std::string X86Reason(Isa isa, const CpuFeatures& cpu) {
  const bool wide = isa == Isa::kAvx512Bw || isa == Isa::kAvx512Vnni;
  if (!cpu.os_ymm) return "the operating system does not save AVX registers";
  if (wide && !cpu.os_zmm) return "the operating system or hypervisor does not enable AVX-512 state";
  MissingList missing(cpu);
  missing.Check(kAvx2Needs);
  if (wide) missing.Check(kAvx512Needs);
  if (isa == Isa::kAvxVnni) missing.Check(kAvxVnniNeeds);
  if (isa == Isa::kAvx512Vnni) missing.Check(kAvx512VnniNeeds);
  return missing.Reason();
}

[[maybe_unused]] std::string Arm64Reason(Isa isa, const CpuFeatures& cpu) {
  MissingList missing(cpu);
  missing.Check(kNeonNeeds);
  if (isa != Isa::kNeon) missing.Check(kDotProdNeeds);
  if (isa == Isa::kNeonI8mm) missing.Check(kI8mmNeeds);
  return missing.Reason();
}

}  // namespace

#if defined(ORT_MLAS_NOTHING_TO_DETECT)
CpuFeatures DetectCpu() { return {}; }
#endif

const CpuFeatures& HostCpuFeatures() {
  static const CpuFeatures features = DetectCpu();
  return features;
}

std::span<const IsaInfo> AllIsas() { return kIsas; }

const IsaInfo& InfoOf(Isa isa) { return kIsas[static_cast<size_t>(isa)]; }

std::string UnavailableReason(Isa isa, [[maybe_unused]] const CpuFeatures& cpu) {
  if (isa == Isa::kPortable) return "";
#if defined(__x86_64__)
  if (isa < Isa::kNeon) return X86Reason(isa, cpu);
#elif defined(__aarch64__)
  if (isa >= Isa::kNeon) return Arm64Reason(isa, cpu);
#endif
  return std::string("this build is for ") + kThisArchitecture;
}

}  // namespace onnxruntime_mlas
