// Reading an OrtGraph: names for people, attributes with their defaults.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "provider/core/ort.h"

namespace onnxruntime_mlas::provider {

// The node's name; where it has none, "output 'y'" after its first output.
std::string NodeLabel(Ort::ConstNode node);

std::string FirstOutputName(Ort::ConstNode node);

// "" for the main graph, else e.g. "if_3/then_branch": the names of the node and of the attribute that hold the graph.
// ONNX Runtime doesn't tell a plugin where that node stands in turn.
std::string GraphPath(Ort::ConstGraph graph);

// Names of all inputs and outputs: two nodes of one graph never have all in common, while names of nodes may be missing
// and bodies of If nodes may repeat each other's names.
std::string ValueNames(Ort::ConstNode node);

// `fallback` also stands in for attributes that this ONNX Runtime's schema doesn't know yet.
int64_t IntAttribute(Ort::ConstNode node, const char* name, int64_t fallback);
float FloatAttribute(Ort::ConstNode node, const char* name, float fallback);
// Empty when the attribute is absent.
std::vector<int64_t> IntsAttribute(Ort::ConstNode node, const char* name);

}  // namespace onnxruntime_mlas::provider
