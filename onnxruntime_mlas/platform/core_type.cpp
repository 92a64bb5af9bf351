// Implementers and part numbers: Arm's Technical Reference Manuals, and for other makers LLVM's Host.cpp and Linux'
// arch/arm64/include/asm/cputype.h.
#include "onnxruntime_mlas/core_type.h"

#include <cstring>

namespace onnxruntime_mlas {
namespace {

struct Core {
  CoreType type;
  uint8_t implementer;
  uint16_t part;
  const char* name;
  const char* brand;
};

constexpr uint8_t kArm = 0x41;
constexpr uint8_t kQualcomm = 0x51;
constexpr uint8_t kApple = 0x61;
constexpr uint8_t kMicrosoft = 0x6d;
constexpr uint8_t kAmpere = 0xc0;
constexpr uint16_t kAnyPart = 0xFFFF;

// Of several rows with one type the first gives the name.
constexpr Core kCores[] = {
    {CoreType::kCortexA53, kArm, 0xd03, "cortex_a53", "Arm Cortex-A53"},
    {CoreType::kCortexA55, kArm, 0xd05, "cortex_a55", "Arm Cortex-A55"},
    {CoreType::kCortexA57, kArm, 0xd07, "cortex_a57", "Arm Cortex-A57"},
    {CoreType::kCortexA72, kArm, 0xd08, "cortex_a72", "Arm Cortex-A72"},
    {CoreType::kCortexA73, kArm, 0xd09, "cortex_a73", "Arm Cortex-A73"},
    {CoreType::kCortexA75, kArm, 0xd0a, "cortex_a75", "Arm Cortex-A75"},
    {CoreType::kCortexA76, kArm, 0xd0b, "cortex_a76", "Arm Cortex-A76"},
    {CoreType::kCortexA76, kArm, 0xd0e, "cortex_a76", "Arm Cortex-A76AE"},
    {CoreType::kCortexA77, kArm, 0xd0d, "cortex_a77", "Arm Cortex-A77"},
    {CoreType::kCortexA78, kArm, 0xd41, "cortex_a78", "Arm Cortex-A78"},
    {CoreType::kCortexA78, kArm, 0xd42, "cortex_a78", "Arm Cortex-A78AE"},
    {CoreType::kCortexA78, kArm, 0xd4b, "cortex_a78", "Arm Cortex-A78C"},
    {CoreType::kCortexA510, kArm, 0xd46, "cortex_a510", "Arm Cortex-A510"},
    {CoreType::kCortexA520, kArm, 0xd80, "cortex_a520", "Arm Cortex-A520"},
    {CoreType::kCortexA710, kArm, 0xd47, "cortex_a710", "Arm Cortex-A710"},
    {CoreType::kCortexA715, kArm, 0xd4d, "cortex_a715", "Arm Cortex-A715"},
    {CoreType::kCortexA720, kArm, 0xd81, "cortex_a720", "Arm Cortex-A720"},
    {CoreType::kCortexA725, kArm, 0xd87, "cortex_a725", "Arm Cortex-A725"},
    {CoreType::kCortexX1, kArm, 0xd44, "cortex_x1", "Arm Cortex-X1"},
    {CoreType::kCortexX1, kArm, 0xd4c, "cortex_x1", "Arm Cortex-X1C"},
    {CoreType::kCortexX2, kArm, 0xd48, "cortex_x2", "Arm Cortex-X2"},
    {CoreType::kCortexX3, kArm, 0xd4e, "cortex_x3", "Arm Cortex-X3"},
    {CoreType::kCortexX4, kArm, 0xd82, "cortex_x4", "Arm Cortex-X4"},
    {CoreType::kCortexX925, kArm, 0xd85, "cortex_x925", "Arm Cortex-X925"},
    {CoreType::kNeoverseN1, kArm, 0xd0c, "neoverse_n1", "Arm Neoverse-N1"},
    {CoreType::kNeoverseN2, kArm, 0xd49, "neoverse_n2", "Arm Neoverse-N2"},
    {CoreType::kNeoverseN2, kMicrosoft, 0xd49, "neoverse_n2", "Microsoft Azure Cobalt 100"},
    {CoreType::kNeoverseN3, kArm, 0xd8e, "neoverse_n3", "Arm Neoverse-N3"},
    {CoreType::kNeoverseV1, kArm, 0xd40, "neoverse_v1", "Arm Neoverse-V1"},
    {CoreType::kNeoverseV2, kArm, 0xd4f, "neoverse_v2", "Arm Neoverse-V2"},
    {CoreType::kNeoverseV3, kArm, 0xd84, "neoverse_v3", "Arm Neoverse-V3"},
    {CoreType::kNeoverseV3, kArm, 0xd83, "neoverse_v3", "Arm Neoverse-V3AE"},
    {CoreType::kAmpere1, kAmpere, 0xac3, "ampere1", "Ampere-1"},
    {CoreType::kAmpere1, kAmpere, 0xac4, "ampere1", "Ampere-1A"},
    {CoreType::kAmpere1, kAmpere, 0xac5, "ampere1", "Ampere-1B"},
    {CoreType::kOryon, kQualcomm, 0x001, "oryon", "Qualcomm Oryon"},
    {CoreType::kApple, kApple, kAnyPart, "apple", "Apple"},
};

const Core* Find(uint32_t midr) {
  const uint32_t implementer = (midr >> 24) & 0xFF;
  const uint32_t part = (midr >> 4) & 0xFFF;
  for (const Core& core : kCores) {
    if (core.implementer == implementer && (core.part == part || core.part == kAnyPart)) return &core;
  }
  return nullptr;
}

}  // namespace

const char* NameOf(CoreType type) {
  for (const Core& core : kCores) {
    if (core.type == type) return core.name;
  }
  return "unknown";
}

CoreType CoreTypeNamed(const char* name) {
  for (const Core& core : kCores) {
    if (std::strcmp(core.name, name) == 0) return core.type;
  }
  return CoreType::kUnknown;
}

CoreType CoreTypeOf(uint32_t midr) {
  const Core* const core = Find(midr);
  return core == nullptr ? CoreType::kUnknown : core->type;
}

const char* BrandOf(uint32_t midr) {
  const Core* const core = Find(midr);
  return core == nullptr ? "" : core->brand;
}

}  // namespace onnxruntime_mlas
