#include "qnbit/prepare.h"

#include <algorithm>
#include <cstring>

namespace onnxruntime_mlas::qnbit {
namespace {

// Rows at a multiple of 4 KiB apart share L1 sets.
constexpr size_t kRowSkew = 64;
constexpr size_t kAliasBytes = 4096;
// From this many float32 rows on, a copy with other distances costs less than what it saves.
constexpr size_t kMinAliasingRows = 8;

bool IsNarrow(const GemmArgs& args) { return args.type != ElementType::kFloat32; }

bool CopiesFloats(const GemmArgs& args) {
  const bool aliasing =
      args.compute == ComputeType::kFp32 && args.m >= kMinAliasingRows && args.lda * sizeof(float) % kAliasBytes == 0;
  return args.gather != nullptr || IsNarrow(args) || aliasing;
}

// What a row's sum over a block is multiplied by to give ActivationBlock::term, where codes come out less code_offset.
int32_t TermFactor(const PackedInfo& info, int32_t code_offset) {
  switch (info.zero_point_kind) {
    case ZeroPointKind::kUniform:
      return code_offset - static_cast<int32_t>(info.uniform_zero_point);
    case ZeroPointKind::kPerBlock:
      return -1;
    case ZeroPointKind::kFloat:
      return 1;
  }
  return 1;
}

}  // namespace

Workspace PlanWorkspace(const GemmArgs& args, const Layout& layout) {
  const PackedInfo& info = args.b->info;
  Workspace w{};
  size_t end = 0;
  if (args.compute == ComputeType::kInt8) {
    w.q_stride = RoundUp(layout.blocks * layout.block_len, kPackedAlignment) + kRowSkew;
    w.meta = RoundUp(args.m * w.q_stride, kPackedAlignment);
    w.flags = w.meta + args.m * layout.blocks * sizeof(ActivationBlock);
    end = w.flags + args.m;
  }
  if (CopiesFloats(args)) {
    w.floats = RoundUp(end, kPackedAlignment);
    w.float_stride = RoundUp(info.k, kPackedAlignment / sizeof(float)) + kRowSkew / sizeof(float);
    end = w.floats + args.m * w.float_stride * sizeof(float);
  }
  if (IsNarrow(args)) {
    w.sums = RoundUp(end, kPackedAlignment);
    end = w.sums + args.m * info.n * sizeof(float);
  }
  w.bytes = RoundUp(end, kPackedAlignment);
  return w;
}

PreparedRows::PreparedRows(const GemmArgs& args, const Layout& layout, const IsaKernels& isa, const IsaKernels& int8,
                           int32_t code_offset, bool arrange, size_t row_group)
    : args_(args),
      layout_(layout),
      plan_(PlanWorkspace(args, layout)),
      kernels_(isa.activations),
      arrange_(arrange ? int8.arrange_rows : nullptr),
      row_group_(row_group),
      term_factor_(TermFactor(args.b->info, code_offset)),
      term_bias_(args.b->info.zero_point_kind == ZeroPointKind::kUniform ? int8.sum_bias : 0) {
  const bool own_floats = CopiesFloats(args);
  floats_ =
      own_floats ? reinterpret_cast<const float*>(args.workspace + plan_.floats) : static_cast<const float*>(args.a);
  float_stride_ = own_floats ? plan_.float_stride : args.lda;
  c_ = IsNarrow(args_) ? reinterpret_cast<float*>(args.workspace + plan_.sums) : static_cast<float*>(args.c);
  c_stride_ = IsNarrow(args_) ? args.b->info.n : args.ldc;
}

void PreparedRows::Prepare() const {
  constexpr size_t kElementsPerTask = 32 * 1024;
  const bool int8 = args_.compute == ComputeType::kInt8;
  // Rows of 16 bits are quantised as they stand, and widened only where kernels read float32.
  const bool make_floats = args_.gather != nullptr || (CopiesFloats(args_) && !int8);
  if (!int8 && !make_floats) return;
  const size_t rows_per_task = RoundUp(std::max<size_t>(1, kElementsPerTask / args_.b->info.k), row_group_);
  args_.parallel(CeilDiv(args_.m, rows_per_task), [&](size_t task) {
    const size_t end = std::min((task + 1) * rows_per_task, args_.m);
    for (size_t row = task * rows_per_task; row < end; row += row_group_) {
      const size_t rows = GroupAt(row);
      for (size_t i = row; make_floats && i < row + rows; ++i) MakeFloats(i);
      if (int8) Quantize(row, rows);
    }
  });
}

const void* PreparedRows::Source(size_t row) const {
  return static_cast<const std::byte*>(args_.a) + row * args_.lda * BytesOf(args_.type);
}

void PreparedRows::MakeFloats(size_t row) const {
  const size_t k = args_.b->info.k;
  auto* const to = reinterpret_cast<float*>(args_.workspace + plan_.floats) + row * plan_.float_stride;
  if (args_.gather == nullptr && !IsNarrow(args_)) {
    std::memcpy(to, Source(row), k * sizeof(float));
    return;
  }
  if (args_.gather == nullptr) return kernels_.widen[static_cast<size_t>(args_.type)](Source(row), k, to);
  const int32_t* const gather = args_.gather;
  if (!IsNarrow(args_)) {
    const auto* const from = static_cast<const float*>(Source(row));
    for (size_t i = 0; i < k; ++i) to[i] = gather[i] < 0 ? 0.0f : from[gather[i]];
    return;
  }
  // A chunk's elements brought together, then widened as a row is.
  constexpr size_t kChunk = 256;
  uint16_t chunk[kChunk];
  const auto* const from = static_cast<const uint16_t*>(Source(row));
  for (size_t first = 0; first < k; first += kChunk) {
    const size_t count = std::min(kChunk, k - first);
    for (size_t i = 0; i < count; ++i) chunk[i] = gather[first + i] < 0 ? uint16_t{0} : from[gather[first + i]];
    kernels_.widen[static_cast<size_t>(args_.type)](chunk, count, to + first);
  }
}

// A group of rows, chunk by chunk. A row that can't be quantised counts as zeros from its first block on.
void PreparedRows::Quantize(size_t row, size_t rows) const {
  constexpr size_t kChunk = 64;  // blocks
  alignas(kPackedAlignment) int8_t unarranged[2][kChunk * kMaxPartLen];
  float scales[2][kChunk];
  int32_t sums[2][kChunk];
  const bool gathered = args_.gather != nullptr;
  const ElementType type = gathered ? ElementType::kFloat32 : args_.type;
  const auto quantize_row = kernels_.quantize_row[static_cast<size_t>(type)];
  const auto quantize = [&](size_t i, size_t first, size_t count, int8_t* q) {
    if (Fp32Flag(row + i) == 0) {
      const QuantizeArgs t{.a = gathered ? Floats(row + i) : Source(row + i),
                           .k = args_.b->info.k,
                           .block_len = args_.b->info.block_len,
                           .part_len = layout_.block_len,
                           .first = first,
                           .parts = count,
                           .q = q,
                           .scales = scales[i],
                           .sums = sums[i]};
      if (quantize_row(t)) return true;
      Fp32Flag(row + i) = 1;
      if (IsNarrow(args_) && !gathered) MakeFloats(row + i);
      return false;
    }
    std::memset(q, 0, count * layout_.block_len);
    std::fill_n(scales[i], count, 0.0f);
    std::fill_n(sums[i], count, 0);
    return true;
  };
  for (size_t i = 0; i < rows; ++i) Fp32Flag(row + i) = 0;
  for (size_t first = 0; first < layout_.blocks;) {
    const size_t count = std::min(kChunk, layout_.blocks - first);
    int8_t* to = Quantized(row) + first * layout_.block_len * rows;
    bool quantized = true;
    for (size_t i = 0; i < rows; ++i) quantized &= quantize(i, first, count, arrange_ != nullptr ? unarranged[i] : to);
    if (!quantized) {
      first = 0;
      continue;
    }
    if (arrange_ != nullptr) arrange_(unarranged[0], rows == 2 ? unarranged[1] : nullptr, layout_, count, to);
    ActivationBlock* meta = Meta(row) + first;
    for (size_t block = 0; block < count; ++block) {
      for (size_t lane = 0; lane < kActivationLanes; ++lane) {
        const size_t i = lane * rows / kActivationLanes;
        meta[block].term[lane] = term_factor_ * sums[i][block] + term_bias_;
        meta[block].scale[lane] = scales[i][block];
      }
    }
    first += count;
  }
}

void PreparedRows::FinishC(size_t row_begin, size_t row_end, size_t column_begin, size_t column_end) const {
  if (!IsNarrow(args_)) return;
  const auto narrow_row = kernels_.narrow[static_cast<size_t>(args_.type)];
  for (size_t row = row_begin; row < row_end; ++row) {
    narrow_row(C(row) + column_begin, column_end - column_begin,
               static_cast<uint16_t*>(args_.c) + row * args_.ldc + column_begin);
  }
}

}  // namespace onnxruntime_mlas::qnbit
