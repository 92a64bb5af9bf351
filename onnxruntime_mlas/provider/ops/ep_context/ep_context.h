// com.microsoft::EPContext nodes that this provider wrote: nodes compiled earlier, with their packed weights.
#pragma once

#include <string>
#include <vector>

#include "provider/core/operators.h"

namespace onnxruntime_mlas::provider::ep_context {

NodeGroup MatchGroup(const GraphIndex& graph, Ort::ConstNode node);
Decision CanRun(const GraphIndex& graph, const NodeGroup& group, const Options& options);
Compiled Compile(const NodeGroup& group, const FusedInputs& inputs, const Options& options);

// EPContext nodes that stand for `fused`, in their order, each with what `compiled` keeps: inside, or in a file beside
// the model to be, whose name ends in `suffix` so that a session can write several. `model_path` is that of the
// original, or empty. The caller owns the nodes. Throws Ort::Exception.
std::vector<OrtNode*> WriteNodes(const std::vector<Ort::ConstNode>& fused,
                                 const std::vector<const CompiledNode*>& compiled, const std::string& model_path,
                                 const std::string& suffix, const Options& options);

}  // namespace onnxruntime_mlas::provider::ep_context
