// Which MatMulNBits nodes are taken. A node that is malformed is taken too: Compile then refuses it in words, where the
// CPU provider might read past the end of its weights.
#include "provider/core/element_types.h"
#include "provider/ops/matmul_nbits/matmul_nbits.h"
#include "provider/ops/matmul_nbits/node.h"
#include "provider/ops/matmul_nbits/shapes.h"

namespace onnxruntime_mlas::provider::matmul_nbits {
namespace {

// Empty when the node can be run.
std::string DeclineReason(const Node& node) {
  const Attributes& attributes = node.attributes;
  if (attributes.bits != 2 && attributes.bits != 4 && attributes.bits != 8) {
    return "bits = " + std::to_string(attributes.bits) + " is not one of 2, 4 and 8";
  }
  if (IsPowerOfTwo(attributes.block_size) && attributes.bits != 2 &&
      attributes.block_size > qnbit::MaxBlockLen(static_cast<uint32_t>(attributes.bits))) {
    return "block_size = " + std::to_string(attributes.block_size) + " is larger than this provider runs (" +
           std::to_string(qnbit::MaxBlockLen(static_cast<uint32_t>(attributes.bits))) + ")";
  }
  if (attributes.weight_prepacked != 0) {
    return "weight_prepacked = " + std::to_string(attributes.weight_prepacked) +
           " names a layout of another device; this provider reads the operator's own layout (0)";
  }
  if (!ElementTypeOf(node.inputs[kA].type)) return "input A is not a tensor of float, float16 or bfloat16";
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
  decision.storable = node.constant_weights();
  decision.fields = ReportFields(node, nullptr, {}, 0);
  return decision;
}

}  // namespace onnxruntime_mlas::provider::matmul_nbits
