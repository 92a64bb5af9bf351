// What the provider needs of an operator: whether nodes of it can be run right, and code to run them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "provider/core/graph_index.h"
#include "provider/core/options.h"
#include "provider/core/ort.h"
#include "provider/core/report.h"
#include "provider/core/stored_blob.h"

namespace onnxruntime_mlas::provider {

// Nodes that run as one, in the order of their data flow.
struct NodeGroup {
  std::vector<Ort::ConstNode> nodes;
  size_t main = 0;  // index of the node that reports and errors name

  bool empty() const { return nodes.empty(); }
  Ort::ConstNode main_node() const { return nodes[main]; }
  // Operators joined by '+': "MatMulNBits", "DequantizeLinear+MatMul".
  std::string OpType() const;
};

struct Decision {
  bool take = false;
  std::string reason;  // a sentence, when not taken
  // All constant inputs are read once in compile, so ONNX Runtime may free them.
  bool drop_initializers = false;
  bool storable = true;  // in an EPContext model
  Fields fields;
};

// A group ready to run. Immutable: Run may be called by several threads at once.
class CompiledNode {
 public:
  virtual ~CompiledNode() = default;
  // Throws Ort::Exception.
  virtual void Run(OrtKernelContext* context) const = 0;
  // What a session needs to run the node without its original weights; only of nodes whose Decision is storable.
  virtual BlobToStore Store() const = 0;
};

struct Compiled {
  std::unique_ptr<CompiledNode> node;
  Fields fields;
};

// Names of the inputs that the fused node passes at run time, in their order.
using FusedInputs = std::vector<std::string>;

struct Operator {
  // The group of which `node` is the main one; empty when the operator has none. Nodes are matched by their kind and
  // connections alone: whether the provider runs the group is for can_run to say.
  NodeGroup (*match)(const GraphIndex& graph, Ort::ConstNode node);
  Decision (*can_run)(const GraphIndex& graph, const NodeGroup& group, const Options& options);
  // Throws Ort::Exception on a malformed node, naming the node and the fact that is wrong.
  Compiled (*compile)(const NodeGroup& group, const FusedInputs& inputs, const Options& options);
};

struct Match {
  const Operator* op = nullptr;  // null: no operator of the provider
  NodeGroup group;
};

// What the provider makes of the node as a main one.
Match MatchNode(const GraphIndex& graph, Ort::ConstNode node);

}  // namespace onnxruntime_mlas::provider
