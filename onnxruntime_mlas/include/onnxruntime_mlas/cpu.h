// CPU features and the instruction sets (ISAs) that kernels are written for.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "onnxruntime_mlas/core_type.h"

namespace onnxruntime_mlas {

// What the processor offers *and* the operating system lets a program use. On x86-64 a wide-vector flag is set only
// when XGETBV (Intel SDM vol. 1, 13.3) reports the matching state enabled: CPUID alone leads to illegal instructions
// under hypervisors and kernels that leave the state off. On ARM64 the flags are the operating system's own answers.
struct CpuFeatures {
  bool avx2 = false;
  bool fma = false;
  bool f16c = false;
  bool avx_vnni = false;  // VEX-encoded VPDPBUSD
  bool avx512f = false;
  bool avx512bw = false;
  bool avx512dq = false;
  bool avx512vl = false;
  bool avx512_vnni = false;
  bool os_ymm = false;   // XCR0 saves XMM and YMM
  bool os_zmm = false;   // XCR0 saves opmask and ZMM
  bool neon = false;     // Advanced SIMD: part of every ARM64 processor that runs a general-purpose system
  bool dotprod = false;  // FEAT_DotProd: SDOT, UDOT
  bool i8mm = false;     // FEAT_I8MM: SMMLA, USMMLA, USDOT
  bool bf16 = false;     // FEAT_BF16
  bool sve = false;
  bool sme = false;
  CoreType core = CoreType::kUnknown;
  std::string brand;  // processor's own name, e.g. "AMD EPYC 9654 96-Core Processor"
};

const CpuFeatures& HostCpuFeatures();

enum class Isa : uint8_t { kPortable, kAvx2, kAvxVnni, kAvx512Bw, kAvx512Vnni, kNeon, kNeonDotProd, kNeonI8mm };

struct IsaInfo {
  Isa isa;
  const char* name;          // "portable", "avx2", ..., "neon", "neon_dotprod", "neon_i8mm"
  const char* instructions;  // the instruction sets it needs, for people
};

// All ISAs, slowest first within an architecture. Those of another architecture than this build's are never available.
std::span<const IsaInfo> AllIsas();
const IsaInfo& InfoOf(Isa isa);

// Empty when code for `isa` can run on a machine with these features, else a sentence fragment that says what is
// missing, e.g. "the CPU has no AVX512_VNNI".
std::string UnavailableReason(Isa isa, const CpuFeatures& cpu);

}  // namespace onnxruntime_mlas
