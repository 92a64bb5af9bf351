// What a processor can do at most, in inline assembly: compilers add register moves to the same loop written in
// intrinsics, and a peak that reads low flatters every kernel compared with it. The instructions are named in the
// assembly only, so that no file needs ISA flags; each loop runs only where the host has what it needs.
//
// One file per architecture defines these.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "onnxruntime_mlas/cpu.h"

#if !defined(__x86_64__) && !defined(__aarch64__)
#error "The bindings can measure x86-64 and ARM64 only: build with ORT_MLAS_BUILD_BINDINGS=OFF"
#endif

namespace onnxruntime_mlas::bindings {

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

std::span<const PeakLoop> PeakLoops();

// Multiplying instructions per cycle of the widest core that exists, and whether a core may have a rate of 1.5, 2.5,
// ...
#if defined(__x86_64__)
inline constexpr unsigned kMostPerCycle = 4;
inline constexpr bool kHalvesAboveOne = true;
#else
inline constexpr unsigned kMostPerCycle = 6;  // Cortex-X925
inline constexpr bool kHalvesAboveOne = false;
#endif

// kChainLength additions per iteration, each of which waits for the one before and takes one cycle.
inline constexpr unsigned kChainLength = 64;
void AddChain(uint64_t iterations);

// Reads `streams` parts side by side, `part` bytes each, a multiple of kReadGroup.
inline constexpr size_t kReadGroup = 256;
void ReadStreams(const std::byte* data, size_t part, size_t streams);

}  // namespace onnxruntime_mlas::bindings
