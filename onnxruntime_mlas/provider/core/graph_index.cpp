#include "provider/core/graph_index.h"

namespace onnxruntime_mlas::provider {

GraphIndex::GraphIndex(Ort::ConstGraph graph) : nodes_(graph.GetNodes()) {
  for (const Ort::ConstNode& node : nodes_) {
    const auto count = [&](const std::vector<Ort::ConstValueInfo>& inputs) {
      for (const Ort::ConstValueInfo& input : inputs) {
        if (input == nullptr) continue;
        Value& value = values_[input.GetName()];
        value.user = node;
        ++value.uses;
      }
    };
    count(node.GetInputs());
    count(node.GetImplicitInputs());
    for (const Ort::ConstValueInfo& output : node.GetOutputs()) {
      if (output != nullptr) values_[output.GetName()].producer = node;
    }
  }
  for (const Ort::ConstValueInfo& output : graph.GetOutputs()) {
    if (output != nullptr) ++values_[output.GetName()].uses;
  }
}

const GraphIndex::Value* GraphIndex::Find(const std::string& value) const {
  const auto found = values_.find(value);
  return found == values_.end() ? nullptr : &found->second;
}

Ort::ConstNode GraphIndex::Producer(const std::string& value) const {
  const Value* const found = Find(value);
  return found == nullptr ? Ort::ConstNode{nullptr} : found->producer;
}

size_t GraphIndex::Uses(const std::string& value) const {
  const Value* const found = Find(value);
  return found == nullptr ? 0 : found->uses;
}

Ort::ConstNode GraphIndex::OnlyUser(const std::string& value) const {
  const Value* const found = Find(value);
  return found == nullptr || found->uses != 1 ? Ort::ConstNode{nullptr} : found->user;
}

}  // namespace onnxruntime_mlas::provider
