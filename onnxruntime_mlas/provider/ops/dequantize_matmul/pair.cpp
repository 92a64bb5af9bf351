#include "provider/ops/dequantize_matmul/pair.h"

#include <iterator>
#include <utility>

#include "provider/core/element_types.h"
#include "provider/core/graph.h"
#include "provider/ops/matmul_nbits/node.h"

namespace onnxruntime_mlas::provider::dequantize_matmul {
namespace {

// ONNX Runtime appended these to its C enum after the version whose headers this provider is built against.
constexpr int kUint2 = 24;
constexpr int kInt2 = 25;

constexpr uint32_t kShortestBlock = qnbit::kBlockLengths[0];

// Blocks of the model that are longer, or all of K where a column has one scale, are cut to this length and the scale
// is repeated: 2 bytes for every 32 to 128 of codes. In int8 compute a block of the weights is also a block of A,
// rounded to 1/127 of its largest element, and one outlier in a much longer block would drown the rest of it.
constexpr uint32_t kLongestBlock = 128;
// Where the length is free, none shorter: kernels do more work per code in blocks of 16.
constexpr uint32_t kShortestFreeBlock = 32;

bool IsOf(Ort::ConstNode node, const char* op_type) {
  return node != nullptr && node.GetDomain().empty() && node.GetOperatorType() == op_type;
}

// The contrib operator that models below opset 21 use for 4 bits means the same.
bool IsDequantize(Ort::ConstNode node) {
  return node != nullptr && node.GetOperatorType() == "DequantizeLinear" &&
         (node.GetDomain().empty() || node.GetDomain() == "com.microsoft");
}

std::string InputName(Ort::ConstNode node, size_t index) {
  const std::vector<Ort::ConstValueInfo> inputs = node.GetInputs();
  return index < inputs.size() && inputs[index] != nullptr ? inputs[index].GetName() : std::string();
}

// The input of Add that isn't `sum`.
Value Addend(Ort::ConstNode add, const std::string& sum) {
  const std::vector<Ort::ConstValueInfo> inputs = add.GetInputs();
  return ReadValue(inputs, InputName(add, 0) == sum ? 1 : 0);
}

// An Add that the product can take in as bias: it adds a constant [N] and nothing else needs what comes before it.
Ort::ConstNode BiasAdd(const GraphIndex& graph, Ort::ConstNode product, int64_t n) {
  const std::string sum = FirstOutputName(product);
  const Ort::ConstNode add = graph.OnlyUser(sum);
  if (!IsOf(add, "Add")) return Ort::ConstNode{nullptr};
  const Value addend = Addend(add, sum);
  const bool fits = addend.constant && addend.shape == std::vector<int64_t>{n};
  return fits ? add : Ort::ConstNode{nullptr};
}

size_t ConstantBytes(ONNXTensorElementDataType type, size_t elements) {
  if (const auto floats = ElementTypeOf(type)) return elements * qnbit::BytesOf(*floats);
  return (elements * RequireCodeType(type).bits + 7) / 8;
}

}  // namespace

std::optional<CodeType> CodeTypeOf(ONNXTensorElementDataType type) {
  static constexpr std::pair<int, CodeType> kTypes[] = {
      {kUint2, {2, false}},
      {kInt2, {2, true}},
      {ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT4, {4, false}},
      {ONNX_TENSOR_ELEMENT_DATA_TYPE_INT4, {4, true}},
      {ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8, {8, false}},
      {ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8, {8, true}},
  };
  for (const auto& [candidate, code_type] : kTypes) {
    if (type == candidate) return code_type;
  }
  return std::nullopt;
}

CodeType RequireCodeType(ONNXTensorElementDataType type) {
  const std::optional<CodeType> found = CodeTypeOf(type);
  if (!found) Fail(ORT_FAIL, std::string("elements of ") + TypeName(type) + " where quantised integers are expected");
  return *found;
}

Value ReadValue(const std::vector<Ort::ConstValueInfo>& values, size_t index) {
  Value value;
  if (index >= values.size() || values[index] == nullptr) return value;
  value.name = values[index].GetName();
  if (value.name.empty()) return value;
  value.info = values[index];
  value.constant = value.info.IsConstantInitializer();
  const Ort::ConstTypeInfo type = value.info.TypeInfo();
  if (type != nullptr && type.GetONNXType() == ONNX_TYPE_TENSOR) {
    const Ort::ConstTensorTypeAndShapeInfo tensor = type.GetTensorTypeAndShapeInfo();
    value.type = tensor.GetElementType();
    value.shape = tensor.GetShape();
  }
  return value;
}

std::string Pair::Where() const { return group.OpType() + " node '" + label + "'"; }

NodeGroup MatchGroup(const GraphIndex& graph, Ort::ConstNode node) {
  if (!IsOf(node, "MatMul") && !IsOf(node, "Gemm")) return {};
  NodeGroup group;
  Ort::ConstNode source = graph.Producer(InputName(node, 1));
  if (IsOf(source, "Transpose")) {
    group.nodes.push_back(source);
    source = graph.Producer(InputName(source, 0));
  }
  if (!IsDequantize(source)) return {};
  group.nodes.insert(group.nodes.begin(), source);
  group.main = group.nodes.size();
  group.nodes.push_back(node);

  const Pair pair = ReadPair(group);
  if (pair.bias.present() || pair.weight.shape.size() != 2) return group;
  const Ort::ConstNode add = BiasAdd(graph, node, pair.n());
  if (add != nullptr) group.nodes.push_back(add);
  return group;
}

Pair ReadPair(const NodeGroup& group) {
  Pair pair;
  pair.group = group;
  const Ort::ConstNode dequantize = group.nodes.front();
  const Ort::ConstNode product = group.main_node();
  pair.label = NodeLabel(product);
  pair.a = ReadValue(product.GetInputs(), 0);
  pair.weight = ReadValue(dequantize.GetInputs(), 0);
  pair.scale = ReadValue(dequantize.GetInputs(), 1);
  pair.zero_point = ReadValue(dequantize.GetInputs(), 2);
  pair.dequantized = ReadValue(dequantize.GetOutputs(), 0);
  pair.axis = IntAttribute(dequantize, "axis", 1);
  if (pair.axis < 0) pair.axis += static_cast<int64_t>(pair.weight.shape.size());
  pair.block_size = IntAttribute(dequantize, "block_size", 0);
  pair.has_transpose = group.main == 2;
  if (pair.has_transpose) pair.permutation = IntsAttribute(group.nodes[1], "perm");
  pair.gemm = product.GetOperatorType() == "Gemm";
  if (pair.gemm) {
    pair.transpose_a = IntAttribute(product, "transA", 0) != 0;
    pair.transpose_b = IntAttribute(product, "transB", 0) != 0;
    pair.alpha = FloatAttribute(product, "alpha", 1.0f);
    pair.beta = FloatAttribute(product, "beta", 1.0f);
    pair.bias = ReadValue(product.GetInputs(), 2);
  }
  if (group.main + 1 < group.nodes.size()) pair.bias = Addend(group.nodes.back(), FirstOutputName(product));
  return pair;
}

Granularity GranularityOf(const Pair& pair) {
  if (pair.block_size != 0) return Granularity::kBlocks;
  return IsOne(pair.scale.shape) ? Granularity::kTensor : Granularity::kColumn;
}

uint32_t LongestBlockWithin(int64_t block_size) {
  uint32_t length = kLongestBlock;
  while (length >= kShortestBlock && block_size % length != 0) length /= 2;
  return length >= kShortestBlock ? length : 0;
}

uint32_t BlockLenFor(const Pair& pair) {
  const int64_t k = pair.k();
  if (pair.block_size != 0 && pair.block_size < k) return LongestBlockWithin(pair.block_size);
  // One scale for all of K: the length that takes the fewest bytes, K padded to whole blocks included.
  const uint32_t bits = RequireCodeType(pair.weight.type).bits;
  constexpr int64_t kScaleBytes = 2;
  uint32_t best = 0;
  int64_t best_bytes = 0;
  for (uint32_t length = kLongestBlock; length >= kShortestFreeBlock; length /= 2) {
    const int64_t blocks = k / length + (k % length != 0);
    const int64_t bytes = blocks * (int64_t{length} * bits / 8 + kScaleBytes);
    if (best == 0 || bytes < best_bytes) {
      best = length;
      best_bytes = bytes;
    }
  }
  return best;
}

qnbit::ComputeType ComputeTypeOf(const Options& options) {
  return options.qdq_accuracy_level.value_or(0) == 4 ? qnbit::ComputeType::kInt8 : qnbit::ComputeType::kFp32;
}

Fields ReportFields(const Pair& pair, const Options& options, const qnbit::PackedInfo* info,
                    std::vector<std::string> kernels, size_t packed_bytes) {
  matmul_nbits::Node node;
  const auto code_type = CodeTypeOf(pair.weight.type);
  const bool matrix = pair.weight.shape.size() == 2;
  node.attributes = {.k = matrix ? pair.k() : -1,
                     .n = matrix ? pair.n() : -1,
                     .bits = code_type ? code_type->bits : -1,
                     .block_size = info != nullptr ? info->block_len : pair.block_size,
                     .accuracy_level = options.qdq_accuracy_level.value_or(0)};
  node.inputs[matmul_nbits::kA].type = pair.a.type;
  const Value* const constants[] = {&pair.weight, &pair.scale, &pair.zero_point};
  for (size_t i = 0; i < std::size(constants); ++i) {
    matmul_nbits::NodeInput& input = node.inputs[matmul_nbits::kB + i];
    input.value = constants[i]->info;
    input.constant = constants[i]->constant;
  }
  return matmul_nbits::ReportFields(node, info, std::move(kernels), packed_bytes);
}

bool IsOne(const std::vector<int64_t>& shape) { return shape.empty() || shape == std::vector<int64_t>{1}; }

std::string Label(const Pair& pair, const char* input, const Value& value) {
  return pair.Where() + ": " + input + " ('" + value.name + "')";
}

const void* ReadConstant(const Pair& pair, const char* input, const Value& value) {
  Ort::ConstValue constant{nullptr};
  Ort::ThrowOnError(value.info.GetInitializer(constant));
  if (constant == nullptr) Fail(ORT_INVALID_GRAPH, Label(pair, input, value) + " is a constant without a value");
  const Ort::TensorTypeAndShapeInfo info = constant.GetTensorTypeAndShapeInfo();
  const bool same = info.GetElementType() == value.type && info.GetShape() == value.shape;
  if (!same || constant.GetTensorSizeInBytes() < ConstantBytes(value.type, info.GetElementCount())) {
    Fail(ORT_INVALID_GRAPH, Label(pair, input, value) + " has a value that differs from its declared type and shape " +
                                ShapeText(value.shape));
  }
  return constant.GetTensorRawData();
}

std::vector<float> ReadFloats(const Pair& pair, const char* input, const Value& value) {
  const void* const data = ReadConstant(pair, input, value);
  size_t count = 1;
  for (const int64_t dim : value.shape) count *= static_cast<size_t>(dim);
  std::vector<float> values(count);
  Widen(RequireElementType(value.type), data, count, values.data());
  return values;
}

std::string ShapeText(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i != 0) text += ',';
    text += std::to_string(shape[i]);
  }
  text += ']';
  return text;
}

}  // namespace onnxruntime_mlas::provider::dequantize_matmul
