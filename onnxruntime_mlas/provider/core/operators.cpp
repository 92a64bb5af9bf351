#include "provider/core/operators.h"

#include <utility>

#include "provider/ops/dequantize_matmul/dequantize_matmul.h"
#include "provider/ops/ep_context/ep_context.h"
#include "provider/ops/matmul_nbits/matmul_nbits.h"

namespace onnxruntime_mlas::provider {
namespace {

constexpr Operator kOperators[] = {
    {dequantize_matmul::MatchGroup, dequantize_matmul::CanRun, dequantize_matmul::Compile},
    {matmul_nbits::MatchGroup, matmul_nbits::CanRun, matmul_nbits::Compile},
    {ep_context::MatchGroup, ep_context::CanRun, ep_context::Compile},
};

}  // namespace

std::string NodeGroup::OpType() const {
  std::string text;
  for (const Ort::ConstNode& node : nodes) {
    if (!text.empty()) text += '+';
    text += node.GetOperatorType();
  }
  return text;
}

Match MatchNode(const GraphIndex& graph, Ort::ConstNode node) {
  for (const Operator& op : kOperators) {
    NodeGroup group = op.match(graph, node);
    if (!group.empty()) return {&op, std::move(group)};
  }
  return {};
}

}  // namespace onnxruntime_mlas::provider
