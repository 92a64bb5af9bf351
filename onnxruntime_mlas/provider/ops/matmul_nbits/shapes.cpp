#include "provider/ops/matmul_nbits/shapes.h"

#include <algorithm>
#include <limits>
#include <span>

#include "provider/core/element_types.h"

namespace onnxruntime_mlas::provider::matmul_nbits {
namespace {

using Shape = std::vector<int64_t>;

// Bounds n * k with room for what a packed element may take.
constexpr int64_t kMaxElements = std::numeric_limits<int64_t>::max() / 64;

std::string Text(const Shape& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text.append(i == 0 ? "" : ",").append(std::to_string(shape[i]));
  return text.append("]");
}

std::string Text(const std::vector<Shape>& shapes) {
  std::string text;
  for (const Shape& shape : shapes) text += (text.empty() ? "" : " or ") + Text(shape);
  return text;
}

std::string DimsText(const Dims& dims) {
  return "N = " + std::to_string(dims.n) + ", K = " + std::to_string(dims.k) +
         ", block_size = " + std::to_string(dims.block_size) + " and bits = " + std::to_string(dims.bits);
}

bool TypeFits(size_t input, ONNXTensorElementDataType type) {
  switch (input) {
    case kB:
      return type == ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8;
    case kZeroPoints:
      return type == ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8 || ElementTypeOf(type).has_value();
    case kGroupIndex:
      return type == ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32;
    default:
      return ElementTypeOf(type).has_value();
  }
}

// The shapes that the operator allows. Products can't overflow: CheckAttributes bounds n * k.
std::vector<Shape> AllowedShapes(const Dims& dims, size_t input, ONNXTensorElementDataType type) {
  const auto n = static_cast<int64_t>(dims.n);
  const auto k_blocks = static_cast<int64_t>(dims.k_blocks);
  switch (input) {
    case kB:
      return {{n, k_blocks, static_cast<int64_t>(dims.block_bytes)}};
    case kScales:
      return {{n, k_blocks}, {n * k_blocks}};  // older models have one flat dim
    case kZeroPoints: {
      const bool packed = type == ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8;
      const int64_t columns = packed ? static_cast<int64_t>(dims.zero_point_bytes) : k_blocks;
      return {{n, columns}, {n * columns}};
    }
    case kGroupIndex:
      return {{static_cast<int64_t>(dims.k)}, {k_blocks * static_cast<int64_t>(dims.block_size)}};  // padded
    default:
      return {{n}};
  }
}

[[noreturn]] void FailOnAttributes(const Node& node, const std::string& what) {
  Fail(ORT_INVALID_GRAPH, node.Where() + ": " + what);
}

}  // namespace

Dims CheckAttributes(const Node& node) {
  const Attributes& attributes = node.attributes;
  const auto bits = static_cast<uint32_t>(attributes.bits);  // 2, 4 or 8: others are declined
  const int64_t block_size = attributes.block_size;
  const std::span<const uint32_t> lengths = qnbit::BlockLengths(bits);
  if (std::find(lengths.begin(), lengths.end(), block_size) == lengths.end()) {
    FailOnAttributes(node, "attribute block_size = " + std::to_string(block_size) + " must be a power of two from " +
                               std::to_string(lengths.front()) + " to " + std::to_string(lengths.back()) +
                               " where bits = " + std::to_string(bits));
  }
  if (attributes.n < 0 || attributes.k < 0) {
    FailOnAttributes(node, "attributes N = " + std::to_string(attributes.n) +
                               " and K = " + std::to_string(attributes.k) + " must not be negative");
  }
  if (attributes.n > kMaxElements || attributes.k > kMaxElements ||
      (attributes.k > 0 && attributes.n > kMaxElements / (attributes.k + block_size))) {
    FailOnAttributes(node, "attributes N = " + std::to_string(attributes.n) +
                               " and K = " + std::to_string(attributes.k) + " name more weights than can be addressed");
  }
  Dims dims;
  dims.bits = bits;
  dims.n = static_cast<size_t>(attributes.n);
  dims.k = static_cast<size_t>(attributes.k);
  dims.block_size = static_cast<size_t>(block_size);
  dims.k_blocks = (dims.k + dims.block_size - 1) / dims.block_size;
  dims.block_bytes = dims.block_size * bits / 8;
  dims.zero_point_bytes = (dims.k_blocks * bits + 7) / 8;
  return dims;
}

InputLabel LabelOf(const Node& node, size_t input) {
  return {node.Where() + ": input " + InputName(input) + " ('" + node.inputs[input].name + "')"};
}

Tensor ReadTensor(const OrtValue* value) {
  const Ort::ConstValue tensor{value};
  const Ort::TensorTypeAndShapeInfo info = tensor.GetTensorTypeAndShapeInfo();
  return {.data = tensor.GetTensorRawData(), .type = info.GetElementType(), .shape = info.GetShape()};
}

void CheckTensor(const Dims& dims, size_t input, const Tensor& tensor, const InputLabel& label, OrtErrorCode code) {
  if (!TypeFits(input, tensor.type)) {
    Fail(code, label.where + " holds elements of " + TypeName(tensor.type) + ", which the operator does not allow");
  }
  const std::vector<Shape> allowed = AllowedShapes(dims, input, tensor.type);
  for (const Shape& shape : allowed) {
    if (tensor.shape == shape) return;
  }
  Fail(code, label.where + " has shape " + Text(tensor.shape) + ", but " + DimsText(dims) + " need " + Text(allowed));
}

size_t CheckActivations(const Dims& dims, qnbit::ElementType type, const Tensor& a, const InputLabel& label) {
  if (a.type != OrtTypeOf(type)) {
    Fail(ORT_INVALID_ARGUMENT, label.where + " holds elements of " + TypeName(a.type) + " where " +
                                   TypeName(OrtTypeOf(type)) + " is expected");
  }
  if (a.shape.empty() || a.shape.back() != static_cast<int64_t>(dims.k)) {
    Fail(ORT_INVALID_ARGUMENT, label.where + " has shape " + Text(a.shape) + ", but K = " + std::to_string(dims.k) +
                                   " needs [...," + std::to_string(dims.k) + "]");
  }
  const std::span<const int64_t> leading(a.shape.data(), a.shape.size() - 1);
  size_t rows = 1;
  for (const int64_t dim : leading) {
    if (dim == 0) return 0;
  }
  for (const int64_t dim : leading) {
    // Only a tensor without elements (K = 0) can have leading dims whose product overflows.
    if (rows > static_cast<size_t>(kMaxElements / dim)) {
      Fail(ORT_INVALID_ARGUMENT, label.where + " has shape " + Text(a.shape) + ", more rows than can be addressed");
    }
    rows *= static_cast<size_t>(dim);
  }
  return rows;
}

}  // namespace onnxruntime_mlas::provider::matmul_nbits
