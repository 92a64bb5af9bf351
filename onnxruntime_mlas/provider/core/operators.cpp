#include "provider/core/operators.h"

#include "provider/ops/matmul_nbits/matmul_nbits.h"

namespace onnxruntime_mlas::provider {

std::span<const Operator> Operators() {
  static constexpr Operator kOperators[] = {
      {"com.microsoft", "MatMulNBits", matmul_nbits::CanRun, matmul_nbits::Compile},
  };
  return kOperators;
}

const Operator* FindOperator(Ort::ConstNode node) {
  const std::string op_type = node.GetOperatorType();
  for (const Operator& candidate : Operators()) {
    if (op_type == candidate.op_type && node.GetDomain() == candidate.domain) return &candidate;
  }
  return nullptr;
}

}  // namespace onnxruntime_mlas::provider
