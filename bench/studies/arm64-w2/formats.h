// Puts weights and activations in the orders that candidates read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "candidates.h"

namespace arm64_w2 {

inline constexpr int kZeroPoint = 2;

// 16 columns of weights and some rows of activations.
struct Problem {
  size_t block_len, blocks, rows;
  std::vector<uint8_t> codes;   // [column][k], 0..3
  std::vector<__fp16> scales;   // [block][column]
  std::vector<int8_t> q;        // [row][k]
  std::vector<float> a_scales;  // [row][block]

  size_t k() const { return block_len * blocks; }
};

// `args` points into the vectors, which stay where they are when the object moves.
struct Operands {
  std::vector<uint8_t> b;
  std::vector<int8_t> a;
  std::vector<float> scales;
  std::vector<int32_t> start;
  LoopArgs args{};
};

Operands Prepare(const Candidate& candidate, const Problem& problem);

}  // namespace arm64_w2
