#include "provider/core/graph.h"

#include <vector>

namespace onnxruntime_mlas::provider {
namespace {

// The attribute of `parent` that holds `graph`. ONNX Runtime may hand out several objects for one subgraph, so they are
// told apart by their names and by what the first node gives.
std::string AttributeName(Ort::ConstNode parent, Ort::ConstGraph graph) {
  const std::vector<Ort::ConstNode> nodes = graph.GetNodes();
  for (const Ort::AttrNameSubgraph& candidate : parent.GetSubgraphs()) {
    const std::vector<Ort::ConstNode> others = candidate.sub_graph.GetNodes();
    if (candidate.sub_graph == graph) return candidate.attr_name;
    if (!nodes.empty() && !others.empty() && candidate.sub_graph.GetName() == graph.GetName() &&
        FirstOutputName(nodes[0]) == FirstOutputName(others[0])) {
      return candidate.attr_name;
    }
  }
  return graph.GetName();
}

// Null when the node doesn't have it.
const OrtOpAttr* FindAttribute(Ort::ConstNode node, const char* name) {
  const OrtOpAttr* attribute = nullptr;
  const Ort::Status found(Ort::GetApi().Node_GetAttributeByName(node, name, &attribute));
  return found.IsOK() ? attribute : nullptr;
}

template <class T>
T ScalarAttribute(Ort::ConstNode node, const char* name, OrtOpAttrType type, T fallback) {
  const OrtOpAttr* const attribute = FindAttribute(node, name);
  if (attribute == nullptr) return fallback;
  T value = fallback;
  size_t bytes = 0;
  Ort::ThrowOnError(Ort::GetApi().ReadOpAttr(attribute, type, &value, sizeof(value), &bytes));
  return value;
}

}  // namespace

std::string FirstOutputName(Ort::ConstNode node) {
  for (const Ort::ConstValueInfo& output : node.GetOutputs()) {
    if (output != nullptr) return output.GetName();
  }
  return {};
}

std::string ValueNames(Ort::ConstNode node) {
  std::string names;
  const auto append = [&](const std::vector<Ort::ConstValueInfo>& values) {
    for (const Ort::ConstValueInfo& value : values) names += (value == nullptr ? "" : value.GetName()) + "\n";
  };
  append(node.GetInputs());
  append(node.GetOutputs());
  return names;
}

std::string NodeLabel(Ort::ConstNode node) {
  std::string name = node.GetName();
  return name.empty() ? "output '" + FirstOutputName(node) + "'" : name;
}

std::string GraphPath(Ort::ConstGraph graph) {
  const Ort::ConstNode parent = graph.GetParentNode();
  return parent == nullptr ? std::string() : NodeLabel(parent) + "/" + AttributeName(parent, graph);
}

int64_t IntAttribute(Ort::ConstNode node, const char* name, int64_t fallback) {
  return ScalarAttribute(node, name, ORT_OP_ATTR_INT, fallback);
}

float FloatAttribute(Ort::ConstNode node, const char* name, float fallback) {
  return ScalarAttribute(node, name, ORT_OP_ATTR_FLOAT, fallback);
}

std::vector<int64_t> IntsAttribute(Ort::ConstNode node, const char* name) {
  const OrtOpAttr* const attribute = FindAttribute(node, name);
  if (attribute == nullptr) return {};
  // Without a buffer, ONNX Runtime tells the size and calls that an error.
  size_t bytes = 0;
  const Ort::Status sized(Ort::GetApi().ReadOpAttr(attribute, ORT_OP_ATTR_INTS, nullptr, 0, &bytes));
  std::vector<int64_t> values(bytes / sizeof(int64_t));
  if (values.empty()) return values;
  Ort::ThrowOnError(Ort::GetApi().ReadOpAttr(attribute, ORT_OP_ATTR_INTS, values.data(), bytes, &bytes));
  return values;
}

}  // namespace onnxruntime_mlas::provider
