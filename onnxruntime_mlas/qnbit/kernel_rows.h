// Builds an ISA's table of kernels from its vocabulary. Included by one translation unit per ISA.
#pragma once

#include "qnbit/kernels.h"
#include "qnbit/tile_fp32.h"
#include "qnbit/tile_int8.h"

namespace onnxruntime_mlas::qnbit {
namespace {

constexpr KernelRow Row(const char* name, Isa isa, unsigned bits, const char* compute, const char* path, unsigned rows,
                        unsigned columns) noexcept {
  return {.family = "qnbit",
          .name = name,
          .isa = isa,
          .format = "quad",
          .bits = bits,
          .compute = compute,
          .path = path,
          .tile_rows = rows,
          .tile_columns = columns,
          .block_lengths = BlockLengths(bits)};
}

template <class V, unsigned kBits, unsigned kRows, unsigned kVecs = kStripColumns / V::kLanes>
constexpr QnbitKernel Int8FusedRow(const char* name, Isa isa) noexcept {
  return {Row(name, isa, kBits, "int8", "fused", kRows, kVecs * V::kLanes),
          ComputeType::kInt8,
          false,
          {.run_int8 = RunInt8<V, kBits, kRows, kVecs, false>}};
}

// Rows of several widths share their code.
template <class V, unsigned kBits, unsigned kRows, unsigned kVecs = kStripColumns / V::kLanes>
constexpr QnbitKernel Int8PanelRow(const char* name, Isa isa) noexcept {
  return {Row(name, isa, kBits, "int8", "panel", kRows, kVecs * V::kLanes),
          ComputeType::kInt8,
          true,
          {.run_int8 = RunInt8<V, kPanelBits, kRows, kVecs, true>}};
}

constexpr QnbitKernel ColumnRow(const char* name, Isa isa, unsigned rows, unsigned columns,
                                void (*run)(const Int8Args&)) noexcept {
  KernelRow row = Row(name, isa, 2, "int8", "fused", rows, columns);
  row.format = "column";
  return {row, ComputeType::kInt8, false, {.run_int8 = run}};
}

template <class V, unsigned kBits, unsigned kRows, unsigned kVecs>
constexpr QnbitKernel Fp32FusedRow(const char* name, Isa isa) noexcept {
  return {Row(name, isa, kBits, "fp32", "fused", kRows, kVecs * V::kLanes),
          ComputeType::kFp32,
          false,
          {.run_fp32_fused = RunFp32Fused<V, kBits, kRows, kVecs>}};
}

// Dequantised panels: rows of all widths share their code.
template <class V, unsigned kBits, unsigned kRows, unsigned kVecs = 2>
constexpr QnbitKernel Fp32PanelRow(const char* name, Isa isa) noexcept {
  return {Row(name, isa, kBits, "fp32", "panel", kRows, kVecs * V::kLanes),
          ComputeType::kFp32,
          true,
          {.run_fp32_panel = RunFp32Panel<V, kRows, kVecs>}};
}

// V: the vocabulary of int8 kernels at that width.
template <class V, unsigned kBits>
constexpr WidthKernels WidthOf(size_t int8_panel_min_rows, size_t fp32_panel_min_rows) noexcept {
  return {.unpack_int8_panel = UnpackInt8Panel<V, kBits>,
          .unpack_fp32_panel = UnpackFp32Panel<V, kBits>,
          .code_offset = kBits == 8 ? V::kCodeOffset : 0,
          .int8_panel_min_rows = int8_panel_min_rows,
          .fp32_panel_min_rows = fp32_panel_min_rows};
}

}  // namespace
}  // namespace onnxruntime_mlas::qnbit

// The name of a row: family_compute_w<bits>_format_isa_path_r<rows of A>c<columns of C> per tile.
#define QNBIT_ROW_NAME(bits, compute, isa, path, rows, columns) \
  "qnbit_" compute "_w" #bits "_quad_" isa "_" path "_r" #rows "c" #columns
#define QNBIT_COLUMN_ROW_NAME(isa, rows, columns) "qnbit_int8_w2_column_" isa "_fused_r" #rows "c" #columns
