// Weights with g_idx, brought into blocks. MatMulNBits' g_idx[k] names the scale group of k; act-order quantisers make
// it a permutation. The k of a group are gathered in ascending order and padded to whole blocks, so that the kernels
// see ordinary blocks and A is gathered once per row.
#include <string>

#include "qnbit/layout.h"

namespace onnxruntime_mlas::qnbit {
namespace {

uint8_t CodeAt(const uint8_t* codes, size_t index, uint32_t bits) {
  const size_t bit = index * bits;
  return static_cast<uint8_t>((codes[bit / 8] >> (bit % 8)) & ((1u << bits) - 1));
}

void PutCode(uint8_t* codes, size_t index, uint32_t bits, uint8_t code) {
  const size_t bit = index * bits;
  codes[bit / 8] = static_cast<uint8_t>(codes[bit / 8] | (code << (bit % 8)));
}

}  // namespace

Status Regroup(const Weights& weights, const int32_t* g_idx, RegroupedWeights* out) {
  PackedInfo info;
  ORT_MLAS_RETURN_IF_ERROR(PlanPackGeneral(weights, &info));
  const size_t groups = info.k_blocks();
  const size_t block_len = weights.block_len;
  std::vector<size_t> group_sizes(groups, 0);
  bool in_place = true;
  for (size_t k = 0; k < weights.k; ++k) {
    if (g_idx[k] < 0 || static_cast<size_t>(g_idx[k]) >= groups) {
      return Status::Error("g_idx[" + std::to_string(k) + "] = " + std::to_string(g_idx[k]) +
                           " is not a scale group; there are " + std::to_string(groups) + " (0 to " +
                           std::to_string(groups - 1) + ")");
    }
    ++group_sizes[static_cast<size_t>(g_idx[k])];
    in_place = in_place && static_cast<size_t>(g_idx[k]) == k / block_len;
  }
  out->weights = weights;
  out->gather.clear();
  if (in_place) return {};

  std::vector<size_t> next(groups);  // where the next k of a group goes
  std::vector<size_t> block_group;   // group of each new block
  for (size_t group = 0; group < groups; ++group) {
    next[group] = block_group.size() * block_len;
    block_group.insert(block_group.end(), (group_sizes[group] + block_len - 1) / block_len, group);
  }
  const size_t blocks = block_group.size();
  out->gather.assign(blocks * block_len, -1);
  for (size_t k = 0; k < weights.k; ++k) {
    out->gather[next[static_cast<size_t>(g_idx[k])]++] = static_cast<int32_t>(k);
  }

  const uint32_t bits = weights.bits;
  const size_t source_row = groups * block_len * bits / 8;
  const size_t target_row = blocks * block_len * bits / 8;
  out->codes.assign(weights.n * target_row, 0);
  for (size_t column = 0; column < weights.n; ++column) {
    for (size_t k = 0; k < out->gather.size(); ++k) {
      if (out->gather[k] < 0) continue;
      PutCode(&out->codes[column * target_row], k, bits,
              CodeAt(weights.codes + column * source_row, static_cast<size_t>(out->gather[k]), bits));
    }
  }

  const auto regroup_floats = [&](const float* source, std::vector<float>* target) {
    target->resize(weights.n * blocks);
    for (size_t column = 0; column < weights.n; ++column) {
      for (size_t block = 0; block < blocks; ++block) {
        (*target)[column * blocks + block] = source[column * groups + block_group[block]];
      }
    }
  };
  regroup_floats(weights.scales, &out->scales);
  if (weights.float_zero_points != nullptr) regroup_floats(weights.float_zero_points, &out->float_zero_points);
  if (weights.zero_points != nullptr) {
    const size_t source_bytes = (groups * bits + 7) / 8;
    const size_t target_bytes = (blocks * bits + 7) / 8;
    out->zero_points.assign(weights.n * target_bytes, 0);
    for (size_t column = 0; column < weights.n; ++column) {
      for (size_t block = 0; block < blocks; ++block) {
        PutCode(&out->zero_points[column * target_bytes], block, bits,
                CodeAt(weights.zero_points + column * source_bytes, block_group[block], bits));
      }
    }
  }

  out->weights.k = out->gather.size();
  out->weights.codes = out->codes.data();
  out->weights.scales = out->scales.data();
  out->weights.zero_points = weights.zero_points != nullptr ? out->zero_points.data() : nullptr;
  out->weights.float_zero_points = weights.float_zero_points != nullptr ? out->float_zero_points.data() : nullptr;
  return {};
}

}  // namespace onnxruntime_mlas::qnbit
