// Constants of DequantizeLinear -> the weights that qnbit packs.
//
// Both hold fields of 2, 4 or 8 bits, least significant first. A constant packs its elements in row-major order over
// the whole tensor, so that a row of an odd number of them starts within a byte; and it may be [K, N], where the
// weights want all K of a column together, padded to whole blocks. Signed codes become unsigned by adding 2^(bits - 1)
// to them and to their zero points: as they are two's complement, that flips the top bit of each field.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "onnxruntime_mlas/parallel_for.h"
#include "onnxruntime_mlas/qnbit.h"
#include "provider/ops/dequantize_matmul/pair.h"

namespace onnxruntime_mlas::provider::dequantize_matmul {

// Constants whose memory is known to hold what the shapes say.
struct Constants {
  size_t n = 0;
  size_t k = 0;
  bool transposed = false;  // codes [n, k] rather than [k, n], and scales alike where there are blocks
  CodeType type{};
  Granularity granularity = Granularity::kTensor;
  size_t scale_block = 0;  // k per scale, where there are blocks
  const uint8_t* codes = nullptr;
  const float* scales = nullptr;         // 1, n, or a number per block and column
  const uint8_t* zero_points = nullptr;  // null (0 for all), or of the scales' shape in the codes' type
};

struct ConvertedWeights {
  qnbit::Weights weights;  // points into the members below
  std::unique_ptr<uint8_t[]> codes;
  std::vector<float> scales;
  std::vector<uint8_t> zero_points;

  ConvertedWeights() = default;
  ConvertedWeights(const ConvertedWeights&) = delete;
  ConvertedWeights& operator=(const ConvertedWeights&) = delete;
};

// Takes as much memory as the codes and the scales of the result. `block_len` divides scale_block, unless that is k or
// more. Throws std::bad_alloc.
void Convert(const Constants& constants, uint32_t block_len, const ParallelFor& parallel, ConvertedWeights* out);

}  // namespace onnxruntime_mlas::provider::dequantize_matmul
