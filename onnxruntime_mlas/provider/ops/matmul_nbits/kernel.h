// A compiled MatMulNBits node.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "onnxruntime_mlas/isa_choice.h"
#include "onnxruntime_mlas/qnbit.h"
#include "provider/core/aligned_buffer.h"
#include "provider/core/packed_cache.h"
#include "provider/ops/matmul_nbits/shapes.h"

namespace onnxruntime_mlas::provider::matmul_nbits {

// Where an input comes from at run time.
struct InputSlot {
  static constexpr size_t kNone = static_cast<size_t>(-1);
  size_t index = kNone;  // among the fused node's inputs; kNone: left out by the model, or dropped after Compile
  InputLabel label;

  bool passed() const { return index != kNone; }
};

// What a node was, for what options may change when it is restored from an EPContext model.
enum class Origin : uint32_t { kMatMulNBits = 0, kPair = 1, kGemmPair = 2 };
struct StoredAttributes {
  Origin origin = Origin::kMatMulNBits;
  int32_t accuracy_level = 0;
};

struct Kernel : CompiledNode {
  void Run(OrtKernelContext* context) const override;
  BlobToStore Store() const override;  // stored.cpp

  // Takes a packed buffer, or the equal one of another node, as the weights. It is known to be whole.
  void HoldPacked(AlignedBuffer buffer);
  // The same for one that comes from a file: refuses what isn't whole. Throws Ort::Exception.
  void HoldStored(SharedPacked from_file);

  std::string where;
  Dims dims;
  qnbit::ElementType type = qnbit::ElementType::kFloat32;  // of A and of the output
  qnbit::ComputeType compute = qnbit::ComputeType::kFp32;
  IsaChoice isas;
  std::array<InputSlot, kInputCount> slots;

  // Set when the weights are constant; else every run packs its own.
  bool constant_weights = false;
  StoredAttributes stored;
  SharedPacked packed;  // empty where n or k is 0
  qnbit::PackedView view;
  std::vector<int32_t> gather;  // empty: A is read in order

  std::vector<float> bias;  // empty: there is none, or it is passed at run time

  Ort::MemoryInfo memory_info = Ort::MemoryInfo::CreateCpu(OrtArenaAllocator, OrtMemTypeDefault);
};

// Names of the kernels that a compiled node runs, main ones first, for one row of A, a few and many.
std::vector<std::string> KernelNames(const Kernel& kernel, const qnbit::PackedView& view);

// Threads for packing codes of so many bytes when the session is made.
ParallelFor PackingThreads(size_t code_bytes);

using Tensors = std::array<Tensor, kInputCount>;  // data null: the input is left out

// Tensors of 16-bit floating-point numbers as float32.
struct Widened {
  std::vector<float> scales;
  std::vector<float> zero_points;
};
// Weights that point into checked tensors and `widened`.
qnbit::Weights MakeWeights(const Dims& dims, const Tensors& tensors, Widened* widened);

// A checked floating-point tensor of `count` numbers as float32: itself, or `widened` filled with it. Null when the
// tensor is left out.
const float* AsFloats(const Tensor& tensor, size_t count, std::vector<float>* widened);

// Packs weights whose memory is known to be as large as they say. `plan` is PlanPack or PlanPackGeneral;
// `allocate(bytes)` gives kPackedAlignment-aligned memory that outlives `view`.
template <class Plan, class Allocate>
void PackPlanned(const std::string& where, const qnbit::Weights& weights, OrtErrorCode code, Plan plan,
                 Allocate allocate, const ParallelFor& parallel, qnbit::PackedView* view) {
  qnbit::PackedInfo info;
  FailIfError(plan(weights, &info), code, where);
  const size_t bytes = qnbit::PackedBytes(info);
  std::byte* const buffer = allocate(bytes);
  FailIfError(qnbit::Pack(weights, info, buffer, bytes, parallel), code, where);
  FailIfError(qnbit::OpenPacked(buffer, bytes, false, view), ORT_FAIL, where);
}

// Packs checked tensors, otherwise as PackPlanned.
template <class Plan, class Allocate>
void PackWeights(const std::string& where, const InputLabel& group_index_label, const Dims& dims,
                 const Tensors& tensors, OrtErrorCode code, Plan plan, Allocate allocate, const ParallelFor& parallel,
                 qnbit::PackedView* view, std::vector<int32_t>* gather) {
  Widened widened;
  qnbit::Weights weights = MakeWeights(dims, tensors, &widened);
  qnbit::RegroupedWeights regrouped;
  gather->clear();
  if (tensors[kGroupIndex].data != nullptr) {
    FailIfError(qnbit::Regroup(weights, tensors[kGroupIndex].as<int32_t>(), &regrouped), code, group_index_label.where);
    weights = regrouped.weights;
    *gather = std::move(regrouped.gather);
  }
  PackPlanned(where, weights, code, plan, allocate, parallel, view);
}

}  // namespace onnxruntime_mlas::provider::matmul_nbits
