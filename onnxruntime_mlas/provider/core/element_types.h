// Element types of tensors: ONNX Runtime's names for them, and conversion of the floating-point ones.
#pragma once

#include <cstddef>
#include <optional>

#include "onnxruntime_mlas/qnbit.h"
#include "provider/core/ort.h"

namespace onnxruntime_mlas::provider {

// Nothing for types that activations can't have.
std::optional<qnbit::ElementType> ElementTypeOf(ONNXTensorElementDataType type);
// Of a type that was found to be one of those. Throws Ort::Exception.
qnbit::ElementType RequireElementType(ONNXTensorElementDataType type);
ONNXTensorElementDataType OrtTypeOf(qnbit::ElementType type);

// For error texts: "float", "int8"; "another type" where no operator of the provider takes it.
const char* TypeName(ONNXTensorElementDataType type);

// The largest finite number.
float LargestOf(qnbit::ElementType type);

void Widen(qnbit::ElementType type, const void* values, size_t count, float* wide);
// Rounds to the nearest.
void Narrow(qnbit::ElementType type, const float* wide, size_t count, void* values);

}  // namespace onnxruntime_mlas::provider
