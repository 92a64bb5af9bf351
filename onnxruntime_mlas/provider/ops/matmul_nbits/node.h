// A MatMulNBits node as the model states it, before anything about it is believed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "onnxruntime_mlas/qnbit.h"
#include "provider/core/operators.h"

namespace onnxruntime_mlas::provider::matmul_nbits {

enum Input : size_t { kA, kB, kScales, kZeroPoints, kGroupIndex, kBias, kInputCount };

// The operator's own name of an input.
const char* InputName(size_t input);

struct Attributes {
  int64_t k = 0;
  int64_t n = 0;
  int64_t bits = 0;
  int64_t block_size = 0;
  int64_t accuracy_level = 0;
  int64_t weight_prepacked = 0;
};

struct NodeInput {
  Ort::ConstValueInfo value{nullptr};  // null: the optional input is left out
  std::string name;
  bool constant = false;  // an initializer that no run can override
  ONNXTensorElementDataType type = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;

  bool present() const { return value != nullptr; }
};

struct Node {
  std::string label;
  Attributes attributes;
  std::array<NodeInput, kInputCount> inputs;

  // Whether B and everything that is packed with it is known when the session is made.
  bool constant_weights() const;
  // "MatMulNBits node 'name'".
  std::string Where() const;
};

// `options` may replace the accuracy level.
Node ReadNode(Ort::ConstNode node, const Options& options);

qnbit::ComputeType ComputeTypeOf(const Attributes& attributes);

// The report's fields. `info` is null for a node that is not compiled.
Fields ReportFields(const Node& node, const qnbit::PackedInfo* info, std::vector<std::string> kernels,
                    size_t packed_bytes);

}  // namespace onnxruntime_mlas::provider::matmul_nbits
