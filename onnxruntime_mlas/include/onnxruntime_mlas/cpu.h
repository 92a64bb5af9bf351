// CPU features and the instruction sets (ISAs) that kernels are written for.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "onnxruntime_mlas/status.h"

namespace onnxruntime_mlas {

// What the processor offers *and* the operating system saves on a context switch. A wide-vector flag is set only when
// XGETBV (Intel SDM vol. 1, 13.3) reports the matching state enabled: CPUID alone leads to illegal instructions under
// hypervisors and kernels that leave the state off.
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
  bool os_ymm = false;  // XCR0 saves XMM and YMM
  bool os_zmm = false;  // XCR0 saves opmask and ZMM
  std::string brand;    // processor's own name, e.g. "AMD EPYC 9654 96-Core Processor"
};

const CpuFeatures& HostCpuFeatures();

enum class Isa : uint8_t { kPortable, kAvx2, kAvxVnni, kAvx512Bw, kAvx512Vnni };

struct IsaInfo {
  Isa isa;
  const char* name;          // "portable", "avx2", "avxvnni", "avx512bw", "avx512vnni"
  const char* instructions;  // the instruction sets it needs, for people
};

// All ISAs known to this build, slowest first.
std::span<const IsaInfo> AllIsas();
const IsaInfo& InfoOf(Isa isa);

// Empty when code for `isa` can run on a machine with these features, else a sentence fragment that says what is
// missing, e.g. "the CPU has no AVX512_VNNI".
std::string UnavailableReason(Isa isa, const CpuFeatures& cpu);

// The ISA to use: `requested` by name if not null and not empty; else the environment variable ORT_MLAS_ISA if set and
// not empty; else the fastest available. Fails on an unknown name and on an ISA that this machine can't run.
Status SelectIsa(const char* requested, Isa* isa);

}  // namespace onnxruntime_mlas
