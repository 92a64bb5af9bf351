// The list of kernels, over all families. A row says what a kernel reads and needs; the family's own type derived from
// it adds the function to call.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "onnxruntime_mlas/cpu.h"

namespace onnxruntime_mlas {

struct KernelRow {
  const char* family;  // "qnbit"
  const char* name;    // e.g. "qnbit_int8_w2_quad_avx512vnni_fused_r1c16"
  Isa isa;
  const char* format;   // packed format that it reads, "quad"
  unsigned bits;        // weight width
  const char* compute;  // "int8" or "fp32"
  const char* path;     // "fused": unpacks in registers; "panel": reads an unpacked panel
  unsigned tile_rows;   // rows of A per call
  unsigned tile_columns;
  std::span<const uint32_t> block_lengths;
};

// Every row of this build, available here or not.
const std::vector<const KernelRow*>& AllKernels();
// Null when there is no row of that name.
const KernelRow* FindKernel(std::string_view name);

}  // namespace onnxruntime_mlas
