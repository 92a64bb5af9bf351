// The candidate loops as a table: what each needs prepared and how to run it.
#pragma once

#include <cstdint>
#include <span>

#include "loop.h"

namespace arm64_w2 {

enum class BFormat {
  kQuad,        // block: block_len / 16 units of 16 columns x 4 bytes | 16 fp16 scales (qnbit/layout.h)
  kQuadByFour,  // block: 4 groups of block_len / 16 units of 4 columns x 4 bytes | 16 fp16 scales
  kColumn,      // block of 64: 16 columns x 16 bytes, byte j with k = 16p + j | 16 fp16 scales
  kPair,        // block: per 32 k, 8 column pairs x 2 columns x 8 bytes, byte j with k = 8p + j | 16 fp16 scales
  kQuadPanel,   // block: block_len / 4 planes of 16 columns x 4 int8 | 16 fp32 scales
  kPairPanel,   // block: block_len / 8 times 8 column pairs x 2 columns x 8 int8 | 8 times b0 b1 b0 b1 in fp32
};

enum class AOrder {
  kRows,       // [row][k]
  kUnitMajor,  // [row][block of 64][p][u][j] = k 16u + 4p + j
  kPairs,      // [row pair][k / 8][row of the pair][8]
  kZipPairs,   // [row pair][k / 32][p][row of the pair][unit of two][4], as two zipped units come out
};

struct Candidate {
  const char* name;
  BFormat format;
  AOrder order;
  unsigned rows, columns, block_len;
  void (*run)(const LoopArgs&);
};

std::span<const Candidate> Candidates();

}  // namespace arm64_w2
