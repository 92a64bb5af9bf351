#include "provider/ops/matmul_nbits/node.h"

#include <utility>
#include <vector>

#include "provider/core/element_types.h"
#include "provider/core/graph.h"

namespace onnxruntime_mlas::provider::matmul_nbits {
namespace {

const char* ScaleTypeName(qnbit::ScaleType type) { return type == qnbit::ScaleType::kFp16 ? "fp16" : "fp32"; }

const char* ZeroPointKindName(qnbit::ZeroPointKind kind) {
  switch (kind) {
    case qnbit::ZeroPointKind::kUniform:
      return "uniform";
    case qnbit::ZeroPointKind::kPerBlock:
      return "per_block";
    case qnbit::ZeroPointKind::kFloat:
      return "float";
  }
  return "";
}

NodeInput ReadInput(Ort::ConstValueInfo value) {
  NodeInput input;
  if (value == nullptr) return input;
  input.name = value.GetName();
  if (input.name.empty()) return input;
  input.value = value;
  input.constant = value.IsConstantInitializer();
  const Ort::ConstTypeInfo type = value.TypeInfo();
  if (type != nullptr && type.GetONNXType() == ONNX_TYPE_TENSOR) {
    input.type = type.GetTensorTypeAndShapeInfo().GetElementType();
  }
  return input;
}

}  // namespace

const char* InputName(size_t input) {
  static constexpr const char* kNames[kInputCount] = {"A", "B", "scales", "zero_points", "g_idx", "bias"};
  return kNames[input];
}

bool Node::constant_weights() const {
  for (const size_t input : {kB, kScales, kZeroPoints, kGroupIndex}) {
    if (inputs[input].present() && !inputs[input].constant) return false;
  }
  return true;
}

std::string Node::Where() const { return "MatMulNBits node '" + label + "'"; }

Node ReadNode(Ort::ConstNode node, const Options& options) {
  Node result;
  result.label = NodeLabel(node);
  result.attributes = {.k = IntAttribute(node, "K", -1),
                       .n = IntAttribute(node, "N", -1),
                       .bits = IntAttribute(node, "bits", 4),
                       .block_size = IntAttribute(node, "block_size", -1),
                       .accuracy_level = IntAttribute(node, "accuracy_level", 0),
                       .weight_prepacked = IntAttribute(node, "weight_prepacked", 0)};
  if (options.accuracy_level) result.attributes.accuracy_level = *options.accuracy_level;
  const std::vector<Ort::ConstValueInfo> inputs = node.GetInputs();
  for (size_t i = 0; i < inputs.size() && i < kInputCount; ++i) result.inputs[i] = ReadInput(inputs[i]);
  return result;
}

// Levels 0 to 3 allow less precise arithmetic than fp32 without asking for it; only 4 asks for int8.
qnbit::ComputeType ComputeTypeOf(const Attributes& attributes) {
  return attributes.accuracy_level == 4 ? qnbit::ComputeType::kInt8 : qnbit::ComputeType::kFp32;
}

Fields ReportFields(const Node& node, const qnbit::PackedInfo* info, std::vector<std::string> kernels,
                    size_t packed_bytes) {
  const Attributes& attributes = node.attributes;
  const bool packed = info != nullptr;
  const char* compute = ComputeTypeOf(attributes) == qnbit::ComputeType::kInt8 ? "int8" : "fp32";
  return {{"n", attributes.n},
          {"k", attributes.k},
          {"bits", attributes.bits},
          {"block_size", attributes.block_size},
          {"accuracy_level", attributes.accuracy_level},
          {"type", TypeName(node.inputs[kA].type)},
          {"compute", packed ? compute : ""},
          {"weights", node.constant_weights() ? "constant" : "run-time"},
          {"format", packed ? "quad" : ""},
          {"scale_type", packed ? ScaleTypeName(info->scale_type) : ""},
          {"zero_point_kind", packed ? ZeroPointKindName(info->zero_point_kind) : ""},
          {"kernels", std::move(kernels)},
          {"packed_bytes", static_cast<int64_t>(packed_bytes)}};
}

}  // namespace onnxruntime_mlas::provider::matmul_nbits
