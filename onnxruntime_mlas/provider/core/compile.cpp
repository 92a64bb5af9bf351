// Turns the nodes taken into objects that run, and hands those to ONNX Runtime.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "provider/core/ep.h"
#include "provider/core/graph.h"
#include "provider/core/operators.h"
#include "provider/core/release_pages.h"
#include "provider/ops/ep_context/ep_context.h"

namespace onnxruntime_mlas::provider {
namespace {

struct NodeComputeInfo : OrtNodeComputeInfo {
  explicit NodeComputeInfo(std::unique_ptr<CompiledNode> compiled) : OrtNodeComputeInfo{}, node(std::move(compiled)) {
    ort_version_supported = kOrtApiVersion;
    CreateState = CreateStateImpl;
    Compute = ComputeImpl;
    ReleaseState = ReleaseStateImpl;
  }

  // A node has no state beyond itself: what a run needs, it allocates for that run.
  static OrtStatus* ORT_API_CALL CreateStateImpl(OrtNodeComputeInfo* info, OrtNodeComputeContext*,
                                                 void** state) noexcept {
    *state = info;
    return nullptr;
  }
  static OrtStatus* ORT_API_CALL ComputeImpl(OrtNodeComputeInfo* info, void*, OrtKernelContext* context) noexcept {
    return CatchAll([&] { static_cast<const NodeComputeInfo*>(info)->node->Run(context); });
  }
  static void ORT_API_CALL ReleaseStateImpl(OrtNodeComputeInfo*, void*) noexcept {}

  std::unique_ptr<CompiledNode> node;
};

FusedInputs InputNames(Ort::ConstNode fused_node) {
  FusedInputs names;
  for (const Ort::ConstValueInfo& input : fused_node.GetInputs()) {
    names.push_back(input == nullptr ? std::string() : input.GetName());
  }
  return names;
}

// The match that takes in all nodes of a graph to compile.
Match MatchWhole(const GraphIndex& graph) {
  for (const Ort::ConstNode& node : graph.nodes()) {
    Match match = MatchNode(graph, node);
    if (match.op != nullptr && match.group.nodes.size() == graph.nodes().size()) return match;
  }
  return {};
}

// Lets the memory of external data go that compiling has read, node by node: at the end it would be as much as all
// packed weights once more.
void ReleaseConstants(const NodeGroup& group) {
  for (const Ort::ConstNode& node : group.nodes) {
    for (const Ort::ConstValueInfo& input : node.GetInputs()) {
      if (input == nullptr || !input.IsConstantInitializer()) continue;
      Ort::ConstValue value{nullptr};
      if (!input.GetInitializer(value).IsOK() || value == nullptr || !value.IsTensor()) continue;
      ReleaseFilePages(value.GetTensorRawData(), value.GetTensorSizeInBytes());
    }
  }
}

}  // namespace

OrtNodeComputeInfo* Ep::CompileGraph(Ort::ConstGraph graph, Ort::ConstNode fused_node) {
  const GraphIndex index(graph);
  const Match match = MatchWhole(index);
  if (match.op == nullptr) {
    Fail(ORT_EP_FAIL, std::string(kProviderName) + ": asked to compile a graph that it did not claim");
  }
  const NodeGroup& group = match.group;
  const Ort::ConstNode node = group.main_node();
  const std::string values = ValueNames(node);
  // The graph to compile is a copy that doesn't know what it was taken from. ONNX Runtime compiles what it took from
  // one graph before it asks about the next, so the last node reported under this name is the one.
  NodeReport entry{.graph = report_.GraphOfLast(values),
                   .output = FirstOutputName(group.nodes.back()),
                   .values = values,
                   .name = NodeLabel(node),
                   .op_type = group.OpType(),
                   .taken = true,
                   .reason = {},
                   .fields = {}};
  try {
    Compiled compiled = match.op->compile(group, InputNames(fused_node), options_);
    ReleaseConstants(group);
    // Profiles show nodes under the name that ONNX Runtime gave to the fused one.
    entry.fields = std::move(compiled.fields);
    entry.fields.emplace_back("fused_name", fused_node.GetName());
    report_.Put(entry);
    return std::make_unique<NodeComputeInfo>(std::move(compiled.node)).release();
  } catch (const std::exception& error) {
    entry.taken = false;
    entry.reason = error.what();
    entry.fields = match.op->can_run(index, group, options_).fields;
    report_.Put(entry);
    report_.Write();
    throw;
  }
}

void Ep::WriteContext(Ort::ConstGraph graph, std::span<const OrtNode*> fused_nodes,
                      std::span<OrtNodeComputeInfo*> node_compute_infos, OrtNode** ep_context_nodes) {
  std::vector<Ort::ConstNode> fused;
  std::vector<const CompiledNode*> compiled;
  for (size_t i = 0; i < fused_nodes.size(); ++i) {
    fused.emplace_back(fused_nodes[i]);
    compiled.push_back(static_cast<const NodeComputeInfo*>(node_compute_infos[i])->node.get());
  }
  const std::u8string path = std::filesystem::path(graph.GetModelPath()).u8string();
  const std::string suffix = context_files_ == 0 ? "" : std::to_string(context_files_);
  ++context_files_;
  const std::vector<OrtNode*> nodes =
      ep_context::WriteNodes(fused, compiled, std::string(path.begin(), path.end()), suffix, options_);
  std::copy(nodes.begin(), nodes.end(), ep_context_nodes);
}

OrtStatus* ORT_API_CALL Ep::CompileImpl(OrtEp* ep, const OrtGraph** graphs, const OrtNode** fused_nodes, size_t count,
                                        OrtNodeComputeInfo** node_compute_infos, OrtNode** ep_context_nodes) noexcept {
  auto* const self = static_cast<Ep*>(ep);
  size_t compiled = 0;
  OrtStatus* const status = CatchAll([&] {
    for (; compiled < count; ++compiled) {
      node_compute_infos[compiled] =
          self->CompileGraph(Ort::ConstGraph(graphs[compiled]), Ort::ConstNode(fused_nodes[compiled]));
    }
    if (self->options_.context_enable && ep_context_nodes != nullptr && count != 0) {
      self->WriteContext(Ort::ConstGraph(graphs[0]), {fused_nodes, count}, {node_compute_infos, count},
                         ep_context_nodes);
    }
    self->report_.Write();
  });
  if (status != nullptr) {
    ReleaseNodeComputeInfosImpl(ep, node_compute_infos, compiled);
    for (size_t i = 0; i < compiled; ++i) node_compute_infos[i] = nullptr;
  }
  return status;
}

void ORT_API_CALL Ep::ReleaseNodeComputeInfosImpl(OrtEp*, OrtNodeComputeInfo** node_compute_infos,
                                                  size_t count) noexcept {
  for (size_t i = 0; i < count; ++i) delete static_cast<NodeComputeInfo*>(node_compute_infos[i]);
}

}  // namespace onnxruntime_mlas::provider
