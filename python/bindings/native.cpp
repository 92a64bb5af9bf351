// Python module onnxruntime_ep_mlas._native: the kernel library, kernel by kernel.
#include "native.h"

#include <pybind11/stl.h>

#include <optional>
#include <string>
#include <vector>

#include "arrays.h"
#include "calibrate.h"
#include "onnxruntime_mlas/cpu.h"
#include "onnxruntime_mlas/kernel_registry.h"
#include "thread_pool.h"

namespace onnxruntime_mlas::bindings {
namespace {

py::dict CpuFeaturesDict() {
  const CpuFeatures& cpu = HostCpuFeatures();
  py::dict features;
  features["brand"] = cpu.brand;
  features["avx2"] = cpu.avx2;
  features["fma"] = cpu.fma;
  features["f16c"] = cpu.f16c;
  features["avx_vnni"] = cpu.avx_vnni;
  features["avx512f"] = cpu.avx512f;
  features["avx512bw"] = cpu.avx512bw;
  features["avx512dq"] = cpu.avx512dq;
  features["avx512vl"] = cpu.avx512vl;
  features["avx512_vnni"] = cpu.avx512_vnni;
  features["os_ymm"] = cpu.os_ymm;
  features["os_zmm"] = cpu.os_zmm;
  return features;
}

py::list IsaList() {
  py::list list;
  for (const IsaInfo& info : AllIsas()) {
    py::dict row;
    row["name"] = info.name;
    row["instructions"] = info.instructions;
    row["unavailable_reason"] = UnavailableReason(info.isa, HostCpuFeatures());
    list.append(row);
  }
  return list;
}

py::list KernelList() {
  py::list list;
  for (const KernelRow* kernel : AllKernels()) {
    py::dict row;
    row["name"] = kernel->name;
    row["family"] = kernel->family;
    row["isa"] = InfoOf(kernel->isa).name;
    row["format"] = kernel->format;
    row["bits"] = kernel->bits;
    row["compute"] = kernel->compute;
    row["path"] = kernel->path;
    row["tile_rows"] = kernel->tile_rows;
    row["tile_columns"] = kernel->tile_columns;
    row["block_lengths"] = std::vector<uint32_t>(kernel->block_lengths.begin(), kernel->block_lengths.end());
    row["unavailable_reason"] = UnavailableReason(kernel->isa, HostCpuFeatures());
    list.append(row);
  }
  return list;
}

}  // namespace

Isa IsaFrom(const std::optional<std::string>& requested) {
  Isa isa;
  ThrowIfError(SelectIsa(requested ? requested->c_str() : nullptr, &isa));
  return isa;
}

size_t CheckedThreads(py::ssize_t threads) {
  if (threads < 1 || threads > static_cast<py::ssize_t>(kMaxThreads)) {
    Refuse("threads must lie in [1, " + std::to_string(kMaxThreads) + "], got " + std::to_string(threads));
  }
  return static_cast<size_t>(threads);
}

}  // namespace onnxruntime_mlas::bindings

PYBIND11_MODULE(_native, module) {
  namespace bindings = onnxruntime_mlas::bindings;
  namespace py = pybind11;
  module.doc() = "Low-bit GEMM kernels on numpy arrays. See _native.pyi for shapes, types and errors.";
  module.def("cpu_features", &bindings::CpuFeaturesDict);
  module.def("isas", &bindings::IsaList);
  module.def(
      "select_isa",
      [](const std::optional<std::string>& requested) {
        return std::string(onnxruntime_mlas::InfoOf(bindings::IsaFrom(requested)).name);
      },
      py::arg("requested") = py::none());
  module.def("kernels", &bindings::KernelList);
  bindings::BindPacking(module);
  bindings::BindGemm(module);
  BindCalibration(module);
}
