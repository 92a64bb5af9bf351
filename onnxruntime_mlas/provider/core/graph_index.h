// Who makes and who uses each value of one graph.
#pragma once

#include <cstddef>
#include <string>
#include <unordered_map>
#include <vector>

#include "provider/core/ort.h"

namespace onnxruntime_mlas::provider {

class GraphIndex {
 public:
  explicit GraphIndex(Ort::ConstGraph graph);

  const std::vector<Ort::ConstNode>& nodes() const { return nodes_; }

  // Null for inputs, initializers and values of an outer graph.
  Ort::ConstNode Producer(const std::string& value) const;

  // Inputs of this graph's nodes that read the value, its reads in bodies of If and Loop counted once per node, and 1
  // where it is a graph output.
  size_t Uses(const std::string& value) const;

  // The node that makes the value's only use; null when there are others, or the graph gives the value out.
  Ort::ConstNode OnlyUser(const std::string& value) const;

 private:
  struct Value {
    Ort::ConstNode producer{nullptr};
    Ort::ConstNode user{nullptr};  // the last one
    size_t uses = 0;
  };
  const Value* Find(const std::string& value) const;

  std::vector<Ort::ConstNode> nodes_;
  std::unordered_map<std::string, Value> values_;
};

}  // namespace onnxruntime_mlas::provider
