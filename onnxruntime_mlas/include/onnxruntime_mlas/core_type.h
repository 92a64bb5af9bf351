// The micro-architecture of an ARM64 core, which decides what an instruction costs where the features are the same.
#pragma once

#include <cstdint>

namespace onnxruntime_mlas {

enum class CoreType : uint8_t {
  kUnknown,
  kCortexA53,
  kCortexA55,
  kCortexA57,
  kCortexA72,
  kCortexA73,
  kCortexA75,
  kCortexA76,
  kCortexA77,
  kCortexA78,
  kCortexA510,
  kCortexA520,
  kCortexA710,
  kCortexA715,
  kCortexA720,
  kCortexA725,
  kCortexX1,
  kCortexX2,
  kCortexX3,
  kCortexX4,
  kCortexX925,
  kNeoverseN1,
  kNeoverseN2,
  kNeoverseN3,
  kNeoverseV1,
  kNeoverseV2,
  kNeoverseV3,
  kAmpere1,
  kOryon,
  kApple,
};

// e.g. "neoverse_n2"; "unknown" on x86-64 and for cores that are not in the list.
const char* NameOf(CoreType core);
// kUnknown when there is no core of that name.
CoreType CoreTypeNamed(const char* name);

// `midr` is the register MIDR_EL1 (Arm ARM, D24.2): implementer in bits 31:24, part number in bits 15:4.
CoreType CoreTypeOf(uint32_t midr);
// Maker and core for people, e.g. "Arm Neoverse-N2"; empty for a core that is not in the list.
const char* BrandOf(uint32_t midr);

}  // namespace onnxruntime_mlas
