// Low-bit GEMM: C[m, n] = sum_k A[m, k] * (code[n, k] - zero_point[n, block]) * scale[n, block] + bias[n].
//
// Weights are packed once (PlanPack, Pack) in a format that depends neither on M nor on the ISA, then multiplied any
// number of times (WorkspaceBytes, Gemm). Nothing here allocates while a GEMM runs or throws; a packed buffer and its
// view are immutable and may be shared by concurrent calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <vector>

#include "onnxruntime_mlas/cpu.h"
#include "onnxruntime_mlas/kernel_registry.h"
#include "onnxruntime_mlas/packed_buffer.h"
#include "onnxruntime_mlas/parallel_for.h"
#include "onnxruntime_mlas/status.h"

namespace onnxruntime_mlas::qnbit {

enum class ComputeType : uint8_t {
  kInt8,  // accuracy_level 4: A rounded to int8 per row and block, int32 sums within a block
  kFp32,  // every other level: weights dequantised to fp32, fp32 fused multiply-adds in k order
};
enum class ScaleType : uint32_t { kFp16 = 0, kFp32 = 1 };
enum class ZeroPointKind : uint32_t {
  kUniform = 0,   // one integer for the whole matrix, e.g. the operator's default 2
  kPerBlock = 1,  // an integer 0..2^bits-1 per column and block
  kFloat = 2,     // a float per column and block
};

enum class Format : uint8_t {
  kQuad,    // the default, which kernels of every ISA read
  kColumn,  // the baseline that it is measured against, of 2 bits only (qnbit/layout.h draws both)
};
constexpr const char* NameOf(Format format) { return format == Format::kColumn ? "column" : "quad"; }

inline constexpr uint32_t kBits[] = {2, 4, 8};

// k that share a scale. The operator allows no more than 256 at 2 bits.
inline constexpr uint32_t kBlockLengths[] = {16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536};
constexpr std::span<const uint32_t> BlockLengths(uint32_t bits) {
  return std::span<const uint32_t>(kBlockLengths).first(bits == 2 ? 5 : std::size(kBlockLengths));
}
constexpr uint32_t MaxBlockLen(uint32_t bits) { return BlockLengths(bits).back(); }

// Of A and C. Sums are float32 for each.
enum class ElementType : uint8_t { kFloat32, kFloat16, kBFloat16 };
inline constexpr size_t kElementTypes = 3;
constexpr size_t BytesOf(ElementType type) { return type == ElementType::kFloat32 ? 4 : 2; }

// Weights in the operator's own layout (onnxruntime contrib operator com.microsoft::MatMulNBits). `k_blocks` is
// ceil(k / block_len). Codes past k and unused bits of packed zero points may hold anything.
struct Weights {
  size_t n = 0;
  size_t k = 0;
  uint32_t bits = 2;
  uint32_t block_len = 0;
  const uint8_t* codes = nullptr;            // [n, k_blocks, block_len * bits / 8], least significant bits first
  const float* scales = nullptr;             // [n, k_blocks]
  const uint8_t* zero_points = nullptr;      // null, or [n, ceil(k_blocks * bits / 8)], least significant bits first
  const float* float_zero_points = nullptr;  // null, or [n, k_blocks]; at most one of the two kinds
};

// Everything that decides how many bytes a packed matrix takes.
struct PackedInfo {
  size_t n = 0;
  size_t k = 0;
  uint32_t bits = 2;
  uint32_t block_len = 0;
  ScaleType scale_type = ScaleType::kFp16;
  ZeroPointKind zero_point_kind = ZeroPointKind::kUniform;
  uint32_t uniform_zero_point = 2;
  Format format = Format::kQuad;

  size_t k_blocks() const { return k / block_len + (k % block_len != 0); }
};

// Checks dims, then reads scales and zero points to choose the smallest representation that keeps them exactly: fp16
// scales when every scale is representable so, a uniform zero point when all are equal, integers when all float zero
// points are integers 0..2^bits-1. A NaN or infinite scale is kept as fp16. The plan holds for either format:
// `info->format` is kQuad and may be set to another before PackedBytes and Pack.
Status PlanPack(const Weights& weights, PackedInfo* info);

// The representation that holds any weights of these dims: fp32 scales and, by `zero_point_kind`, zero points of that
// kind. For weights that arrive anew at every run, where reading them first would cost more than it saves.
Status PlanPackGeneral(const Weights& weights, PackedInfo* info);

// Bytes of the whole packed buffer, header included.
size_t PackedBytes(const PackedInfo& info);

// Packs into `buffer`, kPackedAlignment-aligned and at least PackedBytes(info) long. `info` must come from PlanPack or
// PlanPackGeneral on the same weights.
Status Pack(const Weights& weights, const PackedInfo& info, std::byte* buffer, size_t bytes,
            const ParallelFor& parallel);

// A checked packed buffer, not owned.
struct PackedView {
  PackedInfo info;
  const std::byte* payload = nullptr;
};

// Refuses a buffer that is truncated, misaligned, damaged (when `verify_checksum`), or of another family or version.
Status OpenPacked(const std::byte* buffer, size_t bytes, bool verify_checksum, PackedView* view);

// Inverse of Pack. codes: [n, k_blocks, block_len * bits / 8] with zeros past k; scales: [n, k_blocks]; zero_points:
// [n, k_blocks] as floats, whatever their kind.
void Unpack(const PackedView& view, uint8_t* codes, float* scales, float* zero_points);

// Weights whose scale groups are not blocks of neighbouring k (input g_idx), brought into blocks: the k of one group
// become neighbours, each group padded to whole blocks. Group ids must be in [0, ceil(k / block_len)).
struct RegroupedWeights {
  Weights weights;              // points into the vectors below; k is a multiple of block_len
  std::vector<int32_t> gather;  // [weights.k]: the k of A that each packed k reads, or -1 for padding (reads as 0)
  std::vector<uint8_t> codes;
  std::vector<float> scales;
  std::vector<uint8_t> zero_points;
  std::vector<float> float_zero_points;

  RegroupedWeights() = default;
  RegroupedWeights(const RegroupedWeights&) = delete;  // `weights` points into this object
  RegroupedWeights& operator=(const RegroupedWeights&) = delete;
};

// g_idx: [weights.k]. When every k already lies in its own block, `out->gather` stays empty and `out->weights` is a
// copy of `weights`.
Status Regroup(const Weights& weights, const int32_t* g_idx, RegroupedWeights* out);

struct GemmArgs {
  size_t m = 0;
  ElementType type = ElementType::kFloat32;  // of A and C
  const void* a = nullptr;                   // [m, lda], any alignment
  size_t lda = 0;                            // elements; >= k, or with `gather` > every index in it
  const int32_t* gather = nullptr;           // null, or [k] as from Regroup
  const PackedView* b = nullptr;
  const float* bias = nullptr;  // null, or [n]
  void* c = nullptr;            // [m, ldc]; columns n.. of a row are left alone
  size_t ldc = 0;               // elements; >= n
  ComputeType compute = ComputeType::kInt8;
  Isa isa = Isa::kPortable;
  const KernelRow* kernel = nullptr;  // null: chosen by M; else this row, which must read b's format, does all whole
                                      // tiles of its height, and shorter rows of the same ISA and path do the rest
  std::byte* workspace = nullptr;     // WorkspaceBytes(...), kPackedAlignment-aligned
  size_t workspace_bytes = 0;
  ParallelFor parallel;
};

// Bytes that Gemm needs as workspace; 0 when it needs none.
size_t WorkspaceBytes(const GemmArgs& args);

// A row's result depends on nothing but that row, the weights, the ISA and the compute type: not on m, the packed
// format, the kernel rows chosen or the number of threads. Few ISAs have int8 kernels of their own for the column
// format: the others use the portable ones. kFp32 runs on unpacked panels there, with the ISA's kernels.
Status Gemm(const GemmArgs& args);

// The rows that Gemm would use for args.m rows, main tile first.
std::vector<const KernelRow*> KernelsFor(const GemmArgs& args);

// The activation quantiser on its own, as CompInt8 uses it. q: [m, k rounded up to block_len]; scales, sums:
// [m, k_blocks], sums of q over a block. fp32_rows: [m], 1 where the row must be computed as kFp32 because it holds a
// non-finite value or a block so small that 127 / amax overflows.
void QuantizeActivations(Isa isa, size_t m, size_t k, uint32_t block_len, const float* a, size_t lda, int8_t* q,
                         float* scales, int32_t* sums, uint8_t* fp32_rows);

}  // namespace onnxruntime_mlas::qnbit
