// Which nodes the provider takes. ONNX Runtime asks once per graph, bodies of If and Loop included.
#include "provider/core/ep.h"
#include "provider/core/graph.h"
#include "provider/core/operators.h"

namespace onnxruntime_mlas::provider {
namespace {

Decision Decide(Ort::ConstNode node, const Operator& op, const Options& options) {
  Decision decision = op.can_run(node, options);
  const std::string owner = node.GetEpName();
  if (!owner.empty() && owner != kProviderName) {
    decision.take = false;
    decision.reason = "it was assigned to " + owner + " before this provider was asked";
  } else if (options.ep_context) {
    decision.take = false;
    decision.reason = "session option ep.context_enable asks for EPContext nodes, which this provider does not write";
  }
  return decision;
}

}  // namespace

void Ep::ClaimNodes(Ort::ConstGraph graph, OrtEpGraphSupportInfo* support) {
  for (const Ort::ConstNode& node : graph.GetNodes()) {
    const Operator* op = FindOperator(node);
    if (op == nullptr) continue;
    Decision decision = Decide(node, *op, options_);
    if (decision.take) {
      OrtNodeFusionOptions fusion{};
      fusion.ort_version_supported = kOrtApiVersion;
      fusion.drop_constant_initializers = decision.drop_initializers;
      // One node per call: each becomes a fused node of its own.
      const OrtNode* const nodes[] = {node};
      Ort::ThrowOnError(Ort::GetEpApi().EpGraphSupportInfo_AddNodesToFuse(support, nodes, 1, &fusion));
    }
    report_.Put({.graph = GraphPath(graph),
                 .output = FirstOutputName(node),
                 .values = ValueNames(node),
                 .name = NodeLabel(node),
                 .op_type = op->op_type,
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
