#include "provider/core/element_types.h"

#include <algorithm>
#include <limits>
#include <string>

namespace onnxruntime_mlas::provider {
namespace {

template <class T>
void WidenAll(const void* values, size_t count, float* wide) {
  const T* const source = static_cast<const T*>(values);
  std::transform(source, source + count, wide, [](T value) { return static_cast<float>(value); });
}

template <class T>
void NarrowAll(const float* wide, size_t count, void* values) {
  std::transform(wide, wide + count, static_cast<T*>(values), [](float value) { return T(value); });
}

}  // namespace

std::optional<qnbit::ElementType> ElementTypeOf(ONNXTensorElementDataType type) {
  switch (type) {
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT:
      return qnbit::ElementType::kFloat32;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16:
      return qnbit::ElementType::kFloat16;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16:
      return qnbit::ElementType::kBFloat16;
    default:
      return std::nullopt;
  }
}

qnbit::ElementType RequireElementType(ONNXTensorElementDataType type) {
  const std::optional<qnbit::ElementType> found = ElementTypeOf(type);
  if (!found) Fail(ORT_FAIL, std::string("elements of ") + TypeName(type) + " where a floating-point type is expected");
  return *found;
}

ONNXTensorElementDataType OrtTypeOf(qnbit::ElementType type) {
  switch (type) {
    case qnbit::ElementType::kFloat32:
      return ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
    case qnbit::ElementType::kFloat16:
      return ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16;
    case qnbit::ElementType::kBFloat16:
      return ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16;
  }
  return ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
}

const char* TypeName(ONNXTensorElementDataType type) {
  switch (type) {
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT:
      return "float";
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16:
      return "float16";
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16:
      return "bfloat16";
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8:
      return "uint8";
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32:
      return "int32";
    default:
      return "another type";
  }
}

float LargestOf(qnbit::ElementType type) {
  switch (type) {
    case qnbit::ElementType::kFloat32:
      return std::numeric_limits<float>::max();
    case qnbit::ElementType::kFloat16:
      return 65504.0f;
    case qnbit::ElementType::kBFloat16:
      return 0x1.FEp127f;
  }
  return 0.0f;
}

void Widen(qnbit::ElementType type, const void* values, size_t count, float* wide) {
  switch (type) {
    case qnbit::ElementType::kFloat32:
      return WidenAll<float>(values, count, wide);
    case qnbit::ElementType::kFloat16:
      return WidenAll<Ort::Float16_t>(values, count, wide);
    case qnbit::ElementType::kBFloat16:
      return WidenAll<Ort::BFloat16_t>(values, count, wide);
  }
}

void Narrow(qnbit::ElementType type, const float* wide, size_t count, void* values) {
  switch (type) {
    case qnbit::ElementType::kFloat32:
      return NarrowAll<float>(wide, count, values);
    case qnbit::ElementType::kFloat16:
      return NarrowAll<Ort::Float16_t>(wide, count, values);
    case qnbit::ElementType::kBFloat16:
      return NarrowAll<Ort::BFloat16_t>(wide, count, values);
  }
}

}  // namespace onnxruntime_mlas::provider
