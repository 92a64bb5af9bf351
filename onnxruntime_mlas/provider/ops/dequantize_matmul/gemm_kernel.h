// A pair with Gemm, compiled.
#pragma once

#include "provider/ops/matmul_nbits/kernel.h"

namespace onnxruntime_mlas::provider::dequantize_matmul {

// Gemm takes no other A than a matrix, where the shared kernel takes any rank as MatMul does.
struct GemmKernel : matmul_nbits::Kernel {
  void Run(OrtKernelContext* context) const override;
};

}  // namespace onnxruntime_mlas::provider::dequantize_matmul
