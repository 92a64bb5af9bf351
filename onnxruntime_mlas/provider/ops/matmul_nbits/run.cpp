// One run of a compiled node: check what is passed, pack what is not constant, multiply.
#include <algorithm>
#include <cstddef>
#include <optional>

#include "provider/core/element_types.h"
#include "provider/ops/matmul_nbits/kernel.h"

namespace onnxruntime_mlas::provider::matmul_nbits {
namespace {

// Runs tasks on the session's intra-op threads. One batch per task: tasks are few and may take unequal time.
void RunOnSessionThreads(void* context, size_t count, ParallelFor::Task task, void* task_context) {
  OrtStatus* const status = Ort::GetApi().KernelContext_ParallelFor(static_cast<const OrtKernelContext*>(context), task,
                                                                    count, count, task_context);
  if (status == nullptr) return;
  // ONNX Runtime refuses before it starts any task, never halfway.
  Ort::GetApi().ReleaseStatus(status);
  for (size_t i = 0; i < count; ++i) task(task_context, i);
}

std::optional<Tensor> PassedTensor(OrtKernelContext* context, const InputSlot& slot) {
  if (!slot.passed()) return std::nullopt;
  const OrtValue* value = nullptr;
  Ort::ThrowOnError(Ort::GetApi().KernelContext_GetInput(context, slot.index, &value));
  if (value == nullptr) Fail(ORT_INVALID_ARGUMENT, slot.label.where + " has no value in this run");
  return ReadTensor(value);
}

void FillWithBias(size_t rows, size_t n, qnbit::ElementType type, const float* bias, std::byte* c) {
  const size_t row_bytes = n * qnbit::BytesOf(type);
  for (size_t row = 0; row < rows; ++row) {
    if (bias != nullptr) {
      Narrow(type, bias, n, c + row * row_bytes);
    } else {
      std::fill_n(c + row * row_bytes, row_bytes, std::byte{0});
    }
  }
}

}  // namespace

const float* AsFloats(const Tensor& tensor, size_t count, std::vector<float>* widened) {
  if (tensor.data == nullptr || tensor.type == ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT) return tensor.as<float>();
  widened->resize(count);
  Widen(RequireElementType(tensor.type), tensor.data, count, widened->data());
  return widened->data();
}

qnbit::Weights MakeWeights(const Dims& dims, const Tensors& tensors, Widened* widened) {
  qnbit::Weights weights{
      .n = dims.n, .k = dims.k, .bits = dims.bits, .block_len = static_cast<uint32_t>(dims.block_size)};
  const size_t count = dims.n * dims.k_blocks;
  weights.codes = tensors[kB].as<uint8_t>();
  weights.scales = AsFloats(tensors[kScales], count, &widened->scales);
  const Tensor& zero_points = tensors[kZeroPoints];
  if (zero_points.type == ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8) {
    weights.zero_points = zero_points.as<uint8_t>();
  } else {
    weights.float_zero_points = AsFloats(zero_points, count, &widened->zero_points);
  }
  return weights;
}

void Kernel::Run(OrtKernelContext* context) const {
  const std::optional<Tensor> a = PassedTensor(context, slots[kA]);
  if (!a) Fail(ORT_FAIL, where + ": ONNX Runtime passes no input A");
  const size_t rows = CheckActivations(dims, type, *a, slots[kA].label);

  // Every input passed is checked, whether or not this run comes to read it.
  Tensors tensors;
  for (const size_t input : {kB, kScales, kZeroPoints, kGroupIndex, kBias}) {
    const std::optional<Tensor> tensor = PassedTensor(context, slots[input]);
    if (!tensor) continue;
    CheckTensor(dims, input, *tensor, slots[input].label, ORT_INVALID_ARGUMENT);
    tensors[input] = *tensor;
  }
  std::vector<float> run_bias;
  const float* const bias_data = !bias.empty() ? bias.data() : AsFloats(tensors[kBias], dims.n, &run_bias);

  std::vector<int64_t> output_shape = a->shape;
  output_shape.back() = static_cast<int64_t>(dims.n);
  OrtValue* output = nullptr;
  Ort::ThrowOnError(
      Ort::GetApi().KernelContext_GetOutput(context, 0, output_shape.data(), output_shape.size(), &output));
  if (rows == 0 || dims.n == 0) return;
  auto* const c = static_cast<std::byte*>(Ort::UnownedValue{output}.GetTensorMutableRawData());
  if (dims.k == 0) return FillWithBias(rows, dims.n, type, bias_data, c);

  const ParallelFor parallel{.runner = RunOnSessionThreads, .runner_context = context};
  Scratch scratch(context, memory_info);
  qnbit::PackedView run_view;
  std::vector<int32_t> run_gather;
  if (!constant_weights) {
    PackWeights(
        where, slots[kGroupIndex].label, dims, tensors, ORT_INVALID_ARGUMENT, qnbit::PlanPackGeneral,
        [&](size_t bytes) { return scratch.Allocate(bytes); }, parallel, &run_view, &run_gather);
  }
  const std::vector<int32_t>& gather_in_use = constant_weights ? gather : run_gather;

  qnbit::GemmArgs args;
  args.m = rows;
  args.type = type;
  args.a = a->data;
  args.lda = dims.k;
  args.gather = gather_in_use.empty() ? nullptr : gather_in_use.data();
  args.b = constant_weights ? &view : &run_view;
  args.bias = bias_data;
  args.c = c;
  args.ldc = dims.n;
  args.compute = compute;
  args.isa = isas.For(rows);
  args.workspace_bytes = qnbit::WorkspaceBytes(args);
  args.workspace = scratch.Allocate(args.workspace_bytes);
  args.parallel = parallel;
  FailIfError(qnbit::Gemm(args), ORT_FAIL, where);
}

}  // namespace onnxruntime_mlas::provider::matmul_nbits
