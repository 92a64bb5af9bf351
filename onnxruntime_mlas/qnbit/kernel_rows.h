// Builds an ISA's table of kernels from its vocabulary. Included by one translation unit per ISA.
#pragma once

#include "qnbit/kernels.h"
#include "qnbit/tile_fp32.h"
#include "qnbit/tile_int8.h"

namespace onnxruntime_mlas::qnbit {
namespace {

constexpr KernelRow Row(const char* name, Isa isa, const char* compute, const char* path, unsigned rows,
                        unsigned columns) noexcept {
  return {.family = "qnbit",
          .name = name,
          .isa = isa,
          .format = "quad",
          .bits = 2,
          .compute = compute,
          .path = path,
          .tile_rows = rows,
          .tile_columns = columns,
          .block_lengths = kBlockLengths};
}

template <class V, unsigned kRows, unsigned kVecs = kStripColumns / V::kLanes>
constexpr QnbitKernel Int8FusedRow(const char* name, Isa isa) noexcept {
  return {Row(name, isa, "int8", "fused", kRows, kVecs * V::kLanes),
          ComputeType::kInt8,
          false,
          {.run_int8 = RunInt8<V, kRows, kVecs, false>}};
}

template <class V, unsigned kRows, unsigned kVecs = kStripColumns / V::kLanes>
constexpr QnbitKernel Int8PanelRow(const char* name, Isa isa) noexcept {
  return {Row(name, isa, "int8", "panel", kRows, kVecs * V::kLanes),
          ComputeType::kInt8,
          true,
          {.run_int8 = RunInt8<V, kRows, kVecs, true>}};
}

constexpr QnbitKernel ColumnRow(const char* name, Isa isa, unsigned rows, unsigned columns,
                                void (*run)(const Int8Args&)) noexcept {
  KernelRow row = Row(name, isa, "int8", "fused", rows, columns);
  row.format = "column";
  return {row, ComputeType::kInt8, false, {.run_int8 = run}};
}

template <class V, unsigned kRows, unsigned kVecs>
constexpr QnbitKernel Fp32FusedRow(const char* name, Isa isa) noexcept {
  return {Row(name, isa, "fp32", "fused", kRows, kVecs * V::kLanes),
          ComputeType::kFp32,
          false,
          {.run_fp32_fused = RunFp32Fused<V, kRows, kVecs>}};
}

template <class V, unsigned kRows, unsigned kVecs = 2>
constexpr QnbitKernel Fp32PanelRow(const char* name, Isa isa) noexcept {
  return {Row(name, isa, "fp32", "panel", kRows, kVecs * V::kLanes),
          ComputeType::kFp32,
          true,
          {.run_fp32_panel = RunFp32Panel<V, kRows, kVecs>}};
}

}  // namespace
}  // namespace onnxruntime_mlas::qnbit

// The name of a row: family_compute_w<bits>_format_isa_path_r<rows of A>c<columns of C> per tile.
#define QNBIT_ROW_NAME(compute, isa, path, rows, columns) \
  "qnbit_" compute "_w2_quad_" isa "_" path "_r" #rows "c" #columns
#define QNBIT_COLUMN_ROW_NAME(isa, rows, columns) "qnbit_int8_w2_column_" isa "_fused_r" #rows "c" #columns
