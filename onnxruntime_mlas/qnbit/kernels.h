// What a kernel is given and the table of kernels of an ISA. The driver (gemm.cpp) is the only caller.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "onnxruntime_mlas/kernel_registry.h"
#include "onnxruntime_mlas/qnbit.h"
#include "qnbit/layout.h"
#include "qnbit/unrolled.h"

namespace onnxruntime_mlas::qnbit {

// NEON applies these as whole vectors: a load costs less there than broadcasting, which takes a vector operation.
#if defined(__aarch64__)
inline constexpr size_t kActivationLanes = 4;
#else
inline constexpr size_t kActivationLanes = 1;
#endif

// How planes of a unit are masked at M = 1 (dot_int8.h, PlaneInPlace): plane p is shifted down by shift[p] bits, then
// its codes stand times 2^(bits * set[p]) and go to that one of `sets` sets of accumulators. With `alternate`, units
// take turns in two of each.
struct InPlaceRule {
  unsigned sets;
  int shift[4];
  unsigned set[4];
  bool alternate = false;
};

// One block of one quantised row of A, repeated in every lane; of a row pair (IsaKernels::arrange_rows), the first row
// in the lower half of the lanes and the second in the upper.
struct ActivationBlock {
  int32_t
      term[kActivationLanes];  // what the zero points multiply, prepared by kind: uniform: -zero_point * sum(q)
                               // plus the ISA's sum_bias, where accumulators start; per block: -sum(q); float: sum(q)
  float scale[kActivationLanes];  // amax / 127
};

inline constexpr size_t kMaxTileStrips = 2;

// Neighbouring strips (or their panels) times `rows` quantised rows, over a range of blocks: one strip and all blocks
// in the column format.
struct Int8Args {
  const std::byte* b;           // first strip's first block of the range
  size_t b_stride;              // bytes between strips
  const int8_t* a;              // first row's first block of the range
  size_t a_stride;              // bytes between rows
  const ActivationBlock* meta;  // first row's first block of the range
  size_t meta_stride;           // elements between rows
  size_t blocks;
  const Layout* layout;
  float* c;
  size_t ldc;
  size_t columns;     // that exist in C, over all the strips
  bool first;         // the range starts at k = 0: C is written, not accumulated into
  const float* bias;  // added at the end when not null; set only for the range that ends at k
};

// Neighbouring strips times `rows` rows of fp32 A, over all k.
struct Fp32FusedArgs {
  const std::byte* b;  // first strip
  size_t strips;
  const Layout* layout;
  float uniform_zero_point;
  const float* a;
  size_t lda;
  size_t k;
  float* c;
  size_t ldc;
  size_t columns;  // that exist in C, over all the strips
  const float* bias;
};

// An fp32 panel times `rows` rows, over a range of k. Panel: [k][columns rounded up to whole vectors], dequantised.
struct Fp32PanelArgs {
  const float* panel;
  size_t panel_stride;  // floats between k
  const float* a;
  size_t lda;
  size_t k;  // of the range
  float* c;
  size_t ldc;
  size_t columns;
  bool first;
  const float* bias;
};

struct QnbitKernel : KernelRow {
  ComputeType compute_type;
  bool panel;
  union {
    void (*run_int8)(const Int8Args&);
    void (*run_fp32_fused)(const Fp32FusedArgs&);
    void (*run_fp32_panel)(const Fp32PanelArgs&);
  };
};

// A row of A to be quantised: parts [first, first + parts) of it (layout.h).
struct QuantizeArgs {
  const void* a;     // the row
  size_t k;          // that exist of it, the rest counts as 0
  size_t block_len;  // k that share a scale
  size_t part_len;   // k that share a sum; divides block_len
  size_t first;
  size_t parts;
  int8_t* q;  // [parts * part_len], and so on: from `first` on
  float* scales;
  int32_t* sums;
};

// What is done to A and C, by ElementType.
struct ActivationKernels {
  // False when the row must be computed as kFp32.
  bool (*quantize_row[kElementTypes])(const QuantizeArgs& args);
  // From and to float32, half to even; null for kFloat32.
  void (*widen[kElementTypes])(const void* from, size_t count, float* to);
  void (*narrow[kElementTypes])(const float* from, size_t count, void* to);
};

// As a panel threshold: panels run by name only, since unpacking in registers was faster at every M measured.
inline constexpr size_t kNever = ~size_t{0};

// What an ISA has for one width of weights.
struct WidthKernels {
  // Unpacks `blocks` blocks of one strip into an int8 panel.
  void (*unpack_int8_panel)(const std::byte* b, size_t blocks, const Layout& layout, std::byte* panel);
  // Dequantises k in [k_begin, k_end) of one strip, k_begin a multiple of a unit, to panel[(k - k_begin) * stride].
  void (*unpack_fp32_panel)(const std::byte* strip, const Layout& layout, float uniform_zero_point, size_t k_begin,
                            size_t k_end, float* panel, size_t stride);
  int32_t code_offset;         // what int8 kernels' codes are less than the weights' (kCodeOffset of the vocabulary)
  size_t int8_panel_min_rows;  // from this M on, unpacking a panel once beats unpacking in registers
  size_t fp32_panel_min_rows;
};

// Everything the driver needs of one ISA. Tables are constant-initialised: nothing of an ISA's translation unit may
// run on a machine that lacks it, not even a static initialiser.
struct IsaKernels {
  // Of one width and path: falling tile_rows down to 1. Where several are equally tall, the first is chosen and the
  // others run by name only.
  std::span<const QnbitKernel> int8_rows;
  std::span<const QnbitKernel> fp32_rows;         // may be another ISA's that this one includes
  std::span<const QnbitKernel> column_rows = {};  // int8 kernels of column buffers; empty: the portable ones serve

  WidthKernels widths[3];  // of 2, 4 and 8 bits
  const WidthKernels& of(uint32_t bits) const { return widths[bits == 2 ? 0 : bits == 4 ? 1 : 2]; }

  ActivationKernels activations;

  // Null, or brings int8 rows into the operand order of matrix instructions: `blocks` whole blocks of two quantised
  // rows, q1 null for a row on its own, to 2 * block_len or block_len bytes a block (layout.h).
  void (*arrange_rows)(const int8_t* q0, const int8_t* q1, const Layout& layout, size_t blocks, int8_t* to);

  int32_t sum_bias;          // int32 sums are kept plus this (kSumBias of the vocabulary)
  size_t int8_strips;        // that an int8 kernel is given side by side, up to kMaxTileStrips
  size_t fp32_panel_strips;  // that an fp32 panel holds side by side
};

const IsaKernels& KernelsOf(Isa isa);

// IsaKernels::unpack_fp32_panel of column buffers, for every ISA.
void UnpackColumnFp32Panel(const std::byte* strip, const Layout& layout, float uniform_zero_point, size_t k_begin,
                           size_t k_end, float* panel, size_t stride);
inline constexpr size_t kPortableColumnRowCount = 1;
extern const QnbitKernel kPortableColumnRows[kPortableColumnRowCount];

extern const IsaKernels kPortableKernels;
#if defined(__x86_64__) || defined(_M_X64)
extern const IsaKernels kAvx2Kernels;
extern const IsaKernels kAvxVnniKernels;
extern const IsaKernels kAvx512BwKernels;
extern const IsaKernels kAvx512VnniKernels;
#elif defined(__aarch64__) || defined(_M_ARM64)
extern const IsaKernels kNeonKernels;
extern const IsaKernels kNeonDotProdKernels;
extern const IsaKernels kNeonI8mmKernels;
#endif

}  // namespace onnxruntime_mlas::qnbit
