// Converts and packs the weights of a pair once, when the session is made. It then runs as a MatMulNBits node does.
#include <algorithm>
#include <memory>
#include <utility>

#include "provider/ops/dequantize_matmul/convert.h"
#include "provider/ops/dequantize_matmul/dequantize_matmul.h"
#include "provider/ops/dequantize_matmul/pair.h"
#include "provider/ops/matmul_nbits/kernel.h"

namespace onnxruntime_mlas::provider::dequantize_matmul {
namespace {

using matmul_nbits::Kernel;
using matmul_nbits::Tensor;

// Gemm takes no other A than a matrix, where the shared kernel takes any rank as MatMul does.
struct GemmKernel : Kernel {
  void Run(OrtKernelContext* context) const override {
    const matmul_nbits::InputSlot& slot = slots[matmul_nbits::kA];
    const Ort::ConstValue a = Ort::KernelContext(context).GetInput(slot.index);
    const std::vector<int64_t> shape = a.GetTensorTypeAndShapeInfo().GetShape();
    if (shape.size() != 2) {
      Fail(ORT_INVALID_ARGUMENT, slot.label.where + " has shape " + ShapeText(shape) + ", but Gemm needs two dims");
    }
    Kernel::Run(context);
  }
};

std::string Label(const Pair& pair, const char* input, const Value& value) {
  return pair.Where() + ": " + input + " ('" + value.name + "')";
}

size_t BytesOf(ONNXTensorElementDataType type, size_t elements) {
  if (type == ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT) return elements * sizeof(float);
  return (elements * CodeTypeOf(type)->bits + 7) / 8;
}

// The value of a constant that is as large as CanRun was told.
const void* ReadConstant(const Pair& pair, const char* input, const Value& value) {
  Ort::ConstValue constant{nullptr};
  Ort::ThrowOnError(value.info.GetInitializer(constant));
  if (constant == nullptr) Fail(ORT_INVALID_GRAPH, Label(pair, input, value) + " is a constant without a value");
  const Ort::TensorTypeAndShapeInfo info = constant.GetTensorTypeAndShapeInfo();
  const bool same = info.GetElementType() == value.type && info.GetShape() == value.shape;
  if (!same || constant.GetTensorSizeInBytes() < BytesOf(value.type, info.GetElementCount())) {
    Fail(ORT_INVALID_GRAPH, Label(pair, input, value) + " has a value that differs from its declared type and shape " +
                                ShapeText(value.shape));
  }
  return constant.GetTensorRawData();
}

Constants ReadConstants(const Pair& pair) {
  Constants constants;
  constants.n = static_cast<size_t>(pair.n());
  constants.k = static_cast<size_t>(pair.k());
  constants.transposed = pair.weight_is_transposed();
  constants.type = *CodeTypeOf(pair.weight.type);
  constants.granularity = GranularityOf(pair);
  constants.scale_block = static_cast<size_t>(pair.block_size);
  constants.codes = static_cast<const uint8_t*>(ReadConstant(pair, "weight", pair.weight));
  constants.scales = static_cast<const float*>(ReadConstant(pair, "scale", pair.scale));
  if (pair.zero_point.present()) {
    constants.zero_points = static_cast<const uint8_t*>(ReadConstant(pair, "zero point", pair.zero_point));
  }
  return constants;
}

std::vector<float> ReadBias(const Pair& pair) {
  if (!pair.bias.present()) return {};
  const auto* const values = static_cast<const float*>(ReadConstant(pair, "bias", pair.bias));
  const auto n = static_cast<size_t>(pair.n());
  const bool one = pair.bias.shape.empty() || pair.bias.shape.back() != pair.n();
  return one ? std::vector<float>(n, *values) : std::vector<float>(values, values + n);
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
  matmul_nbits::PackPlanned(
      kernel->where, converted.weights, ORT_INVALID_GRAPH, qnbit::PlanPack,
      [&](size_t bytes) {
        kernel->packed = AlignedBuffer(bytes);
        return kernel->packed.data();
      },
      parallel, &kernel->view);
}

}  // namespace

Compiled Compile(const NodeGroup& group, const FusedInputs& inputs, const Options& options) {
  const Pair pair = ReadPair(group);
  std::unique_ptr<Kernel> kernel = pair.gemm ? std::make_unique<GemmKernel>() : std::make_unique<Kernel>();
  kernel->where = pair.Where();
  kernel->compute = ComputeTypeOf(options);
  kernel->isas = options.isas;
  kernel->constant_weights = true;
  kernel->slots[matmul_nbits::kA] = SlotOfA(pair, inputs);
  kernel->bias = ReadBias(pair);

  const Constants constants = ReadConstants(pair);
  const uint32_t block_len = BlockLenFor(pair);
  kernel->dims.n = constants.n;
  kernel->dims.k = constants.k;

  Fields fields;
  if (kernel->dims.empty()) {
    // Nothing to pack: the product is the bias.
    const qnbit::PackedInfo info{
        .n = constants.n, .k = constants.k, .bits = constants.type.bits, .block_len = block_len};
    fields = ReportFields(pair, options, &info, {}, 0);
  } else {
    PackConstants(constants, block_len, kernel.get());
    fields = ReportFields(pair, options, &kernel->view.info, matmul_nbits::KernelNames(*kernel, kernel->view),
                          kernel->packed.bytes());
  }
  return {std::move(kernel), std::move(fields)};
}

}  // namespace onnxruntime_mlas::provider::dequantize_matmul
