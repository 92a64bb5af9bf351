#include "onnxruntime_mlas/cpu.h"

#include <cstdlib>
#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace onnxruntime_mlas {
namespace {

constexpr IsaInfo kIsas[] = {
    {Isa::kPortable, "portable", "baseline instructions"},
    {Isa::kAvx2, "avx2", "AVX2, FMA, F16C"},
    {Isa::kAvxVnni, "avxvnni", "AVX2, FMA, F16C, AVX-VNNI"},
    {Isa::kAvx512Bw, "avx512bw", "AVX512F, BW, DQ, VL, FMA, F16C"},
    {Isa::kAvx512Vnni, "avx512vnni", "AVX512F, BW, DQ, VL, VNNI, FMA, F16C"},
};

#if defined(__x86_64__)

// XCR0, the register that says which states the operating system saves (Intel SDM vol. 1, 13.3).
uint64_t ReadXcr0() {
  uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (uint64_t{high} << 32) | low;
}

bool Bit(uint32_t value, unsigned bit) { return (value >> bit) & 1; }

std::string ReadBrand() {
  uint32_t registers[12];
  if (__get_cpuid_max(0x80000000u, nullptr) < 0x80000004u) return "";
  for (unsigned leaf = 0; leaf < 3; ++leaf) {
    __cpuid(0x80000002u + leaf, registers[4 * leaf], registers[4 * leaf + 1], registers[4 * leaf + 2],
            registers[4 * leaf + 3]);
  }
  char text[sizeof(registers) + 1] = {};
  std::memcpy(text, registers, sizeof(registers));
  std::string brand(text);
  const size_t first = brand.find_first_not_of(' ');
  if (first == std::string::npos) return "";
  return brand.substr(first, brand.find_last_not_of(' ') - first + 1);
}

CpuFeatures Detect() {
  CpuFeatures cpu;
  cpu.brand = ReadBrand();
  uint32_t a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid(1, &a, &b, &c, &d)) return cpu;
  const bool os_uses_xsave = Bit(c, 27);
  const uint64_t xcr0 = os_uses_xsave ? ReadXcr0() : 0;
  constexpr uint64_t kYmmState = 0x06;  // XMM, YMM
  constexpr uint64_t kZmmState = 0xE6;  // and opmask, upper halves of ZMM0-15, ZMM16-31
  cpu.os_ymm = (xcr0 & kYmmState) == kYmmState;
  cpu.os_zmm = (xcr0 & kZmmState) == kZmmState;
  cpu.fma = cpu.os_ymm && Bit(c, 12);
  cpu.f16c = cpu.os_ymm && Bit(c, 29);
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return cpu;
  const uint32_t subleaves = a;
  cpu.avx2 = cpu.os_ymm && Bit(b, 5);
  cpu.avx512f = cpu.os_zmm && Bit(b, 16);
  cpu.avx512dq = cpu.os_zmm && Bit(b, 17);
  cpu.avx512bw = cpu.os_zmm && Bit(b, 30);
  cpu.avx512vl = cpu.os_zmm && Bit(b, 31);
  cpu.avx512_vnni = cpu.os_zmm && Bit(c, 11);
  if (subleaves >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d)) cpu.avx_vnni = cpu.os_ymm && Bit(a, 4);
  return cpu;
}

#else

CpuFeatures Detect() { return {}; }

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

std::string Missing(std::span<const Requirement> needs, const CpuFeatures& cpu) {
  std::string names;
  for (const Requirement& need : needs) {
    if (!(cpu.*need.flag)) names += (names.empty() ? "" : ", ") + std::string(need.name);
  }
  return names;
}

std::string IsaNames() {
  std::string names;
  for (const IsaInfo& info : kIsas) names += (names.empty() ? "" : ", ") + std::string(info.name);
  return names;
}

}  // namespace

const CpuFeatures& HostCpuFeatures() {
  static const CpuFeatures features = Detect();
  return features;
}

std::span<const IsaInfo> AllIsas() { return kIsas; }

const IsaInfo& InfoOf(Isa isa) { return kIsas[static_cast<size_t>(isa)]; }

std::string UnavailableReason(Isa isa, const CpuFeatures& cpu) {
  if (isa == Isa::kPortable) return "";
#if !defined(__x86_64__)
  (void)cpu;
  return "this build is not for x86-64";
#else
  const bool wide = isa == Isa::kAvx512Bw || isa == Isa::kAvx512Vnni;
  if (!cpu.os_ymm) return "the operating system does not save AVX registers";
  if (wide && !cpu.os_zmm) return "the operating system or hypervisor does not enable AVX-512 state";
  std::string missing = Missing(kAvx2Needs, cpu);
  auto add = [&](std::span<const Requirement> needs) {
    const std::string more = Missing(needs, cpu);
    if (!more.empty()) missing += (missing.empty() ? "" : ", ") + more;
  };
  if (wide) add(kAvx512Needs);
  if (isa == Isa::kAvxVnni) add(kAvxVnniNeeds);
  if (isa == Isa::kAvx512Vnni) add(kAvx512VnniNeeds);
  return missing.empty() ? "" : "the CPU has no " + missing;
#endif
}

Status SelectIsa(const char* requested, Isa* isa) {
  const char* source = "isa";
  if (requested == nullptr || *requested == '\0') {
    requested = std::getenv("ORT_MLAS_ISA");
    source = "ORT_MLAS_ISA";
  }
  const CpuFeatures& cpu = HostCpuFeatures();
  if (requested == nullptr || *requested == '\0') {
    // Ordered slowest first; the portable one is always available.
    for (const IsaInfo& info : kIsas) {
      if (UnavailableReason(info.isa, cpu).empty()) *isa = info.isa;
    }
    return {};
  }
  for (const IsaInfo& info : kIsas) {
    if (std::strcmp(info.name, requested) != 0) continue;
    const std::string reason = UnavailableReason(info.isa, cpu);
    if (!reason.empty()) {
      return Status::Error(std::string(source) + "=" + requested + " can't run here: " + reason + "; unset it to let " +
                           "the fastest available ISA be chosen");
    }
    *isa = info.isa;
    return {};
  }
  return Status::Error(std::string(source) + "=" + requested + " names no ISA; the names are " + IsaNames());
}

}  // namespace onnxruntime_mlas
