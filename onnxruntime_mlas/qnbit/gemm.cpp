// The driver: quantises A, splits the work by shape alone, and calls kernels.
//
// A task owns a range of strips and rows of C and all of k for them, so no two tasks write the same element and a
// row's sums are in k order however the work is split.
#include <algorithm>
#include <cstring>
#include <span>
#include <string>

#include "onnxruntime_mlas/qnbit.h"
#include "qnbit/kernels.h"

namespace onnxruntime_mlas::qnbit {
namespace {

// A panel lives on the task's stack: half of a 48 KiB L1 cache and most of a 32 KiB one.
constexpr size_t kInt8PanelBytes = 24 * 1024;
constexpr size_t kFp32PanelBytes = 16 * 1024;
// Rows of A that pass one panel before the next strip: what they hold of a panel's k must stay in an L2 cache of 512
// KiB, whose sets fp32 rows a multiple of 4 KiB apart fill unevenly.
constexpr size_t kInt8RowsPerPass = 256;
constexpr size_t kFp32RowsPerPass = 128;
// Fewer multiply-adds than this are not worth a task of their own (about 20 us on one core).
constexpr size_t kMinTaskWork = size_t{1} << 20;
constexpr size_t kMaxTasks = 64;
// Rows at a multiple of 4 KiB apart would share L1 sets.
constexpr size_t kRowSkew = 64;

size_t CeilDiv(size_t x, size_t y) { return x / y + (x % y != 0); }
size_t RoundUp(size_t x, size_t y) { return CeilDiv(x, y) * y; }

struct WorkspaceLayout {
  size_t q_stride;  // bytes between quantised rows
  size_t meta;      // offsets
  size_t flags;
  size_t gathered;
  size_t gathered_stride;  // floats
  size_t bytes;
};

WorkspaceLayout PlanWorkspace(const GemmArgs& args) {
  const PackedInfo& info = args.b->info;
  const size_t blocks = info.k_blocks();
  WorkspaceLayout w{};
  size_t end = 0;
  if (args.compute == ComputeType::kInt8) {
    w.q_stride = RoundUp(blocks * info.block_len, kPackedAlignment) + kRowSkew;
    w.meta = RoundUp(args.m * w.q_stride, kPackedAlignment);
    w.flags = w.meta + args.m * blocks * sizeof(ActivationBlock);
    end = w.flags + args.m;
  }
  if (args.gather != nullptr) {
    w.gathered = RoundUp(end, kPackedAlignment);
    w.gathered_stride = RoundUp(info.k, kPackedAlignment / sizeof(float)) + kRowSkew / sizeof(float);
    end = w.gathered + args.m * w.gathered_stride * sizeof(float);
  }
  w.bytes = RoundUp(end, kPackedAlignment);
  return w;
}

// The kernels of one path, tallest first, of which none is taller than `row_limit`: `forced`, when not null, and those
// below it.
class TileSet {
 public:
  TileSet(std::span<const QnbitKernel> rows, bool panel, const KernelRow* forced, unsigned row_limit = ~0u) {
    if (forced != nullptr) Add(static_cast<const QnbitKernel&>(*forced));
    for (const QnbitKernel& kernel : rows) {
      const unsigned below = count_ != 0 ? kernels_[count_ - 1]->tile_rows : ~0u;
      if (kernel.panel == panel && kernel.tile_rows < below && kernel.tile_rows <= row_limit) Add(kernel);
    }
  }
  const QnbitKernel& TallestWithin(size_t rows) const {
    size_t i = 0;
    while (kernels_[i]->tile_rows > rows) ++i;
    return *kernels_[i];
  }
  const QnbitKernel& Tallest() const { return *kernels_[0]; }

 private:
  void Add(const QnbitKernel& kernel) { kernels_[count_++] = &kernel; }

  static constexpr size_t kMaxKernels = 8;
  const QnbitKernel* kernels_[kMaxKernels] = {};
  size_t count_ = 0;
};

class GemmRun {
 public:
  explicit GemmRun(const GemmArgs& args)
      : args_(args),
        info_(args.b->info),
        layout_(LayoutOf(info_)),
        column_(info_.format == Format::kColumn),
        isa_(KernelsOf(args.isa)),
        int8_isa_(column_ && isa_.column_rows.empty() ? kPortableKernels : isa_),
        workspace_(PlanWorkspace(args)),
        panel_(UsesPanel(args, isa_)),
        tiles_(RowsOf(args.compute), panel_, args.kernel),
        fp32_rows_(isa_.fp32_rows, column_, nullptr, 1),
        arrange_rows_(column_ ? nullptr : isa_.arrange_rows),
        row_group_(
            args.compute == ComputeType::kInt8 && arrange_rows_ != nullptr && tiles_.Tallest().tile_rows > 1 ? 2 : 1),
        a_(static_cast<const float*>(args.a)),
        c_(static_cast<float*>(args.c)),
        lda_(args.lda) {}

  static bool UsesPanel(const GemmArgs& args, const IsaKernels& isa) {
    if (args.kernel != nullptr) return static_cast<const QnbitKernel*>(args.kernel)->panel;
    if (args.b->info.format == Format::kColumn) return args.compute == ComputeType::kFp32;
    return args.m >= (args.compute == ComputeType::kInt8 ? isa.int8_panel_min_rows : isa.fp32_panel_min_rows);
  }

  const TileSet& tiles() const { return tiles_; }

  void Run() {
    if (args_.gather != nullptr || args_.compute == ComputeType::kInt8) PrepareRows();
    const size_t work_per_strip = std::max<size_t>(1, args_.m * info_.k * kStripColumns);
    const size_t strip_group = panel_ && args_.compute == ComputeType::kFp32 ? isa_.fp32_panel_strips : 4;
    const size_t strips_per_task =
        RoundUp(std::max(CeilDiv(kMinTaskWork, work_per_strip), CeilDiv(layout_.strips, kMaxTasks)), strip_group);
    const size_t strip_tasks = CeilDiv(layout_.strips, strips_per_task);
    // Narrow matrices are split by rows too.
    const size_t row_tasks = strip_tasks >= 8 ? 1 : std::max<size_t>(1, std::min(args_.m / 32, 16 / strip_tasks));
    const size_t rows_per_task = RoundUp(CeilDiv(args_.m, row_tasks), row_group_);
    args_.parallel(strip_tasks * row_tasks, [&](size_t task) {
      const size_t strip = task % strip_tasks * strips_per_task;
      const size_t row = task / strip_tasks * rows_per_task;
      if (row >= args_.m) return;
      RunTask(strip, std::min(strip + strips_per_task, layout_.strips), row, std::min(row + rows_per_task, args_.m));
    });
  }

 private:
  std::span<const QnbitKernel> RowsOf(ComputeType compute) const {
    if (compute == ComputeType::kFp32) return isa_.fp32_rows;
    return column_ ? int8_isa_.column_rows : isa_.int8_rows;
  }

  int8_t* Quantized(size_t row) const { return reinterpret_cast<int8_t*>(args_.workspace) + row * workspace_.q_stride; }
  ActivationBlock* Meta(size_t row) const {
    return reinterpret_cast<ActivationBlock*>(args_.workspace + workspace_.meta) + row * layout_.blocks;
  }
  uint8_t& IsFp32Row(size_t row) const { return reinterpret_cast<uint8_t*>(args_.workspace + workspace_.flags)[row]; }

  // Rows that stand together in the operand of a matrix instruction, as IsaKernels::arrange_rows leaves them.
  size_t GroupAt(size_t row) const { return std::min(row_group_, args_.m - row); }

  void PrepareRows() {
    constexpr size_t kElementsPerTask = 32 * 1024;
    const size_t rows_per_task = RoundUp(std::max<size_t>(1, kElementsPerTask / info_.k), row_group_);
    if (args_.gather != nullptr) {
      a_ = reinterpret_cast<float*>(args_.workspace + workspace_.gathered);
      lda_ = workspace_.gathered_stride;
    }
    args_.parallel(CeilDiv(args_.m, rows_per_task), [&](size_t task) {
      const size_t end = std::min((task + 1) * rows_per_task, args_.m);
      for (size_t row = task * rows_per_task; row < end; row += row_group_) {
        const size_t rows = GroupAt(row);
        if (args_.gather != nullptr) {
          for (size_t i = 0; i < rows; ++i) Gather(row + i);
        }
        if (args_.compute == ComputeType::kInt8) QuantizeRows(row, rows);
      }
    });
  }

  void Gather(size_t row) const {
    const float* from = static_cast<const float*>(args_.a) + row * args_.lda;
    float* to = reinterpret_cast<float*>(args_.workspace + workspace_.gathered) + row * workspace_.gathered_stride;
    for (size_t k = 0; k < info_.k; ++k) to[k] = args_.gather[k] < 0 ? 0.0f : from[args_.gather[k]];
  }

  int32_t TermFactor() const {
    switch (info_.zero_point_kind) {
      case ZeroPointKind::kUniform:
        return -static_cast<int32_t>(info_.uniform_zero_point);
      case ZeroPointKind::kPerBlock:
        return -1;
      case ZeroPointKind::kFloat:
        return 1;
    }
    return 1;
  }

  // A group of rows, chunk by chunk. A row that can't be quantised counts as zeros from its first block on.
  void QuantizeRows(size_t row, size_t rows) const {
    constexpr size_t kChunk = 64;  // blocks
    alignas(kPackedAlignment) int8_t unarranged[2][kChunk * kMaxBlockLen];
    float scales[2][kChunk];
    int32_t sums[2][kChunk];
    const int32_t factor = TermFactor();
    const int32_t bias = info_.zero_point_kind == ZeroPointKind::kUniform ? int8_isa_.sum_bias : 0;
    const auto quantize_row = [&](size_t i, size_t first, size_t count, int8_t* q) {
      if (!IsFp32Row(row + i)) {
        const size_t k = first * layout_.block_len;
        if (isa_.quantize_row(a_ + (row + i) * lda_ + k, info_.k - k, layout_.block_len, count, q, scales[i],
                              sums[i])) {
          return true;
        }
        IsFp32Row(row + i) = 1;
        return false;
      }
      std::memset(q, 0, count * layout_.block_len);
      std::fill_n(scales[i], count, 0.0f);
      std::fill_n(sums[i], count, 0);
      return true;
    };
    for (size_t i = 0; i < rows; ++i) IsFp32Row(row + i) = 0;
    for (size_t first = 0; first < layout_.blocks;) {
      const size_t count = std::min(kChunk, layout_.blocks - first);
      int8_t* to = Quantized(row) + first * layout_.block_len * rows;
      bool quantized = true;
      for (size_t i = 0; i < rows; ++i) {
        quantized &= quantize_row(i, first, count, arrange_rows_ != nullptr ? unarranged[i] : to);
      }
      if (!quantized) {
        first = 0;
        continue;
      }
      if (arrange_rows_ != nullptr) {
        arrange_rows_(unarranged[0], rows == 2 ? unarranged[1] : nullptr, layout_.block_len, count, to);
      }
      ActivationBlock* meta = Meta(row) + first;
      for (size_t block = 0; block < count; ++block) {
        for (size_t lane = 0; lane < kActivationLanes; ++lane) {
          const size_t i = lane * rows / kActivationLanes;
          meta[block].term[lane] = factor * sums[i][block] + bias;
          meta[block].scale[lane] = scales[i][block];
        }
      }
      first += count;
    }
  }

  void RunTask(size_t strip_begin, size_t strip_end, size_t row_begin, size_t row_end) const {
    if (args_.compute == ComputeType::kFp32) {
      if (panel_) {
        RunFp32Panels(tiles_, strip_begin, strip_end, row_begin, row_end);
      } else {
        RunFp32Fused(tiles_, strip_begin, strip_end, row_begin, row_end);
      }
      return;
    }
    if (panel_) {
      RunInt8Panels(strip_begin, strip_end, row_begin, row_end);
    } else {
      for (size_t strip = strip_begin; strip < strip_end; ++strip) {
        RunInt8Tiles(args_.b->payload + layout_.block_offset(strip, 0), strip, 0, layout_.blocks, row_begin, row_end);
      }
    }
    for (size_t row = row_begin; row < row_end; ++row) {
      if (!IsFp32Row(row)) continue;
      if (column_) {
        RunFp32Panels(fp32_rows_, strip_begin, strip_end, row, row + 1);
      } else {
        RunFp32Fused(fp32_rows_, strip_begin, strip_end, row, row + 1);
      }
    }
  }

  size_t ColumnsFrom(size_t strip) const { return info_.n - strip * kStripColumns; }
  const float* BiasFrom(size_t strip, bool last) const {
    return last && args_.bias != nullptr ? args_.bias + strip * kStripColumns : nullptr;
  }

  // One strip (b: its packed blocks or its panel from block_begin on) times all rows of the range.
  void RunInt8Tiles(const std::byte* b, size_t strip, size_t block_begin, size_t block_end, size_t row_begin,
                    size_t row_end) const {
    Int8Args t{};
    t.b = b;
    t.a_stride = workspace_.q_stride;
    t.meta_stride = layout_.blocks;
    t.blocks = block_end - block_begin;
    t.layout = &layout_;
    t.ldc = args_.ldc;
    t.columns = std::min(kStripColumns, ColumnsFrom(strip));
    t.first = block_begin == 0;
    t.bias = BiasFrom(strip, block_end == layout_.blocks);
    for (size_t row = row_begin; row < row_end;) {
      const QnbitKernel& kernel = tiles_.TallestWithin(row_end - row);
      t.a = Quantized(row) + block_begin * layout_.block_len * GroupAt(row);
      t.meta = Meta(row) + block_begin;
      t.c = c_ + row * args_.ldc + strip * kStripColumns;
      kernel.run_int8(t);
      row += kernel.tile_rows;
    }
  }

  void RunInt8Panels(size_t strip_begin, size_t strip_end, size_t row_begin, size_t row_end) const {
    alignas(kPackedAlignment) std::byte panel[kInt8PanelBytes];
    const size_t panel_blocks = kInt8PanelBytes / layout_.panel_block_bytes;
    for (size_t pass = row_begin; pass < row_end; pass += kInt8RowsPerPass) {
      const size_t pass_end = std::min(pass + kInt8RowsPerPass, row_end);
      for (size_t block = 0; block < layout_.blocks; block += panel_blocks) {
        const size_t block_end = std::min(block + panel_blocks, layout_.blocks);
        for (size_t strip = strip_begin; strip < strip_end; ++strip) {
          isa_.unpack_int8_panel(args_.b->payload + layout_.block_offset(strip, block), block_end - block, layout_,
                                 panel);
          RunInt8Tiles(panel, strip, block, block_end, pass, pass_end);
        }
      }
    }
  }

  void RunFp32Fused(const TileSet& tiles, size_t strip_begin, size_t strip_end, size_t row_begin,
                    size_t row_end) const {
    Fp32FusedArgs t{};
    t.b = args_.b->payload + layout_.block_offset(strip_begin, 0);
    t.strips = strip_end - strip_begin;
    t.layout = &layout_;
    t.uniform_zero_point = static_cast<float>(info_.uniform_zero_point);
    t.lda = lda_;
    t.k = info_.k;
    t.ldc = args_.ldc;
    t.columns = std::min(t.strips * kStripColumns, ColumnsFrom(strip_begin));
    t.bias = BiasFrom(strip_begin, true);
    for (size_t row = row_begin; row < row_end;) {
      const QnbitKernel& kernel = tiles.TallestWithin(row_end - row);
      t.a = a_ + row * lda_;
      t.c = c_ + row * args_.ldc + strip_begin * kStripColumns;
      kernel.run_fp32_fused(t);
      row += kernel.tile_rows;
    }
  }

  void RunFp32Panels(const TileSet& tiles, size_t strip_begin, size_t strip_end, size_t row_begin,
                     size_t row_end) const {
    const auto unpack = column_ ? UnpackColumnFp32Panel : isa_.unpack_fp32_panel;
    alignas(kPackedAlignment) float panel[kFp32PanelBytes / sizeof(float)];
    const size_t group = isa_.fp32_panel_strips;
    const size_t panel_k = kFp32PanelBytes / sizeof(float) / (group * kStripColumns);
    Fp32PanelArgs t{};
    t.panel = panel;
    t.panel_stride = group * kStripColumns;
    t.lda = lda_;
    t.ldc = args_.ldc;
    for (size_t pass = row_begin; pass < row_end; pass += kFp32RowsPerPass) {
      const size_t pass_end = std::min(pass + kFp32RowsPerPass, row_end);
      for (size_t k = 0; k < info_.k; k += panel_k) {
        const size_t k_end = std::min(k + panel_k, info_.k);
        for (size_t strip = strip_begin; strip < strip_end; strip += group) {
          for (size_t i = 0; i < group && strip + i < strip_end; ++i) {
            unpack(args_.b->payload + layout_.block_offset(strip + i, 0), layout_,
                   static_cast<float>(info_.uniform_zero_point), k, k_end, panel + i * kStripColumns, t.panel_stride);
          }
          t.k = k_end - k;
          t.columns = std::min(std::min(group, strip_end - strip) * kStripColumns, ColumnsFrom(strip));
          t.first = k == 0;
          t.bias = BiasFrom(strip, k_end == info_.k);
          for (size_t row = pass; row < pass_end;) {
            const QnbitKernel& kernel = tiles.TallestWithin(pass_end - row);
            t.a = a_ + row * lda_ + k;
            t.c = c_ + row * args_.ldc + strip * kStripColumns;
            kernel.run_fp32_panel(t);
            row += kernel.tile_rows;
          }
        }
      }
    }
  }

  const GemmArgs& args_;
  const PackedInfo& info_;
  const Layout layout_;
  const bool column_;  // the packed format
  const IsaKernels& isa_;
  const IsaKernels& int8_isa_;  // whose int8 kernels run
  const WorkspaceLayout workspace_;
  const bool panel_;
  const TileSet tiles_;
  const TileSet fp32_rows_;  // for the rows of an int8 run that can't be quantised
  void (*const arrange_rows_)(const int8_t*, const int8_t*, size_t, size_t, int8_t*);
  const size_t row_group_;  // rows that stand together when quantised: 1 or 2
  const float* a_;          // fp32 rows, gathered when there is a gather
  float* const c_;
  size_t lda_;
};

Status CheckKernel(const GemmArgs& args) {
  const KernelRow& row = *args.kernel;
  const PackedInfo& info = args.b->info;
  const char* format = NameOf(info.format);
  if (std::strcmp(row.family, "qnbit") != 0 || std::strcmp(row.format, format) != 0 || row.bits != info.bits) {
    return Status::Error(std::string("kernel ") + row.name + " reads format " + row.format + " with " +
                         std::to_string(row.bits) + " bits, the packed buffer holds " + format + " with " +
                         std::to_string(info.bits) + "; pack in that format or choose another kernel");
  }
  const IsaKernels& isa = KernelsOf(args.isa);
  const auto holds = [&](std::span<const QnbitKernel> rows) {
    return std::any_of(rows.begin(), rows.end(), [&](const QnbitKernel& kernel) { return &kernel == &row; });
  };
  if (!holds(isa.int8_rows) && !holds(isa.column_rows) && !holds(isa.fp32_rows)) {
    return Status::Error(std::string("kernel ") + row.name + " is for ISA " + InfoOf(row.isa).name + ", not " +
                         InfoOf(args.isa).name);
  }
  if (static_cast<const QnbitKernel&>(row).compute_type != args.compute) {
    return Status::Error(std::string("kernel ") + row.name + " computes in " + row.compute +
                         "; ask for that compute type or another kernel");
  }
  return {};
}

Status Check(const GemmArgs& args) {
  if (args.b == nullptr || args.b->payload == nullptr) return Status::Error("Gemm needs packed weights");
  const std::string reason = UnavailableReason(args.isa, HostCpuFeatures());
  if (!reason.empty()) return Status::Error(std::string("ISA ") + InfoOf(args.isa).name + " can't run here: " + reason);
  if (args.kernel != nullptr) ORT_MLAS_RETURN_IF_ERROR(CheckKernel(args));
  if (args.m == 0) return {};
  if (args.a == nullptr || args.c == nullptr) return Status::Error("Gemm needs A and C");
  if (args.ldc < args.b->info.n) {
    return Status::Error("ldc = " + std::to_string(args.ldc) + " is less than n = " + std::to_string(args.b->info.n));
  }
  if (args.gather == nullptr && args.lda < args.b->info.k) {
    return Status::Error("lda = " + std::to_string(args.lda) + " is less than k = " + std::to_string(args.b->info.k));
  }
  const size_t needed = WorkspaceBytes(args);
  if (needed != 0 && (args.workspace == nullptr || args.workspace_bytes < needed ||
                      reinterpret_cast<uintptr_t>(args.workspace) % kPackedAlignment != 0)) {
    return Status::Error("Gemm needs a workspace of " + std::to_string(needed) + " bytes at a multiple of " +
                         std::to_string(kPackedAlignment) + ", got " + std::to_string(args.workspace_bytes));
  }
  return {};
}

}  // namespace

size_t WorkspaceBytes(const GemmArgs& args) { return args.m == 0 ? 0 : PlanWorkspace(args).bytes; }

Status Gemm(const GemmArgs& args) {
  ORT_MLAS_RETURN_IF_ERROR(Check(args));
  if (args.m != 0) GemmRun(args).Run();
  return {};
}

std::vector<const KernelRow*> KernelsFor(const GemmArgs& args) {
  std::vector<const KernelRow*> used;
  const GemmRun run(args);
  for (size_t rows = args.m; rows != 0;) {
    const QnbitKernel& kernel = run.tiles().TallestWithin(rows);
    used.push_back(&kernel);
    rows %= kernel.tile_rows;
  }
  return used;
}

void QuantizeActivations(Isa isa, size_t m, size_t k, uint32_t block_len, const float* a, size_t lda, int8_t* q,
                         float* scales, int32_t* sums, uint8_t* fp32_rows) {
  const size_t blocks = CeilDiv(k, block_len);
  for (size_t row = 0; row < m; ++row) {
    int8_t* row_q = q + row * blocks * block_len;
    const bool quantized = KernelsOf(isa).quantize_row(a + row * lda, k, block_len, blocks, row_q,
                                                       scales + row * blocks, sums + row * blocks);
    fp32_rows[row] = !quantized;
    if (!quantized) {
      std::fill_n(row_q, blocks * block_len, int8_t{0});
      std::fill_n(scales + row * blocks, blocks, 0.0f);
      std::fill_n(sums + row * blocks, blocks, 0);
    }
  }
}

}  // namespace onnxruntime_mlas::qnbit
