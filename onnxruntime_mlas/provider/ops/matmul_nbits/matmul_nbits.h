// com.microsoft::MatMulNBits on the low-bit GEMM of qnbit/.
#pragma once

#include "provider/core/operators.h"

namespace onnxruntime_mlas::provider::matmul_nbits {

Decision CanRun(Ort::ConstNode node, const Options& options);
Compiled Compile(Ort::ConstNode node, const FusedInputs& inputs, const Options& options);

}  // namespace onnxruntime_mlas::provider::matmul_nbits
