#include "provider/ops/ep_context/ep_context.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "provider/core/context_file.h"
#include "provider/core/element_types.h"
#include "provider/core/graph.h"
#include "provider/core/temporary_file.h"
#include "provider/ops/matmul_nbits/node.h"
#include "provider/ops/matmul_nbits/stored.h"

namespace onnxruntime_mlas::provider::ep_context {
namespace {

constexpr char kWayOut[] =
    "; compile the original model again (ort-mlas compile, or session option ep.context_enable = 1)";

std::string StringAttribute(Ort::ConstNode node, const char* name) {
  const OrtOpAttr* attribute = nullptr;
  const Ort::Status found(Ort::GetApi().Node_GetAttributeByName(node, name, &attribute));
  std::string value;
  if (!found.IsOK() || attribute == nullptr) return value;
  if (!Ort::ConstOpAttr(attribute).GetValue(value).IsOK()) value.clear();
  return value;
}

std::filesystem::path FolderOf(const std::string& model_path) { return PathFromUtf8(model_path).parent_path(); }

std::string ModelPathOf(Ort::ConstNode node) {
  const std::basic_string<ORTCHAR_T> path = node.GetGraph().GetModelPath();
  const std::u8string text = std::filesystem::path(path).u8string();
  return {text.begin(), text.end()};
}

// "file:index" as WriteNodes puts it.
struct Reference {
  std::string file;
  size_t index = 0;
};
Reference ParseReference(const std::string& text) {
  const size_t colon = text.rfind(':');
  const std::string digits = colon == std::string::npos ? "" : text.substr(colon + 1);
  const bool number = !digits.empty() && digits.size() < 10 &&
                      std::all_of(digits.begin(), digits.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
  if (!number) Fail(ORT_INVALID_GRAPH, "ep_cache_context '" + text.substr(0, 100) + "' names no file");
  const std::string file = text.substr(0, colon);
  // A file in the model's own folder: a model must not make a session read others.
  const std::filesystem::path path = PathFromUtf8(file);
  if (file.empty() || path.has_parent_path() || path.has_root_path() || file == "." || file == "..") {
    Fail(ORT_INVALID_GRAPH, "ep_cache_context names '" + file + "', which is not in the model's folder");
  }
  return {file, static_cast<size_t>(std::stoul(digits))};
}

// ONNX Runtime lends no view of an attribute: it is copied once, to where packed weights can be used in place.
StoredBlob CopyOfAttribute(Ort::ConstNode node, const char* name) {
  const OrtApi& api = Ort::GetApi();
  const OrtOpAttr* attribute = nullptr;
  const Ort::Status found(api.Node_GetAttributeByName(node, name, &attribute));
  size_t bytes = 0;
  if (found.IsOK() && attribute != nullptr) {
    // Fails for want of room, and says how much is needed.
    const Ort::Status size(api.ReadOpAttr(attribute, ORT_OP_ATTR_STRING, nullptr, 0, &bytes));
  }
  if (bytes == 0) return {};
  const auto buffer = std::make_shared<const AlignedBuffer>(bytes);
  Ort::ThrowOnError(api.ReadOpAttr(attribute, ORT_OP_ATTR_STRING, buffer->data(), bytes, &bytes));
  return {{buffer->data(), bytes}, buffer};
}

StoredBlob ReadBlob(Ort::ConstNode node, const Options& options) {
  if (IntAttribute(node, "embed_mode", 1) != 0) return CopyOfAttribute(node, "ep_cache_context");
  const std::string context = StringAttribute(node, "ep_cache_context");
  const Reference reference = ParseReference(context);
  std::string model_path = ModelPathOf(node);
  if (model_path.empty()) model_path = options.context_file_path;
  if (model_path.empty()) {
    Fail(ORT_INVALID_GRAPH, "its weights are in the file '" + reference.file +
                                "' beside the model, but the model was loaded from memory; load it by its path, or set "
                                "session option ep.context_file_path to where it would be");
  }
  return ContextFile::Open(FolderOf(model_path) / PathFromUtf8(reference.file))->Blob(reference.index);
}

void SetIndices(Ort::ConstNode node, const FusedInputs& inputs, matmul_nbits::Kernel* kernel) {
  const std::vector<Ort::ConstValueInfo> node_inputs = node.GetInputs();
  for (matmul_nbits::InputSlot& slot : kernel->slots) {
    if (!slot.passed()) continue;
    const std::string name = slot.index < node_inputs.size() && node_inputs[slot.index] != nullptr
                                 ? node_inputs[slot.index].GetName()
                                 : std::string();
    const auto found = std::find(inputs.begin(), inputs.end(), name);
    if (name.empty() || found == inputs.end()) {
      Fail(ORT_INVALID_GRAPH, "it lacks an input that its stored node reads");
    }
    slot.index = static_cast<size_t>(found - inputs.begin());
  }
}

int AccuracyLevel(const matmul_nbits::StoredAttributes& stored, const Options& options) {
  const std::optional<int>& replaced =
      stored.origin == matmul_nbits::Origin::kMatMulNBits ? options.accuracy_level : options.qdq_accuracy_level;
  return replaced.value_or(stored.accuracy_level);
}

}  // namespace

NodeGroup MatchGroup(const GraphIndex&, Ort::ConstNode node) {
  NodeGroup group;
  const bool ours = node.GetOperatorType() == "EPContext" && node.GetDomain() == "com.microsoft" &&
                    StringAttribute(node, "source") == kProviderName;
  if (ours) group.nodes.push_back(node);
  return group;
}

Decision CanRun(const GraphIndex&, const NodeGroup&, const Options&) {
  Decision decision;
  decision.take = true;
  return decision;
}

Compiled Compile(const NodeGroup& group, const FusedInputs& inputs, const Options& options) {
  const Ort::ConstNode node = group.main_node();
  std::unique_ptr<matmul_nbits::Kernel> restored;
  try {
    restored = matmul_nbits::Restore(ReadBlob(node, options));
    SetIndices(node, inputs, restored.get());
  } catch (const Ort::Exception& error) {
    Fail(error.GetOrtErrorCode(), "EPContext node '" + NodeLabel(node) + "': " + error.what() + kWayOut);
  }
  matmul_nbits::Kernel& kernel = *restored;
  kernel.isas = options.isas;

  matmul_nbits::Node described;
  described.attributes = {.k = static_cast<int64_t>(kernel.dims.k),
                          .n = static_cast<int64_t>(kernel.dims.n),
                          .bits = kernel.dims.bits,
                          .block_size = static_cast<int64_t>(kernel.dims.block_size),
                          .accuracy_level = AccuracyLevel(kernel.stored, options)};
  described.inputs[matmul_nbits::kA].type = OrtTypeOf(kernel.type);
  kernel.compute = matmul_nbits::ComputeTypeOf(described.attributes);
  Fields fields = matmul_nbits::ReportFields(
      described, &kernel.view.info,
      kernel.dims.empty() ? std::vector<std::string>{} : matmul_nbits::KernelNames(kernel, kernel.view),
      kernel.packed.bytes.size());
  return {std::move(restored), std::move(fields)};
}

std::vector<OrtNode*> WriteNodes(const std::vector<Ort::ConstNode>& fused,
                                 const std::vector<const CompiledNode*>& compiled, const std::string& model_path,
                                 const std::string& suffix, const Options& options) {
  std::vector<BlobToStore> blobs;
  blobs.reserve(compiled.size());
  for (const CompiledNode* node : compiled) blobs.push_back(node->Store());

  std::string file;
  if (!options.context_embed) {
    std::filesystem::path model =
        PathFromUtf8(options.context_file_path.empty() ? model_path : options.context_file_path);
    if (model.empty()) {
      Fail(ORT_INVALID_ARGUMENT, std::string(kProviderName) +
                                     ": packed weights go into a file beside the compiled model, whose path is not "
                                     "known; set session option ep.context_file_path, or ep.context_embed_mode = 1");
    }
    if (options.context_file_path.empty()) model.replace_filename(model.stem().u8string() + u8"_ctx.onnx");
    const std::u8string name =
        model.stem().u8string() + u8"_mlas" + std::u8string(suffix.begin(), suffix.end()) + u8".bin";
    file.assign(name.begin(), name.end());
    WriteContextFile(model.parent_path() / name, blobs);
  }

  std::vector<Ort::Node> nodes;
  for (size_t i = 0; i < fused.size(); ++i) {
    const auto names = [](const std::vector<Ort::ConstValueInfo>& values) {
      std::vector<std::string> result;
      result.reserve(values.size());
      for (const Ort::ConstValueInfo& value : values) result.push_back(value == nullptr ? "" : value.GetName());
      return result;
    };
    std::string context = file + ":" + std::to_string(i);
    if (options.context_embed) {
      if (blobs[i].bytes() > static_cast<size_t>(std::numeric_limits<int>::max())) {
        Fail(ORT_INVALID_ARGUMENT, std::string(kProviderName) +
                                       ": weights of 2 GiB and more can't be embedded in a model; set session option "
                                       "ep.context_embed_mode = 0");
      }
      context.assign(reinterpret_cast<const char*>(blobs[i].head.data()), blobs[i].head.size());
      context.append(reinterpret_cast<const char*>(blobs[i].packed.data()), blobs[i].packed.size());
    }
    const std::string name = fused[i].GetName();
    const auto text = [](const char* key, const std::string& value) {
      return Ort::OpAttr(key, value.data(), static_cast<int>(value.size()), ORT_OP_ATTR_STRING);
    };
    const auto number = [](const char* key, int64_t value) { return Ort::OpAttr(key, &value, 1, ORT_OP_ATTR_INT); };
    std::vector<Ort::OpAttr> attributes;
    attributes.push_back(text("ep_cache_context", context));
    attributes.push_back(number("main_context", 1));
    attributes.push_back(number("embed_mode", options.context_embed ? 1 : 0));
    attributes.push_back(text("partition_name", name));
    attributes.push_back(text("source", kProviderName));
    attributes.push_back(text("ep_sdk_version", ORT_MLAS_VERSION));
    // ONNX Runtime finds a fused node's EPContext node by its name.
    nodes.emplace_back("EPContext", "com.microsoft", name, names(fused[i].GetInputs()), names(fused[i].GetOutputs()),
                       attributes);
  }
  std::vector<OrtNode*> released;
  released.reserve(nodes.size());
  for (Ort::Node& node : nodes) released.push_back(node.release());
  return released;
}

}  // namespace onnxruntime_mlas::provider::ep_context
