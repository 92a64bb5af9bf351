// Provider options. The table in options.cpp is the one list of them: reading, checking and error texts follow from it.
#pragma once

#include <optional>
#include <string>

#include "onnxruntime_mlas/isa_choice.h"
#include "provider/core/ort.h"

namespace onnxruntime_mlas::provider {

struct Options {
  IsaChoice isas;
  std::optional<int> accuracy_level;      // replaces the attribute of every node
  std::optional<int> qdq_accuracy_level;  // of DequantizeLinear + MatMul pairs, which have no such attribute; default 0
  std::string report;                     // path of the JSON report; empty: none

  // ONNX Runtime's own: the session is to write an EPContext model, with weights inside or in a file beside it.
  bool context_enable = false;    // ep.context_enable
  bool context_embed = false;     // ep.context_embed_mode
  std::string context_file_path;  // ep.context_file_path; empty: beside the original
};

// Throws Ort::Exception on an unknown key and on a value that the option doesn't take.
Options ReadOptions(const OrtSessionOptions& session_options);

}  // namespace onnxruntime_mlas::provider
