#include "provider/core/options.h"

#include <string_view>
#include <vector>

namespace onnxruntime_mlas::provider {
namespace {

Status SetIsa(const char* value, Options* options) { return SelectIsas(value, &options->isas); }

Status ReadAccuracyLevel(const char* value, int* level) {
  const std::string_view text = value;
  if (text.size() != 1 || text[0] < '0' || text[0] > '4') {
    return Status::Error(std::string("'").append(text).append("' is not one of 0, 1, 2, 3, 4"));
  }
  *level = text[0] - '0';
  return {};
}

Status SetAccuracyLevel(const char* value, Options* options) {
  return ReadAccuracyLevel(value, &options->accuracy_level.emplace());
}

Status SetQdqAccuracyLevel(const char* value, Options* options) {
  return ReadAccuracyLevel(value, &options->qdq_accuracy_level.emplace());
}

Status SetReport(const char* value, Options* options) {
  if (*value == '\0') return Status::Error("the path is empty; leave the option out for no report");
  options->report = value;
  return {};
}

struct Option {
  const char* key;
  Status (*set)(const char* value, Options* options);
};

// isa                 the one ISA whose kernels run (default: ORT_MLAS_ISA, else those that isa_choice.h chooses by M)
// accuracy_level      used in place of every MatMulNBits node's attribute: 4 computes in int8, 0..3 in fp32
// qdq_accuracy_level  the same for DequantizeLinear + MatMul pairs, whose operators know no such attribute: by default
// 0,
//                     because a graph that dequantises asks for a product of floating-point numbers
// report              path of a JSON file that lists every node of our operators, taken or not
constexpr Option kOptions[] = {
    {"isa", SetIsa},
    {"accuracy_level", SetAccuracyLevel},
    {"qdq_accuracy_level", SetQdqAccuracyLevel},
    {"report", SetReport},
};

const Option* FindOption(std::string_view key) {
  for (const Option& option : kOptions) {
    if (key == option.key) return &option;
  }
  return nullptr;
}

std::string KnownKeys() {
  std::string keys;
  for (const Option& option : kOptions) keys += (keys.empty() ? "" : ", ") + std::string(option.key);
  return keys;
}

}  // namespace

Options ReadOptions(const OrtSessionOptions& session_options) {
  OrtKeyValuePairs* raw = nullptr;
  Ort::ThrowOnError(Ort::GetApi().GetSessionOptionsConfigEntries(&session_options, &raw));
  const Ort::KeyValuePairs entries(raw);
  std::vector<const char*> keys;
  std::vector<const char*> values;
  entries.GetKeyValuePairs(keys, values);

  Options options;
  const char* isa = nullptr;
  for (size_t i = 0; i < keys.size(); ++i) {
    const std::string_view key = keys[i];
    const std::string_view value = values[i];
    if (key == "ep.context_enable") options.context_enable = value == "1";
    if (key == "ep.context_embed_mode") options.context_embed = value == "1";
    if (key == "ep.context_file_path") options.context_file_path = value;
    if (!key.starts_with(kOptionPrefix)) continue;
    const std::string_view name = key.substr(std::string_view(kOptionPrefix).size());
    const Option* option = FindOption(name);
    if (option == nullptr) {
      Fail(ORT_INVALID_ARGUMENT,
           std::string(kProviderName) + ": unknown option '" + std::string(name) + "'; known options: " + KnownKeys());
    }
    if (option->set == SetIsa) isa = values[i];
    FailIfError(option->set(values[i], &options), ORT_INVALID_ARGUMENT,
                std::string(kProviderName) + ": option '" + std::string(name) + "'");
  }
  // Without the option the choice is still to be made: by the environment, else by what the machine has.
  if (isa == nullptr) FailIfError(SetIsa(nullptr, &options), ORT_INVALID_ARGUMENT, kProviderName);
  return options;
}

}  // namespace onnxruntime_mlas::provider
