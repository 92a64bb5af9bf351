// What the provider needs of an operator: whether a node of it can be run right, and code to run it.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "provider/core/options.h"
#include "provider/core/ort.h"
#include "provider/core/report.h"

namespace onnxruntime_mlas::provider {

struct Decision {
  bool take = false;
  std::string reason;  // a sentence, when not taken
  // All constant inputs are read once in compile, so ONNX Runtime may free them.
  bool drop_initializers = false;
  Fields fields;
};

// A node ready to run. Immutable: Run may be called by several threads at once.
class CompiledNode {
 public:
  virtual ~CompiledNode() = default;
  // Throws Ort::Exception.
  virtual void Run(OrtKernelContext* context) const = 0;
};

struct Compiled {
  std::unique_ptr<CompiledNode> node;
  Fields fields;
};

// Names of the inputs that the fused node passes at run time, in their order.
using FusedInputs = std::vector<std::string>;

struct Operator {
  const char* domain;
  const char* op_type;
  Decision (*can_run)(Ort::ConstNode node, const Options& options);
  // Throws Ort::Exception on a malformed node, naming the node and the fact that is wrong.
  Compiled (*compile)(Ort::ConstNode node, const FusedInputs& inputs, const Options& options);
};

std::span<const Operator> Operators();

// Null when the provider doesn't know the node's operator.
const Operator* FindOperator(Ort::ConstNode node);

}  // namespace onnxruntime_mlas::provider
