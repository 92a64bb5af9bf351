// Checks what a model says about a MatMulNBits node against the tensors it really brings. Nothing is read from a tensor
// that did not pass here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "provider/ops/matmul_nbits/node.h"

namespace onnxruntime_mlas::provider::matmul_nbits {

constexpr bool IsPowerOfTwo(int64_t x) { return x > 0 && (x & (x - 1)) == 0; }

struct Dims {
  uint32_t bits = 0;
  size_t n = 0;
  size_t k = 0;
  size_t block_size = 0;
  size_t k_blocks = 0;          // ceil(k / block_size)
  size_t block_bytes = 0;       // of the codes of one block
  size_t zero_point_bytes = 0;  // of the packed zero points of one column

  bool empty() const { return n == 0 || k == 0; }
};

// Throws Ort::Exception (ORT_INVALID_GRAPH) on attributes that no weights can fit.
Dims CheckAttributes(const Node& node);

// What error texts say about an input, kept for runs, where the model is gone.
struct InputLabel {
  std::string where;  // "MatMulNBits node 'fc1': input scales ('fc1.scales')"
};
InputLabel LabelOf(const Node& node, size_t input);

struct Tensor {
  const void* data = nullptr;
  ONNXTensorElementDataType type = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  std::vector<int64_t> shape;

  template <class T>
  const T* as() const {
    return static_cast<const T*>(data);
  }
};
Tensor ReadTensor(const OrtValue* value);

// Checks type and shape of any input but A. Throws Ort::Exception with `code`; the text states both shapes.
void CheckTensor(const Dims& dims, size_t input, const Tensor& tensor, const InputLabel& label, OrtErrorCode code);

// Checks A, whose elements must be of `type`, and returns its number of rows. Throws Ort::Exception
// (ORT_INVALID_ARGUMENT).
size_t CheckActivations(const Dims& dims, qnbit::ElementType type, const Tensor& a, const InputLabel& label);

}  // namespace onnxruntime_mlas::provider::matmul_nbits
