// CPUID, and what the operating system says about the registers it saves.
#include "platform/detect.h"

#if defined(__x86_64__)

#include <cpuid.h>

#include <cstring>

namespace onnxruntime_mlas {
namespace {

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

}  // namespace

CpuFeatures DetectCpu() {
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

}  // namespace onnxruntime_mlas

#endif
