#include "provider/core/report.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "provider/core/ort.h"
#include "provider/core/temporary_file.h"

namespace onnxruntime_mlas::provider {
namespace {

std::string Quoted(const std::string& text) {
  std::string json = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      json += '\\';
      json += c;
    } else if (byte < 0x20) {
      char escape[8];
      std::snprintf(escape, sizeof(escape), "\\u%04x", byte);
      json += escape;
    } else {
      json += c;
    }
  }
  return json + '"';
}

std::string ValueJson(const Field& field) {
  if (const auto* number = std::get_if<int64_t>(&field.second)) return std::to_string(*number);
  if (const auto* text = std::get_if<std::string>(&field.second)) return Quoted(*text);
  std::string json = "[";
  for (const std::string& item : std::get<std::vector<std::string>>(field.second)) {
    json += (json.size() > 1 ? ", " : "") + Quoted(item);
  }
  return json + "]";
}

std::string NodeJson(const NodeReport& node) {
  std::string json = "{\"name\": " + Quoted(node.name) + ", \"op_type\": " + Quoted(node.op_type) +
                     ", \"graph\": " + Quoted(node.graph) + ", \"output\": " + Quoted(node.output) +
                     ", \"taken\": " + (node.taken ? "true" : "false") + ", \"reason\": " + Quoted(node.reason);
  for (const Field& field : node.fields) json += ", " + Quoted(field.first) + ": " + ValueJson(field);
  return json + "}";
}

std::string IsasJson(const IsaChoice& isas) {
  return "{\"one_row\": " + Quoted(InfoOf(isas.one_row).name) +
         ", \"few_rows\": " + Quoted(InfoOf(isas.few_rows).name) +
         ", \"many_rows\": " + Quoted(InfoOf(isas.many_rows).name) +
         ", \"many_from\": " + std::to_string(isas.many_from) + "}";
}

}  // namespace

Report::Report(std::string path, IsaChoice isas) : path_(std::move(path)), isas_(isas) {}

void Report::Put(NodeReport node) {
  const auto same = std::find_if(nodes_.begin(), nodes_.end(), [&](const NodeReport& other) {
    return other.graph == node.graph && other.values == node.values;
  });
  if (same == nodes_.end()) {
    nodes_.push_back(std::move(node));
  } else {
    *same = std::move(node);
  }
}

std::string Report::GraphOfLast(const std::string& values) const {
  const auto last =
      std::find_if(nodes_.rbegin(), nodes_.rend(), [&](const NodeReport& node) { return node.values == values; });
  return last == nodes_.rend() ? std::string() : last->graph;
}

std::string Report::Json() const {
  std::string json = "{\n  \"provider\": " + Quoted(kProviderName) + ",\n  \"version\": " + Quoted(ORT_MLAS_VERSION) +
                     ",\n  \"isa\": " + Quoted(InfoOf(isas_.many_rows).name) + ",\n  \"isas\": " + IsasJson(isas_) +
                     ",\n  \"nodes\": [";
  for (size_t i = 0; i < nodes_.size(); ++i) json += (i == 0 ? "\n    " : ",\n    ") + NodeJson(nodes_[i]);
  return json + (nodes_.empty() ? "]\n}\n" : "\n  ]\n}\n");
}

void Report::Write() const {
  if (path_.empty()) return;
  try {
    TemporaryFile file(PathFromUtf8(path_));
    file.stream() << Json();
    file.Commit();
  } catch (const Ort::Exception& error) {
    Fail(error.GetOrtErrorCode(), std::string(kProviderName) + ": option 'report': " + error.what());
  }
}

}  // namespace onnxruntime_mlas::provider
