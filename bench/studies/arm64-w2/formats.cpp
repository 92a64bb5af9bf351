#include "formats.h"

#include <cstring>

namespace arm64_w2 {
namespace {

template <class T>
void Append(std::vector<uint8_t>* to, const T& value) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(&value);
  to->insert(to->end(), bytes, bytes + sizeof(T));
}

// The byte of `column` whose plane p holds the code at k + p * step.
uint8_t PackedByte(const Problem& p, size_t column, size_t k, size_t step) {
  unsigned byte = 0;
  for (size_t plane = 0; plane < 4; ++plane) byte |= p.codes[column * p.k() + k + plane * step] << (2 * plane);
  return static_cast<uint8_t>(byte);
}

// Units of 4 bytes a column, `columns` neighbouring columns side by side.
void AppendQuads(const Problem& p, size_t k0, size_t first_column, size_t columns, std::vector<uint8_t>* b) {
  for (size_t k = k0; k < k0 + p.block_len; k += 16) {
    for (size_t column = first_column; column < first_column + columns; ++column) {
      for (size_t j = 0; j < 4; ++j) b->push_back(PackedByte(p, column, k + j, 4));
    }
  }
}

void AppendCodes(const Problem& p, BFormat format, size_t k0, std::vector<uint8_t>* b) {
  const auto code = [&](size_t column, size_t k) { return p.codes[column * p.k() + k]; };
  switch (format) {
    case BFormat::kQuad:
      AppendQuads(p, k0, 0, kStripColumns, b);
      break;
    case BFormat::kQuadByFour:
      for (size_t column = 0; column < kStripColumns; column += 4) AppendQuads(p, k0, column, 4, b);
      break;
    case BFormat::kColumn:
      for (size_t column = 0; column < kStripColumns; ++column) {
        for (size_t j = 0; j < 16; ++j) b->push_back(PackedByte(p, column, k0 + j, 16));
      }
      break;
    case BFormat::kPair:
      for (size_t k = k0; k < k0 + p.block_len; k += 32) {
        for (size_t column = 0; column < kStripColumns; ++column) {
          for (size_t j = 0; j < 8; ++j) b->push_back(PackedByte(p, column, k + j, 8));
        }
      }
      break;
    case BFormat::kQuadPanel:
    case BFormat::kPairPanel: {
      const size_t group = format == BFormat::kQuadPanel ? 4 : 8;
      for (size_t k = k0; k < k0 + p.block_len; k += group) {
        for (size_t column = 0; column < kStripColumns; ++column) {
          for (size_t j = 0; j < group; ++j) b->push_back(code(column, k + j));
        }
      }
      break;
    }
  }
}

void AppendScales(const Problem& p, BFormat format, size_t block, std::vector<uint8_t>* b) {
  const __fp16* scales = &p.scales[block * kStripColumns];
  for (size_t column = 0; column < kStripColumns; ++column) {
    if (format == BFormat::kQuadPanel) {
      Append(b, static_cast<float>(scales[column]));
    } else if (format == BFormat::kPairPanel) {
      const size_t pair = column / 2 * 2;
      Append(b, static_cast<float>(scales[pair]));
      Append(b, static_cast<float>(scales[pair + 1]));
    } else {
      Append(b, scales[column]);
    }
  }
}

// A single row counts as both rows of its pair.
void AppendPair(const Problem& p, AOrder order, size_t row, size_t rows, std::vector<int8_t>* a) {
  const size_t pair[2] = {row, row + 1 < rows ? row + 1 : row};
  const auto push = [&](size_t r, size_t k, size_t count) {
    for (size_t j = 0; j < count; ++j) a->push_back(p.q[pair[r] * p.k() + k + j]);
  };
  if (order == AOrder::kPairs) {
    for (size_t k = 0; k < p.k(); k += 8) {
      push(0, k, 8);
      push(1, k, 8);
    }
    return;
  }
  for (size_t k = 0; k < p.k(); k += 32) {
    for (size_t plane = 0; plane < 4; ++plane) {
      for (size_t r = 0; r < 2; ++r) {
        push(r, k + 4 * plane, 4);
        push(r, k + 16 + 4 * plane, 4);
      }
    }
  }
}

void AppendRow(const Problem& p, AOrder order, size_t row, std::vector<int8_t>* a) {
  const int8_t* q = &p.q[row * p.k()];
  if (order == AOrder::kRows) {
    a->insert(a->end(), q, q + p.k());
    return;
  }
  for (size_t k = 0; k < p.k(); k += 64) {
    for (size_t plane = 0; plane < 4; ++plane) {
      for (size_t unit = 0; unit < 4; ++unit) {
        for (size_t j = 0; j < 4; ++j) a->push_back(q[k + 16 * unit + 4 * plane + j]);
      }
    }
  }
}

int32_t StartOf(const Problem& p, size_t row, size_t block) {
  int32_t sum = 0;
  for (size_t k = block * p.block_len; k < (block + 1) * p.block_len; ++k) sum += p.q[row * p.k() + k];
  return kMagicBits - kZeroPoint * sum;
}

}  // namespace

Operands Prepare(const Candidate& candidate, const Problem& problem) {
  Operands o;
  for (size_t block = 0; block < problem.blocks; ++block) {
    AppendCodes(problem, candidate.format, block * problem.block_len, &o.b);
    AppendScales(problem, candidate.format, block, &o.b);
  }
  const bool paired = candidate.order == AOrder::kPairs || candidate.order == AOrder::kZipPairs;
  const size_t step = paired ? 2 : 1;
  for (size_t row = 0; row < candidate.rows; row += step) {
    if (paired) {
      AppendPair(problem, candidate.order, row, candidate.rows, &o.a);
    } else {
      AppendRow(problem, candidate.order, row, &o.a);
    }
    for (size_t block = 0; block < problem.blocks; ++block) {
      for (size_t lane = 0; lane < 4; ++lane) {
        const size_t of = paired && lane >= 2 && row + 1 < candidate.rows ? row + 1 : row;
        o.start.push_back(StartOf(problem, of, block));
        if (paired || lane == 0) o.scales.push_back(problem.a_scales[of * problem.blocks + block]);
      }
    }
  }
  o.args.b = o.b.data();
  o.args.a = o.a.data();
  o.args.a_stride = problem.k() * step;
  o.args.scales = o.scales.data();
  o.args.start = o.start.data();
  o.args.meta_stride = problem.blocks;
  o.args.blocks = problem.blocks;
  return o;
}

}  // namespace arm64_w2
