// What the driver makes of A before kernels run, in the workspace: rows gathered, widened to float32 or moved apart,
// and for kInt8 quantised.
#pragma once

#include <cstddef>
#include <cstdint>

#include "onnxruntime_mlas/qnbit.h"
#include "qnbit/kernels.h"
#include "qnbit/layout.h"

namespace onnxruntime_mlas::qnbit {

inline size_t CeilDiv(size_t x, size_t y) { return x / y + (x % y != 0); }
inline size_t RoundUp(size_t x, size_t y) { return CeilDiv(x, y) * y; }

// Offsets into the workspace, and strides.
struct Workspace {
  size_t q_stride;  // bytes between quantised rows, which start at 0
  size_t meta;      // ActivationBlock [m, blocks]
  size_t flags;     // uint8 [m]: 1 where a row can't be quantised and must be computed as kFp32
  size_t floats;    // float32 [m, float_stride]: A, when it is gathered, of 16 bits or moved apart
  size_t float_stride;
  size_t sums;  // float32 [m, n]: C before it is narrowed, when it is of 16 bits
  size_t bytes;
};
Workspace PlanWorkspace(const GemmArgs& args, const Layout& layout);

class PreparedRows {
 public:
  // `int8`: whose int8 kernels run on the rows; `code_offset`: of theirs. `row_group` neighbouring rows are arranged
  // together: 2 or 1.
  PreparedRows(const GemmArgs& args, const Layout& layout, const IsaKernels& isa, const IsaKernels& int8,
               int32_t code_offset, bool arrange, size_t row_group);

  // To be called once, before anything else.
  void Prepare() const;

  // Rows that stand together, as IsaKernels::arrange_rows leaves them, from this one on.
  size_t GroupAt(size_t row) const { return row_group_ < args_.m - row ? row_group_ : args_.m - row; }
  // A row group's first quantised block.
  int8_t* Quantized(size_t row) const { return reinterpret_cast<int8_t*>(args_.workspace) + row * plan_.q_stride; }
  size_t q_stride() const { return plan_.q_stride; }
  ActivationBlock* Meta(size_t row) const {
    return reinterpret_cast<ActivationBlock*>(args_.workspace + plan_.meta) + row * layout_.blocks;
  }
  bool IsFp32Row(size_t row) const { return Fp32Flag(row) != 0; }

  const float* Floats(size_t row) const { return floats_ + row * float_stride_; }
  size_t float_stride() const { return float_stride_; }

  // Where kernels put C, and where it belongs in the end when that is elsewhere.
  float* C(size_t row) const { return c_ + row * c_stride_; }
  size_t c_stride() const { return c_stride_; }
  void FinishC(size_t row_begin, size_t row_end, size_t column_begin, size_t column_end) const;

 private:
  uint8_t& Fp32Flag(size_t row) const { return reinterpret_cast<uint8_t*>(args_.workspace + plan_.flags)[row]; }
  const void* Source(size_t row) const;
  void MakeFloats(size_t row) const;
  void Quantize(size_t row, size_t rows) const;

  const GemmArgs& args_;
  const Layout& layout_;
  const Workspace plan_;
  const ActivationKernels& kernels_;
  void (*const arrange_)(const int8_t*, const int8_t*, const Layout&, size_t, int8_t*);
  const size_t row_group_;
  const int32_t term_factor_;
  const int32_t term_bias_;
  const float* floats_;
  size_t float_stride_;
  float* c_;
  size_t c_stride_;
};

}  // namespace onnxruntime_mlas::qnbit
