// Which ISA's kernels run a product, by its number of rows. On x86-64 the fastest ISA is the fastest for every M; on
// ARM64 the matrix-multiply instructions need pairs of rows to pay, so the choice depends on M and on the core.
#pragma once

#include <cstddef>

#include "onnxruntime_mlas/cpu.h"
#include "onnxruntime_mlas/status.h"

namespace onnxruntime_mlas {

struct IsaChoice {
  Isa one_row = Isa::kPortable;    // M = 1
  Isa few_rows = Isa::kPortable;   // 2 <= M < many_from
  Isa many_rows = Isa::kPortable;  // M >= many_from
  size_t many_from = 2;

  static constexpr IsaChoice Only(Isa isa) { return {isa, isa, isa, 2}; }

  constexpr Isa For(size_t m) const { return m < 2 ? one_row : m < many_from ? few_rows : many_rows; }
  constexpr bool operator==(const IsaChoice&) const = default;
};

// The rule's answer for a machine whose fastest available ISA and kind of core are these.
IsaChoice DefaultIsas(Isa fastest, CoreType core);

// The last available one of AllIsas(): the portable one is always there.
Isa FastestIsa(const CpuFeatures& cpu);

// `requested` alone, by name, if not null and not empty; else the ISA that the environment variable ORT_MLAS_ISA names
// if set and not empty; else DefaultIsas of this machine. Fails on an unknown name and on an ISA that this machine
// can't run.
Status SelectIsas(const char* requested, IsaChoice* choice);

}  // namespace onnxruntime_mlas
