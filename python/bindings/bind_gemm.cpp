// Products: matmul_nbits, workspace_bytes, kernels_for, quantize_activations, time_matmul.
#include <pybind11/stl.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "arrays.h"
#include "native.h"
#include "onnxruntime_mlas/kernel_registry.h"
#include "onnxruntime_mlas/qnbit.h"
#include "packed_array.h"
#include "thread_pool.h"

namespace onnxruntime_mlas::bindings {
namespace {

using OptionalArray = std::optional<py::array>;
using OptionalName = std::optional<std::string>;

constexpr py::ssize_t kLargestM = py::ssize_t{1} << 40;

qnbit::ComputeType ComputeFrom(std::string_view compute) {
  if (compute == "int8") return qnbit::ComputeType::kInt8;
  if (compute == "fp32") return qnbit::ComputeType::kFp32;
  Refuse("compute must be \"int8\" or \"fp32\", got \"" + std::string(compute) + "\"");
}

// numpy knows bfloat16 by the package ml_dtypes, whose dtype has that name.
qnbit::ElementType ElementTypeOf(const py::array& a) {
  const std::string name = py::str(a.dtype());
  if (name == "float16") return qnbit::ElementType::kFloat16;
  if (name == "bfloat16") return qnbit::ElementType::kBFloat16;
  if (name == "float32") return qnbit::ElementType::kFloat32;
  Refuse("a must have dtype float32, float16 or bfloat16, got " + name);
}

qnbit::ElementType ElementTypeFrom(std::string_view type) {
  if (type == "float32") return qnbit::ElementType::kFloat32;
  if (type == "float16") return qnbit::ElementType::kFloat16;
  if (type == "bfloat16") return qnbit::ElementType::kBFloat16;
  Refuse("type must be \"float32\", \"float16\" or \"bfloat16\", got \"" + std::string(type) + "\"");
}

// Fills in compute, isa and kernel for args->m rows. A kernel by name brings its own ISA and must run here.
void ChooseKernel(const std::string& compute, const OptionalName& isa, const OptionalName& kernel,
                  qnbit::GemmArgs* args) {
  args->compute = ComputeFrom(compute);
  if (!kernel) {
    args->isa = IsasFrom(isa).For(args->m);
    return;
  }
  args->kernel = FindKernel(*kernel);
  if (args->kernel == nullptr) Refuse("there is no kernel \"" + *kernel + "\"; kernels() lists all");
  const IsaInfo& info = InfoOf(args->kernel->isa);
  if (isa && *isa != info.name) Refuse("kernel " + *kernel + " is for isa \"" + info.name + "\", not \"" + *isa + "\"");
  if (compute != args->kernel->compute) {
    Refuse("kernel " + *kernel + " computes \"" + args->kernel->compute + "\", not \"" + compute + "\"");
  }
  const std::string reason = UnavailableReason(info.isa, HostCpuFeatures());
  if (!reason.empty()) Refuse("kernel " + *kernel + " can't run here: " + reason);
  args->isa = info.isa;
}

const int32_t* GatherFrom(const py::array& gather, size_t k, py::ssize_t a_columns) {
  const int32_t* indices = Dense<int32_t>("gather", gather, {static_cast<py::ssize_t>(k)});
  for (size_t i = 0; i < k; ++i) {
    if (indices[i] < -1 || indices[i] >= a_columns) {
      Refuse("gather[" + std::to_string(i) + "] = " + std::to_string(indices[i]) + " is not a column of a, which has " +
             std::to_string(a_columns) + " (-1 reads as 0)");
    }
  }
  return indices;
}

// A checked product: GemmArgs that point into the arrays it was made from, and the arrays it made itself.
struct Product {
  qnbit::PackedView view;
  qnbit::GemmArgs args;
  py::array out;
  py::array_t<uint8_t> own_workspace;
};

void SetInputs(const py::array& a, const py::array& packed, const OptionalArray& bias, const OptionalArray& gather,
               Product* product) {
  qnbit::GemmArgs& args = product->args;
  product->view = OpenPackedArray(packed, false);
  args.b = &product->view;
  const size_t k = product->view.info.k;
  args.type = ElementTypeOf(a);
  args.lda = RowStride("a", a, a.dtype());
  args.m = static_cast<size_t>(a.shape(0));
  if (gather) {
    args.gather = GatherFrom(*gather, k, a.shape(1));
  } else if (static_cast<size_t>(a.shape(1)) < k) {
    Refuse("a must have at least k = " + std::to_string(k) + " columns as packed, got shape " + Describe(ShapeOf(a)));
  }
  args.a = a.data();
  if (bias) args.bias = Dense<float>("bias", *bias, {static_cast<py::ssize_t>(product->view.info.n)});
}

void SetOutput(const py::array& a, const OptionalArray& out, Product* product) {
  qnbit::GemmArgs& args = product->args;
  const Shape shape{static_cast<py::ssize_t>(args.m), static_cast<py::ssize_t>(product->view.info.n)};
  product->out = out ? *out : py::array(a.dtype(), shape);
  args.ldc = RowStride("out", product->out, a.dtype());
  CheckShape("out", product->out, shape);
  CheckWritable("out", product->out);
  args.c = product->out.mutable_data();
}

void SetWorkspace(const OptionalArray& workspace, Product* product) {
  qnbit::GemmArgs& args = product->args;
  const size_t needed = qnbit::WorkspaceBytes(args);
  if (!workspace) {
    product->own_workspace = AlignedBytes(needed);
    args.workspace = reinterpret_cast<std::byte*>(product->own_workspace.mutable_data());
    args.workspace_bytes = needed;
    return;
  }
  py::array array = *workspace;
  const py::ssize_t size = array.ndim() == 1 ? array.size() : 0;
  args.workspace = reinterpret_cast<std::byte*>(MutableDense<uint8_t>("workspace", array, {size}));
  args.workspace_bytes = static_cast<size_t>(size);
  if (args.workspace_bytes < needed) {
    Refuse("workspace must have at least " + std::to_string(needed) + " bytes, got " + std::to_string(size));
  }
  if (needed != 0 && reinterpret_cast<uintptr_t>(args.workspace) % kPackedAlignment != 0) {
    Refuse("workspace must start at a multiple of " + std::to_string(kPackedAlignment) + " bytes");
  }
}

// What is written must not be read as an input of the same call.
void CheckNoOverlap(const py::array& a, const py::array& packed, const OptionalArray& bias, const OptionalArray& gather,
                    const OptionalArray& workspace, const py::array& out) {
  const Extent written[] = {ExtentOf(out), workspace ? ExtentOf(*workspace) : Extent{}};
  const auto check = [&](const char* name, const py::array& input) {
    for (const Extent& extent : written) {
      if (extent.overlaps(ExtentOf(input))) Refuse(std::string("out and workspace must not overlap ") + name);
    }
  };
  check("a", a);
  check("packed", packed);
  if (bias) check("bias", *bias);
  if (gather) check("gather", *gather);
  if (written[0].overlaps(written[1])) Refuse("out and workspace must not overlap");
}

py::array MatMul(const py::array& a, const py::array& packed, const OptionalArray& bias, const std::string& compute,
                 const OptionalName& isa, const OptionalName& kernel, py::ssize_t threads, const OptionalArray& gather,
                 const OptionalArray& out, const OptionalArray& workspace) {
  Product product;
  ThreadedRunner runner(CheckedThreads(threads));
  SetInputs(a, packed, bias, gather, &product);
  ChooseKernel(compute, isa, kernel, &product.args);
  SetOutput(a, out, &product);
  product.args.parallel = runner.parallel_for();
  SetWorkspace(workspace, &product);
  CheckNoOverlap(a, packed, bias, gather, workspace, product.out);
  Status status;
  {
    py::gil_scoped_release release;
    status = qnbit::Gemm(product.args);
  }
  ThrowIfError(status);
  return product.out;
}

// GemmArgs with dims alone, for questions about a product.
void SetDims(py::ssize_t m, const py::array& packed, const std::string& compute, const OptionalName& isa,
             const OptionalName& kernel, Product* product) {
  if (m < 0 || m > kLargestM) Refuse("m must lie in [0, 2^40], got " + std::to_string(m));
  product->args.m = static_cast<size_t>(m);
  ChooseKernel(compute, isa, kernel, &product->args);
  product->view = OpenPackedArray(packed, false);
  product->args.b = &product->view;
  product->args.lda = product->view.info.k;
  product->args.ldc = product->view.info.n;
}

size_t WorkspaceBytes(py::ssize_t m, const py::array& packed, const std::string& compute, const OptionalName& isa,
                      const OptionalName& kernel, bool gather, const std::string& type) {
  Product product;
  product.args.type = ElementTypeFrom(type);
  SetDims(m, packed, compute, isa, kernel, &product);
  const int32_t no_index = 0;  // only its presence counts here
  if (gather) product.args.gather = &no_index;
  return qnbit::WorkspaceBytes(product.args);
}

std::vector<std::string> KernelsFor(py::ssize_t m, const py::array& packed, const std::string& compute,
                                    const OptionalName& isa) {
  Product product;
  SetDims(m, packed, compute, isa, std::nullopt, &product);
  std::vector<std::string> names;
  for (const KernelRow* row : qnbit::KernelsFor(product.args)) names.emplace_back(row->name);
  return names;
}

py::tuple QuantizeActivations(const py::array& a, py::ssize_t block_size, const OptionalName& isa) {
  const IsaChoice isas = IsasFrom(isa);
  const auto* known = std::find(std::begin(qnbit::kBlockLengths), std::end(qnbit::kBlockLengths), block_size);
  if (known == std::end(qnbit::kBlockLengths)) {
    Refuse("block_size must be a power of two from 16 to 65536, got " + std::to_string(block_size));
  }
  const size_t lda = RowStride("a", a, py::dtype::of<float>());
  const py::ssize_t m = a.shape(0);
  const py::ssize_t k = a.shape(1);
  if (k == 0) Refuse("a must have at least one column, got shape " + Describe(ShapeOf(a)));
  const auto k_blocks = static_cast<py::ssize_t>(CeilDiv(static_cast<size_t>(k), static_cast<size_t>(block_size)));
  py::array_t<int8_t> q({m, k_blocks * block_size});
  py::array_t<float> scales({m, k_blocks});
  py::array_t<int32_t> sums({m, k_blocks});
  py::array_t<uint8_t> fp32_rows(m);
  const auto* a_data = static_cast<const float*>(a.data());
  int8_t* q_data = q.mutable_data();
  float* scales_data = scales.mutable_data();
  int32_t* sums_data = sums.mutable_data();
  uint8_t* rows_data = fp32_rows.mutable_data();
  {
    py::gil_scoped_release release;
    qnbit::QuantizeActivations(isas.For(static_cast<size_t>(m)), static_cast<size_t>(m), static_cast<size_t>(k), *known,
                               a_data, lda, q_data, scales_data, sums_data, rows_data);
  }
  return py::make_tuple(q, scales, sums, fp32_rows);
}

std::vector<double> TimeMatMul(const py::array& a, const py::object& packed, const std::string& compute,
                               const OptionalName& isa, const OptionalName& kernel, py::ssize_t threads,
                               py::ssize_t calls, const OptionalArray& bias, const OptionalArray& gather) {
  if (calls < 1 || calls > (py::ssize_t{1} << 32)) Refuse("calls must lie in [1, 2^32], got " + std::to_string(calls));
  std::vector<py::array> buffers;
  if (py::isinstance<py::array>(packed)) {
    buffers.push_back(packed.cast<py::array>());
  } else {
    for (const py::handle& item : packed) buffers.push_back(item.cast<py::array>());
  }
  if (buffers.empty()) Refuse("packed must hold at least one packed matrix");
  ThreadedRunner runner(CheckedThreads(threads));
  std::vector<Product> products(buffers.size());
  size_t workspace_bytes = 0;
  for (size_t i = 0; i < buffers.size(); ++i) {
    Product& product = products[i];
    SetInputs(a, buffers[i], bias, gather, &product);
    ChooseKernel(compute, isa, kernel, &product.args);
    if (product.view.info.n != products[0].view.info.n) Refuse("all packed matrices must have the same n");
    SetOutput(a, i == 0 ? OptionalArray() : OptionalArray(products[0].out), &product);
    product.args.parallel = runner.parallel_for();
    workspace_bytes = std::max(workspace_bytes, qnbit::WorkspaceBytes(product.args));
  }
  py::array_t<uint8_t> workspace = AlignedBytes(workspace_bytes);
  for (Product& product : products) {
    product.args.workspace = reinterpret_cast<std::byte*>(workspace.mutable_data());
    product.args.workspace_bytes = workspace_bytes;
  }
  std::vector<double> seconds(static_cast<size_t>(calls));
  Status status;
  {
    py::gil_scoped_release release;
    for (size_t call = 0; call < seconds.size() && status.ok(); ++call) {
      const qnbit::GemmArgs& args = products[call % products.size()].args;
      const auto start = std::chrono::steady_clock::now();
      status = qnbit::Gemm(args);
      seconds[call] = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    }
  }
  ThrowIfError(status);
  return seconds;
}

}  // namespace

void BindGemm(py::module_& module) {
  module.def("matmul_nbits", &MatMul, py::arg("a"), py::arg("packed"), py::kw_only(), py::arg("bias") = py::none(),
             py::arg("compute") = "int8", py::arg("isa") = py::none(), py::arg("kernel") = py::none(),
             py::arg("threads") = 1, py::arg("gather") = py::none(), py::arg("out") = py::none(),
             py::arg("workspace") = py::none());
  module.def("workspace_bytes", &WorkspaceBytes, py::arg("m"), py::arg("packed"), py::kw_only(),
             py::arg("compute") = "int8", py::arg("isa") = py::none(), py::arg("kernel") = py::none(),
             py::arg("gather") = false, py::arg("type") = "float32");
  module.def("kernels_for", &KernelsFor, py::arg("m"), py::arg("packed"), py::kw_only(), py::arg("compute") = "int8",
             py::arg("isa") = py::none());
  module.def("quantize_activations", &QuantizeActivations, py::arg("a"), py::arg("block_size"),
             py::arg("isa") = py::none());
  module.def("time_matmul", &TimeMatMul, py::arg("a"), py::arg("packed"), py::kw_only(), py::arg("compute"),
             py::arg("isa") = py::none(), py::arg("kernel") = py::none(), py::arg("threads") = 1, py::arg("calls"),
             py::arg("bias") = py::none(), py::arg("gather") = py::none());
}

}  // namespace onnxruntime_mlas::bindings
