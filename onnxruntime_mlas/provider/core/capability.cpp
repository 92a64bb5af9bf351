// Which nodes the provider takes. ONNX Runtime asks once per graph, bodies of If and Loop included.
#include "provider/core/ep.h"
#include "provider/core/graph.h"
#include "provider/core/operators.h"

namespace onnxruntime_mlas::provider {
namespace {

// Of another provider that was given a node of the group; empty when there is none.
std::string OtherOwner(const NodeGroup& group) {
  for (const Ort::ConstNode& node : group.nodes) {
    std::string owner = node.GetEpName();
    if (!owner.empty() && owner != kProviderName) return owner;
  }
  return {};
}

Decision Decide(const GraphIndex& graph, const Match& match, const Options& options, bool in_body) {
  Decision decision = match.op->can_run(graph, match.group, options);
  const std::string owner = OtherOwner(match.group);
  if (!owner.empty()) {
    decision.take = false;
    decision.reason = "it was assigned to " + owner + " before this provider was asked";
  } else if (options.context_enable && in_body) {
    decision.take = false;
    decision.reason =
        "ONNX Runtime puts EPContext nodes into the main graph alone, so that bodies of If and Loop keep their nodes; "
        "a "
        "session of the model with packed weights takes them";
  } else if (options.context_enable && decision.take && !decision.storable) {
    decision.take = false;
    decision.reason =
        "session option ep.context_enable asks for a model with packed weights, and the weights of this node arrive "
        "with every run; it stays in that model as it is, for a session of that model to take";
  }
  return decision;
}

}  // namespace

void Ep::ClaimNodes(Ort::ConstGraph graph, OrtEpGraphSupportInfo* support) {
  const GraphIndex index(graph);
  const bool in_body = graph.GetParentNode() != nullptr;
  for (const Ort::ConstNode& node : index.nodes()) {
    const Match match = MatchNode(index, node);
    if (match.op == nullptr) continue;
    const NodeGroup& group = match.group;
    Decision decision = Decide(index, match, options_, in_body);
    if (decision.take) {
      OrtNodeFusionOptions fusion{};
      fusion.ort_version_supported = kOrtApiVersion;
      fusion.drop_constant_initializers = decision.drop_initializers;
      // One group per call: each becomes a fused node of its own.
      const std::vector<const OrtNode*> nodes(group.nodes.begin(), group.nodes.end());
      Ort::ThrowOnError(
          Ort::GetEpApi().EpGraphSupportInfo_AddNodesToFuse(support, nodes.data(), nodes.size(), &fusion));
    }
    report_.Put({.graph = GraphPath(graph),
                 .output = FirstOutputName(group.nodes.back()),
                 .values = ValueNames(node),
                 .name = NodeLabel(node),
                 .op_type = group.OpType(),
                 .taken = decision.take,
                 .reason = std::move(decision.reason),
                 .fields = std::move(decision.fields)});
  }
  report_.Write();
}

OrtStatus* ORT_API_CALL Ep::GetCapabilityImpl(OrtEp* ep, const OrtGraph* graph,
                                              OrtEpGraphSupportInfo* support) noexcept {
  return CatchAll([&] { static_cast<Ep*>(ep)->ClaimNodes(Ort::ConstGraph(graph), support); });
}

}  // namespace onnxruntime_mlas::provider
