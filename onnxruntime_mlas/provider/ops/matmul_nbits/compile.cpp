// Checks and packs the weights of a node once, when the session is made.
#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "provider/core/element_types.h"
#include "provider/core/load_threads.h"
#include "provider/core/packed_cache.h"
#include "provider/ops/matmul_nbits/kernel.h"
#include "provider/ops/matmul_nbits/matmul_nbits.h"

namespace onnxruntime_mlas::provider::matmul_nbits {
namespace {

// Below this, starting threads costs more than they save.
constexpr size_t kParallelPackBytes = size_t{1} << 20;

// Rows of A for which the report names kernels: one token, a few, and enough for the panel path.
constexpr size_t kReportedRows[] = {1, 4, 256};

// Tensors of the constant inputs, each checked before anything reads it.
Tensors ReadConstants(const Node& node, const Dims& dims) {
  Tensors tensors;
  for (const size_t input : {kB, kScales, kZeroPoints, kGroupIndex, kBias}) {
    if (!node.inputs[input].constant) continue;
    Ort::ConstValue value{nullptr};
    Ort::ThrowOnError(node.inputs[input].value.GetInitializer(value));
    if (value == nullptr) {
      Fail(ORT_INVALID_GRAPH, LabelOf(node, input).where + " is a constant without a value");
    }
    tensors[input] = ReadTensor(value);
    CheckTensor(dims, input, tensors[input], LabelOf(node, input), ORT_INVALID_GRAPH);
  }
  return tensors;
}

void CheckPresence(const Node& node) {
  for (const size_t input : {kA, kB, kScales}) {
    if (!node.inputs[input].present()) {
      Fail(ORT_INVALID_GRAPH, node.Where() + ": input " + InputName(input) + " is required, but left out");
    }
  }
  if (node.inputs[kGroupIndex].present() && node.attributes.k > std::numeric_limits<int32_t>::max()) {
    Fail(ORT_INVALID_GRAPH,
         node.Where() + ": K = " + std::to_string(node.attributes.k) + " is too large for the int32 input g_idx");
  }
}

// The representation that every run's weights are packed in.
qnbit::PackedInfo RunTimeInfo(const Node& node, const Dims& dims) {
  qnbit::PackedInfo info{
      .n = dims.n, .k = dims.k, .bits = dims.bits, .block_len = static_cast<uint32_t>(dims.block_size)};
  info.uniform_zero_point = 1u << (dims.bits - 1);
  info.scale_type = qnbit::ScaleType::kFp32;
  const NodeInput& zero_points = node.inputs[kZeroPoints];
  if (zero_points.present()) {
    info.zero_point_kind = zero_points.type == ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8 ? qnbit::ZeroPointKind::kPerBlock
                                                                                   : qnbit::ZeroPointKind::kFloat;
  }
  return info;
}

InputSlot SlotOf(const Node& node, size_t input, const FusedInputs& inputs) {
  InputSlot slot;
  if (!node.inputs[input].present()) return slot;
  slot.label = LabelOf(node, input);
  const auto found = std::find(inputs.begin(), inputs.end(), node.inputs[input].name);
  if (found != inputs.end()) slot.index = static_cast<size_t>(found - inputs.begin());
  return slot;
}

// Without weights there is nothing to pack, and the product is the bias.
Fields PackConstants(const Node& node, const Tensors& tensors, Kernel* kernel) {
  const size_t code_bytes = kernel->dims.n * kernel->dims.k_blocks * kernel->dims.block_bytes;
  AlignedBuffer buffer;
  PackWeights(
      kernel->where, kernel->slots[kGroupIndex].label, kernel->dims, tensors, ORT_INVALID_GRAPH, qnbit::PlanPack,
      [&](size_t bytes) {
        buffer = AlignedBuffer(bytes);
        return buffer.data();
      },
      PackingThreads(code_bytes), &kernel->view, &kernel->gather);
  kernel->HoldPacked(std::move(buffer));
  kernel->gather.shrink_to_fit();
  return ReportFields(node, &kernel->view.info, KernelNames(*kernel, kernel->view), kernel->packed.bytes.size());
}

}  // namespace

std::vector<std::string> KernelNames(const Kernel& kernel, const qnbit::PackedView& view) {
  std::vector<std::string> names;
  for (const size_t rows : kReportedRows) {
    qnbit::GemmArgs args;
    args.m = rows;
    args.b = &view;
    args.compute = kernel.compute;
    args.isa = kernel.isas.For(rows);
    for (const KernelRow* row : qnbit::KernelsFor(args)) {
      if (std::find(names.begin(), names.end(), row->name) == names.end()) names.emplace_back(row->name);
    }
  }
  return names;
}

void Kernel::HoldPacked(AlignedBuffer buffer) {
  packed = SharePacked(std::move(buffer));
  FailIfError(qnbit::OpenPacked(packed.bytes.data(), packed.bytes.size(), false, &view), ORT_FAIL, where);
}

void Kernel::HoldStored(SharedPacked from_file) {
  FailIfError(qnbit::OpenPacked(from_file.bytes.data(), from_file.bytes.size(), true, &view), ORT_INVALID_GRAPH,
              "its stored node");
  packed = SharePacked(std::move(from_file));
  FailIfError(qnbit::OpenPacked(packed.bytes.data(), packed.bytes.size(), false, &view), ORT_FAIL, where);
}

ParallelFor PackingThreads(size_t code_bytes) {
  return code_bytes >= kParallelPackBytes ? LoadParallelFor() : ParallelFor{};
}

Compiled Compile(const NodeGroup& group, const FusedInputs& inputs, const Options& options) {
  const Node node = ReadNode(group.main_node(), options);
  auto kernel = std::make_unique<Kernel>();
  kernel->where = node.Where();
  kernel->dims = CheckAttributes(node);
  CheckPresence(node);
  kernel->type = RequireElementType(node.inputs[kA].type);
  kernel->compute = ComputeTypeOf(node.attributes);
  kernel->isas = options.isas;
  kernel->constant_weights = node.constant_weights();
  // Only 4 differs from the others; an attribute may hold any number.
  kernel->stored = {Origin::kMatMulNBits, kernel->compute == qnbit::ComputeType::kInt8 ? 4 : 0};
  for (size_t input = 0; input < kInputCount; ++input) kernel->slots[input] = SlotOf(node, input, inputs);

  const Tensors constants = ReadConstants(node, kernel->dims);
  if (constants[kBias].data != nullptr) {
    std::vector<float> widened;
    const float* const values = AsFloats(constants[kBias], kernel->dims.n, &widened);
    kernel->bias.assign(values, values + kernel->dims.n);
  }

  Fields fields;
  if (kernel->constant_weights && !kernel->dims.empty()) {
    fields = PackConstants(node, constants, kernel.get());
  } else {
    const qnbit::PackedView view{RunTimeInfo(node, kernel->dims), nullptr};
    fields = ReportFields(node, &view.info,
                          kernel->dims.empty() ? std::vector<std::string>{} : KernelNames(*kernel, view), 0);
  }
  return {std::move(kernel), std::move(fields)};
}

}  // namespace onnxruntime_mlas::provider::matmul_nbits
