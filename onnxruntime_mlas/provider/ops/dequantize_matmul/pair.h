// A DequantizeLinear + MatMul or Gemm pair as the model states it, before anything about it is believed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "onnxruntime_mlas/qnbit.h"
#include "provider/core/operators.h"

namespace onnxruntime_mlas::provider::dequantize_matmul {

// An input or output of a node.
struct Value {
  Ort::ConstValueInfo info{nullptr};  // null: the optional input is left out
  std::string name;
  bool constant = false;  // an initializer that no run can override
  ONNXTensorElementDataType type = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  std::vector<int64_t> shape;  // complete for constants; elsewhere -1 stands for a dim that isn't known

  bool present() const { return info != nullptr; }
};

// Of all inputs or outputs of a node.
Value ReadValue(const std::vector<Ort::ConstValueInfo>& values, size_t index);

// Integers that DequantizeLinear takes and the GEMM has kernels for.
struct CodeType {
  uint32_t bits;
  bool is_signed;
};
std::optional<CodeType> CodeTypeOf(ONNXTensorElementDataType type);
// Of a type that was found to be one of those. Throws Ort::Exception.
CodeType RequireCodeType(ONNXTensorElementDataType type);

struct Pair {
  NodeGroup group;
  std::string label;  // of the main node

  Value a;
  Value weight;
  Value scale;
  Value zero_point;
  Value dequantized;  // DequantizeLinear's output
  Value bias;         // Gemm's C or what Add adds

  int64_t axis = 1;        // of DequantizeLinear, in [0, rank) where the weight has that axis
  int64_t block_size = 0;  // 0: a scale per column or one for all
  bool gemm = false;
  bool has_transpose = false;
  // Attributes of the nodes after DequantizeLinear.
  std::vector<int64_t> permutation;  // of Transpose; empty: its default, all dims reversed
  bool transpose_a = false;
  bool transpose_b = false;
  float alpha = 1.0f;
  float beta = 1.0f;

  // Whether the constant is [N, K] rather than [K, N].
  bool weight_is_transposed() const { return has_transpose != transpose_b; }
  // Of a weight with two dims.
  int64_t n() const { return weight.shape[weight_is_transposed() ? 0 : 1]; }
  int64_t k() const { return weight.shape[weight_is_transposed() ? 1 : 0]; }
  int64_t k_axis() const { return weight_is_transposed() ? 1 : 0; }

  // "DequantizeLinear+MatMul node 'name'".
  std::string Where() const;
};

Pair ReadPair(const NodeGroup& group);

// What error texts call an input: "DequantizeLinear+MatMul node 'mm': scale ('mm.scale')".
std::string Label(const Pair& pair, const char* input, const Value& value);

// The value of a constant of a supported type, as large as its shape says. Throws Ort::Exception (ORT_INVALID_GRAPH).
const void* ReadConstant(const Pair& pair, const char* input, const Value& value);
// The same for floating-point types, widened.
std::vector<float> ReadFloats(const Pair& pair, const char* input, const Value& value);

// How the constants map to the GEMM's terms. The weight's columns are N, whichever way the constant lies.
enum class Granularity : uint8_t { kTensor, kColumn, kBlocks };

// Of a pair whose scale has a shape that DequantizeLinear allows.
Granularity GranularityOf(const Pair& pair);

// The block length to pack with: DequantizeLinear's own where kernels have it, else a shorter one whose blocks each lie
// in one block of the model.
uint32_t BlockLenFor(const Pair& pair);

// The longest such block that divides a model's block evenly; 0 when there is none.
uint32_t LongestBlockWithin(int64_t block_size);

qnbit::ComputeType ComputeTypeOf(const Options& options);

// The report's fields; the same as those of MatMulNBits nodes. `info` is null for a pair that is not compiled.
Fields ReportFields(const Pair& pair, const Options& options, const qnbit::PackedInfo* info,
                    std::vector<std::string> kernels, size_t packed_bytes);

// Whether it is the shape of a scalar, for which ONNX Runtime also takes a vector of one.
bool IsOne(const std::vector<int64_t>& shape);

std::string ShapeText(const std::vector<int64_t>& shape);

}  // namespace onnxruntime_mlas::provider::dequantize_matmul
