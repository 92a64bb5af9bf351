// What the operating system says about an ARM64 processor: user code may not read the feature registers itself.
#include "platform/detect.h"

#if defined(__aarch64__)

#include <cstdint>
#include <cstdio>

#if defined(__linux__)
#include <sys/auxv.h>
#elif defined(__APPLE__)
#include <sys/sysctl.h>
#elif defined(_WIN32)
#define WIN32_LEAN_AND_MEAN
#include <windows.h>
#endif

namespace onnxruntime_mlas {
namespace {

// On machines with several kinds of core, `midr` is that of the one that was asked.
[[maybe_unused]] void SetCore(uint32_t midr, CpuFeatures* cpu) {
  cpu->core = CoreTypeOf(midr);
  cpu->brand = BrandOf(midr);
  if (!cpu->brand.empty()) return;
  char text[64];
  std::snprintf(text, sizeof(text), "ARM64, implementer 0x%02x, part 0x%03x", static_cast<unsigned>(midr >> 24),
                static_cast<unsigned>((midr >> 4) & 0xFFF));
  cpu->brand = text;
}

#if defined(__linux__)

// The kernel's ABI (Documentation/arch/arm64/elf_hwcaps.rst); headers of older systems lack the later ones.
constexpr unsigned long kAsimd = 1UL << 1;
constexpr unsigned long kCpuid = 1UL << 11;
constexpr unsigned long kAsimdDp = 1UL << 20;
constexpr unsigned long kSve = 1UL << 22;
constexpr unsigned long kI8mm = 1UL << 13;  // this and the next two in AT_HWCAP2
constexpr unsigned long kBf16 = 1UL << 14;
constexpr unsigned long kSme = 1UL << 23;

// Traps into the kernel, which answers for the core it runs on. Without HWCAP_CPUID it would be an illegal instruction.
uint32_t ReadMidr() {
  uint64_t midr;
  __asm__("mrs %0, midr_el1" : "=r"(midr));
  return static_cast<uint32_t>(midr);
}

void Detect(CpuFeatures* cpu) {
  const unsigned long hwcap = getauxval(AT_HWCAP);
  const unsigned long hwcap2 = getauxval(AT_HWCAP2);
  cpu->neon = (hwcap & kAsimd) != 0;
  cpu->dotprod = (hwcap & kAsimdDp) != 0;
  cpu->sve = (hwcap & kSve) != 0;
  cpu->i8mm = (hwcap2 & kI8mm) != 0;
  cpu->bf16 = (hwcap2 & kBf16) != 0;
  cpu->sme = (hwcap2 & kSme) != 0;
  if ((hwcap & kCpuid) != 0) SetCore(ReadMidr(), cpu);
}

#elif defined(__APPLE__)

// False too where this release of macOS doesn't know the name.
bool Flag(const char* name) {
  int value = 0;
  size_t bytes = sizeof(value);
  return sysctlbyname(name, &value, &bytes, nullptr, 0) == 0 && value != 0;
}

void Detect(CpuFeatures* cpu) {
  cpu->neon = true;
  cpu->dotprod = Flag("hw.optional.arm.FEAT_DotProd");
  cpu->i8mm = Flag("hw.optional.arm.FEAT_I8MM");
  cpu->bf16 = Flag("hw.optional.arm.FEAT_BF16");
  cpu->sme = Flag("hw.optional.arm.FEAT_SME");
  cpu->core = CoreType::kApple;
  char brand[128] = {};
  size_t bytes = sizeof(brand) - 1;
  if (sysctlbyname("machdep.cpu.brand_string", brand, &bytes, nullptr, 0) == 0) cpu->brand = brand;
}

#elif defined(_WIN32)

// winnt.h; SDKs before 10.0.26100 lack the last three, and Windows before it answers "no".
constexpr DWORD kDotProd = 43;  // PF_ARM_V82_DP_INSTRUCTIONS_AVAILABLE
constexpr DWORD kSve = 46;      // PF_ARM_SVE_INSTRUCTIONS_AVAILABLE
constexpr DWORD kI8mm = 66;     // PF_ARM_V82_I8MM_INSTRUCTIONS_AVAILABLE
constexpr DWORD kBf16 = 68;     // PF_ARM_V86_BF16_INSTRUCTIONS_AVAILABLE
constexpr DWORD kSme = 70;      // PF_ARM_SME_INSTRUCTIONS_AVAILABLE

void Detect(CpuFeatures* cpu) {
  const auto has = [](DWORD feature) { return IsProcessorFeaturePresent(feature) != FALSE; };
  cpu->neon = true;
  cpu->dotprod = has(kDotProd);
  cpu->i8mm = has(kI8mm);
  cpu->bf16 = has(kBf16);
  cpu->sve = has(kSve);
  cpu->sme = has(kSme);
  // The kernel leaves the ID registers there, each under "CP " and its encoding op0.op1.CRn.CRm.op2: 0x4000 is
  // MIDR_EL1.
  const char* const key = "HARDWARE\\DESCRIPTION\\System\\CentralProcessor\\0";
  uint64_t midr = 0;
  DWORD bytes = sizeof(midr);
  if (RegGetValueA(HKEY_LOCAL_MACHINE, key, "CP 4000", RRF_RT_REG_QWORD, nullptr, &midr, &bytes) == ERROR_SUCCESS) {
    SetCore(static_cast<uint32_t>(midr), cpu);
  }
  char brand[128] = {};
  bytes = sizeof(brand);
  if (RegGetValueA(HKEY_LOCAL_MACHINE, key, "ProcessorNameString", RRF_RT_REG_SZ, nullptr, brand, &bytes) ==
      ERROR_SUCCESS) {
    cpu->brand = brand;
  }
}

#else
#error "Detection of ARM64 features is missing for this operating system"
#endif

}  // namespace

CpuFeatures DetectCpu() {
  CpuFeatures cpu;
  Detect(&cpu);
  return cpu;
}

}  // namespace onnxruntime_mlas

#endif
