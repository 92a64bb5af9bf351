// Which MatMulNBits nodes are taken. A node that is malformed is taken too: Compile then refuses it in words, where the
// CPU provider might read past the end of its weights.
#include "provider/ops/matmul_nbits/matmul_nbits.h"
#include "provider/ops/matmul_nbits/node.h"

namespace onnxruntime_mlas::provider::matmul_nbits {
namespace {

// Empty when the node can be run.
std::string DeclineReason(const Node& node) {
  const Attributes& attributes = node.attributes;
  if (attributes.bits != 2) {
    return "bits = " + std::to_string(attributes.bits) + " is not supported; this provider runs bits = 2";
  }
  if (attributes.weight_prepacked != 0) {
    return "weight_prepacked = " + std::to_string(attributes.weight_prepacked) +
           " names a layout of another device; this provider reads the operator's own layout (0)";
  }
  switch (node.inputs[kA].type) {
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT:
      break;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16:
      return "input A is float16; this provider computes on float";
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16:
      return "input A is bfloat16; this provider computes on float";
    default:
      return "input A is not a tensor of float";
  }
  if (node.inputs[kB].type != ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8) {
    return "input B does not hold uint8";
  }
  return {};
}

}  // namespace

NodeGroup MatchGroup(const GraphIndex&, Ort::ConstNode node) {
  NodeGroup group;
  if (node.GetOperatorType() == "MatMulNBits" && node.GetDomain() == "com.microsoft") group.nodes.push_back(node);
  return group;
}

Decision CanRun(const GraphIndex&, const NodeGroup& group, const Options& options) {
  const Node node = ReadNode(group.main_node(), options);
  Decision decision;
  decision.reason = DeclineReason(node);
  decision.take = decision.reason.empty();
  // Weights that are packed anew at every run need all their parts at every run. A constant A is read at run time.
  decision.drop_initializers = node.constant_weights() && !node.inputs[kA].constant;
  decision.fields = ReportFields(node, nullptr, {}, 0);
  return decision;
}

}  // namespace onnxruntime_mlas::provider::matmul_nbits
