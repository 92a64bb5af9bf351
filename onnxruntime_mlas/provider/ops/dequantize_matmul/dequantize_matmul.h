// DequantizeLinear of constant weights, followed by MatMul or Gemm, on the low-bit GEMM of qnbit/: the weights stay
// packed in their own width, and the dequantised matrix never exists.
#pragma once

#include "provider/core/operators.h"

namespace onnxruntime_mlas::provider::dequantize_matmul {

// DequantizeLinear [Transpose] MatMul|Gemm [Add of a constant [N]], where the main node is MatMul or Gemm.
NodeGroup MatchGroup(const GraphIndex& graph, Ort::ConstNode node);
Decision CanRun(const GraphIndex& graph, const NodeGroup& group, const Options& options);
Compiled Compile(const NodeGroup& group, const FusedInputs& inputs, const Options& options);

}  // namespace onnxruntime_mlas::provider::dequantize_matmul
