// com.microsoft::MatMulNBits on the low-bit GEMM of qnbit/.
#pragma once

#include "provider/core/operators.h"

namespace onnxruntime_mlas::provider::matmul_nbits {

NodeGroup MatchGroup(const GraphIndex& graph, Ort::ConstNode node);
Decision CanRun(const GraphIndex& graph, const NodeGroup& group, const Options& options);
Compiled Compile(const NodeGroup& group, const FusedInputs& inputs, const Options& options);

}  // namespace onnxruntime_mlas::provider::matmul_nbits
