// The driver: prepares A, splits the work by shape alone, and calls kernels.
//
// A task owns a range of strips and rows of C and all of k for them, so no two tasks write the same element and a
// row's sums are in k order however the work is split.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <span>
#include <string>

#include "onnxruntime_mlas/qnbit.h"
#include "qnbit/kernels.h"
#include "qnbit/prepare.h"

namespace onnxruntime_mlas::qnbit {
namespace {

// Panels live on the task's stack. Int8: half of a 48 KiB L1 cache and most of a 32 KiB one. Fp32: longer than L1
// holds, since multiply-adds leave time to read it from L2, and C is read and written once per panel: 512 k run 1.06
// to 1.09 times as fast as 128 k (Zen 4).
constexpr size_t kInt8PanelBytes = 24 * 1024;
constexpr size_t kFp32PanelK = 512;  // a multiple of every unit
constexpr size_t kMaxFp32PanelStrips = 2;
// Rows of A that pass one panel before the next strip: what they hold of a panel's k must stay in an L2 cache of 512
// KiB, whose sets fp32 rows a multiple of 4 KiB apart fill unevenly.
constexpr size_t kInt8RowsPerPass = 256;
constexpr size_t kFp32RowsPerPass = 128;
// Fewer multiply-adds than this are not worth a task of their own (about 20 us on one core).
constexpr size_t kMinTaskWork = size_t{1} << 20;
constexpr size_t kMaxTasks = 64;
// The kernels of one width and path, tallest first, of which none is taller than `row_limit`: `forced`, when not null,
// and those below it.
class TileSet {
 public:
  TileSet(std::span<const QnbitKernel> rows, uint32_t bits, bool panel, const KernelRow* forced,
          unsigned row_limit = ~0u) {
    if (forced != nullptr) Add(static_cast<const QnbitKernel&>(*forced));
    for (const QnbitKernel& kernel : rows) {
      const unsigned below = count_ != 0 ? kernels_[count_ - 1]->tile_rows : ~0u;
      if (kernel.bits == bits && kernel.panel == panel && kernel.tile_rows < below && kernel.tile_rows <= row_limit) {
        Add(kernel);
      }
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
        width_(isa_.of(info_.bits)),
        panel_(UsesPanel(args, isa_)),
        tiles_(RowsOf(args.compute), info_.bits, panel_, args.kernel),
        fp32_rows_(isa_.fp32_rows, info_.bits, column_, nullptr, 1),
        rows_(args, layout_, isa_, int8_isa_, width_.code_offset, Arranges(),
              Arranges() && args.compute == ComputeType::kInt8 && tiles_.Tallest().tile_rows > 1 ? 2 : 1) {}

  static bool UsesPanel(const GemmArgs& args, const IsaKernels& isa) {
    if (args.kernel != nullptr) return static_cast<const QnbitKernel*>(args.kernel)->panel;
    if (args.b->info.format == Format::kColumn) return args.compute == ComputeType::kFp32;
    const WidthKernels& width = isa.of(args.b->info.bits);
    return args.m >= (args.compute == ComputeType::kInt8 ? width.int8_panel_min_rows : width.fp32_panel_min_rows);
  }

  const TileSet& tiles() const { return tiles_; }

  void Run() {
    rows_.Prepare();
    const size_t work_per_strip = std::max<size_t>(1, args_.m * info_.k * kStripColumns);
    const size_t strip_group = panel_ && args_.compute == ComputeType::kFp32 ? isa_.fp32_panel_strips : 4;
    const size_t strips_per_task =
        RoundUp(std::max(CeilDiv(kMinTaskWork, work_per_strip), CeilDiv(layout_.strips, kMaxTasks)), strip_group);
    const size_t strip_tasks = CeilDiv(layout_.strips, strips_per_task);
    // Narrow matrices are split by rows too.
    const size_t row_tasks = strip_tasks >= 8 ? 1 : std::max<size_t>(1, std::min(args_.m / 32, 16 / strip_tasks));
    const size_t rows_per_task = RoundUp(CeilDiv(args_.m, row_tasks), rows_.GroupAt(0));
    args_.parallel(strip_tasks * row_tasks, [&](size_t task) {
      const size_t strip = task % strip_tasks * strips_per_task;
      const size_t row = task / strip_tasks * rows_per_task;
      if (row >= args_.m) return;
      const size_t strip_end = std::min(strip + strips_per_task, layout_.strips);
      const size_t row_end = std::min(row + rows_per_task, args_.m);
      RunTask(strip, strip_end, row, row_end);
      rows_.FinishC(row, row_end, strip * kStripColumns, std::min(strip_end * kStripColumns, info_.n));
    });
  }

 private:
  std::span<const QnbitKernel> RowsOf(ComputeType compute) const {
    if (compute == ComputeType::kFp32) return isa_.fp32_rows;
    return column_ ? int8_isa_.column_rows : isa_.int8_rows;
  }

  bool Arranges() const { return !column_ && isa_.arrange_rows != nullptr; }

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
      const size_t group = int8_isa_.int8_strips;
      for (size_t strip = strip_begin; strip < strip_end; strip += group) {
        RunInt8Tiles(args_.b->payload + layout_.block_offset(strip, 0), layout_.strip_bytes, strip,
                     std::min(strip + group, strip_end), 0, layout_.blocks, row_begin, row_end);
      }
    }
    for (size_t row = row_begin; row < row_end; ++row) {
      if (!rows_.IsFp32Row(row)) continue;
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

  // Strips (b: their packed blocks or their panels from block_begin on) times all rows of the range.
  void RunInt8Tiles(const std::byte* b, size_t b_stride, size_t strip, size_t strip_end, size_t block_begin,
                    size_t block_end, size_t row_begin, size_t row_end) const {
    Int8Args t{};
    t.b = b;
    t.b_stride = b_stride;
    t.a_stride = rows_.q_stride();
    t.meta_stride = layout_.blocks;
    t.blocks = block_end - block_begin;
    t.layout = &layout_;
    t.ldc = rows_.c_stride();
    t.columns = std::min((strip_end - strip) * kStripColumns, ColumnsFrom(strip));
    t.first = block_begin == 0;
    t.bias = BiasFrom(strip, block_end == layout_.blocks);
    for (size_t row = row_begin; row < row_end;) {
      const QnbitKernel& kernel = tiles_.TallestWithin(row_end - row);
      t.a = rows_.Quantized(row) + block_begin * layout_.block_len * rows_.GroupAt(row);
      t.meta = rows_.Meta(row) + block_begin;
      t.c = rows_.C(row) + strip * kStripColumns;
      kernel.run_int8(t);
      row += kernel.tile_rows;
    }
  }

  void RunInt8Panels(size_t strip_begin, size_t strip_end, size_t row_begin, size_t row_end) const {
    alignas(kPackedAlignment) std::byte panel[kInt8PanelBytes];
    const size_t group = isa_.int8_strips;
    const size_t panel_blocks = kInt8PanelBytes / (group * layout_.panel_block_bytes);
    const size_t panel_bytes = panel_blocks * layout_.panel_block_bytes;
    for (size_t pass = row_begin; pass < row_end; pass += kInt8RowsPerPass) {
      const size_t pass_end = std::min(pass + kInt8RowsPerPass, row_end);
      for (size_t block = 0; block < layout_.blocks; block += panel_blocks) {
        const size_t block_end = std::min(block + panel_blocks, layout_.blocks);
        for (size_t strip = strip_begin; strip < strip_end; strip += group) {
          const size_t group_end = std::min(strip + group, strip_end);
          for (size_t i = strip; i < group_end; ++i) {
            width_.unpack_int8_panel(args_.b->payload + layout_.block_offset(i, block), block_end - block, layout_,
                                     panel + (i - strip) * panel_bytes);
          }
          RunInt8Tiles(panel, panel_bytes, strip, group_end, block, block_end, pass, pass_end);
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
    t.lda = rows_.float_stride();
    t.k = info_.k;
    t.ldc = rows_.c_stride();
    t.columns = std::min(t.strips * kStripColumns, ColumnsFrom(strip_begin));
    t.bias = BiasFrom(strip_begin, true);
    for (size_t row = row_begin; row < row_end;) {
      const QnbitKernel& kernel = tiles.TallestWithin(row_end - row);
      t.a = rows_.Floats(row);
      t.c = rows_.C(row) + strip_begin * kStripColumns;
      kernel.run_fp32_fused(t);
      row += kernel.tile_rows;
    }
  }

  void RunFp32Panels(const TileSet& tiles, size_t strip_begin, size_t strip_end, size_t row_begin,
                     size_t row_end) const {
    const auto unpack = column_ ? UnpackColumnFp32Panel : width_.unpack_fp32_panel;
    alignas(kPackedAlignment) float panel[kFp32PanelK * kMaxFp32PanelStrips * kStripColumns];
    const size_t group = isa_.fp32_panel_strips;
    Fp32PanelArgs t{};
    t.panel = panel;
    t.panel_stride = group * kStripColumns;
    t.lda = rows_.float_stride();
    t.ldc = rows_.c_stride();
    for (size_t pass = row_begin; pass < row_end; pass += kFp32RowsPerPass) {
      const size_t pass_end = std::min(pass + kFp32RowsPerPass, row_end);
      for (size_t k = 0; k < info_.k; k += kFp32PanelK) {
        const size_t k_end = std::min(k + kFp32PanelK, info_.k);
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
            t.a = rows_.Floats(row) + k;
            t.c = rows_.C(row) + strip * kStripColumns;
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
  const WidthKernels& width_;
  const bool panel_;
  const TileSet tiles_;
  const TileSet fp32_rows_;  // for the rows of an int8 run that can't be quantised
  const PreparedRows rows_;
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

size_t WorkspaceBytes(const GemmArgs& args) {
  return args.m == 0 ? 0 : PlanWorkspace(args, LayoutOf(args.b->info)).bytes;
}

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
  const size_t part_len = std::min<size_t>(block_len, kMaxPartLen);
  const size_t block_parts = block_len / part_len;
  constexpr size_t kMaxParts = MaxBlockLen(8) / kMaxPartLen;
  const auto quantize_row = KernelsOf(isa).activations.quantize_row[static_cast<size_t>(ElementType::kFloat32)];
  std::memset(q, 0, m * blocks * block_len);
  for (size_t row = 0; row < m; ++row) {
    bool quantized = true;
    for (size_t block = 0; block < blocks; ++block) {
      float part_scales[kMaxParts];
      int32_t part_sums[kMaxParts];
      const size_t first = block * block_parts;
      const size_t parts = std::min(block_parts, CeilDiv(k, part_len) - first);
      const size_t index = row * blocks + block;
      quantized = quantize_row({.a = a + row * lda,
                                .k = k,
                                .block_len = block_len,
                                .part_len = part_len,
                                .first = first,
                                .parts = parts,
                                .q = q + index * block_len,
                                .scales = part_scales,
                                .sums = part_sums});
      if (!quantized) break;
      scales[index] = part_scales[0];
      sums[index] = std::accumulate(part_sums, part_sums + parts, 0);
    }
    fp32_rows[row] = !quantized;
    if (!quantized) {
      std::memset(q + row * blocks * block_len, 0, blocks * block_len);
      std::fill_n(scales + row * blocks, blocks, 0.0f);
      std::fill_n(sums + row * blocks, blocks, 0);
    }
  }
}

}  // namespace onnxruntime_mlas::qnbit
