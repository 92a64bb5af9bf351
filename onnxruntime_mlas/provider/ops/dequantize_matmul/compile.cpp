// Converts and packs the weights of a pair once, when the session is made. It then runs as a MatMulNBits node does.
#include <algorithm>
#include <memory>
#include <utility>

#include "provider/core/element_types.h"
#include "provider/ops/dequantize_matmul/convert.h"
#include "provider/ops/dequantize_matmul/dequantize_matmul.h"
#include "provider/ops/dequantize_matmul/gemm_kernel.h"
#include "provider/ops/dequantize_matmul/pair.h"
#include "provider/ops/matmul_nbits/kernel.h"

namespace onnxruntime_mlas::provider::dequantize_matmul {
namespace {

using matmul_nbits::Kernel;
using matmul_nbits::Tensor;

// `scales` outlives the result.
Constants ReadConstants(const Pair& pair, const std::vector<float>& scales) {
  Constants constants;
  constants.n = static_cast<size_t>(pair.n());
  constants.k = static_cast<size_t>(pair.k());
  constants.transposed = pair.weight_is_transposed();
  constants.type = RequireCodeType(pair.weight.type);
  constants.granularity = GranularityOf(pair);
  constants.scale_block = static_cast<size_t>(pair.block_size);
  constants.codes = static_cast<const uint8_t*>(ReadConstant(pair, "weight", pair.weight));
  constants.scales = scales.data();
  if (pair.zero_point.present()) {
    constants.zero_points = static_cast<const uint8_t*>(ReadConstant(pair, "zero point", pair.zero_point));
  }
  return constants;
}

std::vector<float> ReadBias(const Pair& pair) {
  if (!pair.bias.present()) return {};
  std::vector<float> bias = ReadFloats(pair, "bias", pair.bias);
  const auto n = static_cast<size_t>(pair.n());
  if (bias.size() == 1) bias.resize(n, bias[0]);
  return bias;
}

matmul_nbits::InputSlot SlotOfA(const Pair& pair, const FusedInputs& inputs) {
  matmul_nbits::InputSlot slot;
  slot.label.where = Label(pair, "input A", pair.a);
  const auto found = std::find(inputs.begin(), inputs.end(), pair.a.name);
  if (found == inputs.end()) Fail(ORT_EP_FAIL, slot.label.where + " is no input of the fused node");
  slot.index = static_cast<size_t>(found - inputs.begin());
  return slot;
}

void PackConstants(const Constants& constants, uint32_t block_len, Kernel* kernel) {
  const size_t code_bytes = constants.n * constants.k * constants.type.bits / 8;
  const ParallelFor parallel = matmul_nbits::PackingThreads(code_bytes);
  ConvertedWeights converted;
  Convert(constants, block_len, parallel, &converted);
  AlignedBuffer buffer;
  matmul_nbits::PackPlanned(
      kernel->where, converted.weights, ORT_INVALID_GRAPH, qnbit::PlanPack,
      [&](size_t bytes) {
        buffer = AlignedBuffer(bytes);
        return buffer.data();
      },
      parallel, &kernel->view);
  kernel->HoldPacked(std::move(buffer));
}

}  // namespace

void GemmKernel::Run(OrtKernelContext* context) const {
  const matmul_nbits::InputSlot& slot = slots[matmul_nbits::kA];
  const Ort::ConstValue a = Ort::KernelContext(context).GetInput(slot.index);
  const std::vector<int64_t> shape = a.GetTensorTypeAndShapeInfo().GetShape();
  if (shape.size() != 2) {
    Fail(ORT_INVALID_ARGUMENT, slot.label.where + " has shape " + ShapeText(shape) + ", but Gemm needs two dims");
  }
  Kernel::Run(context);
}

Compiled Compile(const NodeGroup& group, const FusedInputs& inputs, const Options& options) {
  const Pair pair = ReadPair(group);
  std::unique_ptr<Kernel> kernel = pair.gemm ? std::make_unique<GemmKernel>() : std::make_unique<Kernel>();
  kernel->where = pair.Where();
  kernel->type = RequireElementType(pair.a.type);
  kernel->compute = ComputeTypeOf(options);
  kernel->isas = options.isas;
  kernel->constant_weights = true;
  kernel->stored = {pair.gemm ? matmul_nbits::Origin::kGemmPair : matmul_nbits::Origin::kPair,
                    options.qdq_accuracy_level.value_or(0)};
  kernel->slots[matmul_nbits::kA] = SlotOfA(pair, inputs);
  kernel->bias = ReadBias(pair);

  const std::vector<float> scales = ReadFloats(pair, "scale", pair.scale);
  const Constants constants = ReadConstants(pair, scales);
  const uint32_t block_len = BlockLenFor(pair);
  kernel->dims.n = constants.n;
  kernel->dims.k = constants.k;

  Fields fields;
  if (kernel->dims.empty()) {
    // Nothing to pack: the product is the bias.
    kernel->view.info = {.n = constants.n, .k = constants.k, .bits = constants.type.bits, .block_len = block_len};
    fields = ReportFields(pair, options, &kernel->view.info, {}, 0);
  } else {
    PackConstants(constants, block_len, kernel.get());
    fields = ReportFields(pair, options, &kernel->view.info, matmul_nbits::KernelNames(*kernel, kernel->view),
                          kernel->packed.bytes.size());
  }
  return {std::move(kernel), std::move(fields)};
}

}  // namespace onnxruntime_mlas::provider::dequantize_matmul
