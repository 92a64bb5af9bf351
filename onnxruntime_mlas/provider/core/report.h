// The JSON report that other tools read in place of logs: every node of our operators, taken or not, and why.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "onnxruntime_mlas/isa_choice.h"

namespace onnxruntime_mlas::provider {

// What an operator says about one of its nodes, in the order of the report.
using Field = std::pair<std::string, std::variant<int64_t, std::string, std::vector<std::string>>>;
using Fields = std::vector<Field>;

struct NodeReport {
  std::string graph;   // GraphPath
  std::string output;  // name of the first output
  std::string values;  // ValueNames, which with `graph` tell a node from every other
  std::string name;
  std::string op_type;
  bool taken = false;
  std::string reason;  // why not, when not taken
  Fields fields;
};

class Report {
 public:
  // `path` may be empty: nothing is written then.
  Report(std::string path, IsaChoice isas);

  // Adds a node, or replaces what was said about the same node.
  void Put(NodeReport node);

  // Graph of the node put last with these `values`.
  std::string GraphOfLast(const std::string& values) const;

  // Replaces the file in one step, so that a reader never sees half of it. Throws Ort::Exception naming the path.
  void Write() const;

 private:
  std::string Json() const;

  std::string path_;
  IsaChoice isas_;
  std::vector<NodeReport> nodes_;
};

}  // namespace onnxruntime_mlas::provider
