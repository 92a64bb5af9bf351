// Provider options. The table in options.cpp is the one list of them: reading, checking and error texts follow from it.
#pragma once

#include <optional>
#include <string>

#include "onnxruntime_mlas/isa_choice.h"
#include "provider/core/ort.h"

namespace onnxruntime_mlas::provider {

struct Options {
  IsaChoice isas;
  std::optional<int> accuracy_level;  // replaces the attribute of every node
  int qdq_accuracy_level = 0;         // of DequantizeLinear + MatMul pairs, which have no such attribute
  std::string report;                 // path of the JSON report; empty: none
  // The session asks for a pre-compiled model (session option ep.context_enable), which this provider can't give.
  bool ep_context = false;
};

// Throws Ort::Exception on an unknown key and on a value that the option doesn't take.
Options ReadOptions(const OrtSessionOptions& session_options);

}  // namespace onnxruntime_mlas::provider
