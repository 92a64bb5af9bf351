// Python module onnxruntime_ep_mlas._native: the kernel library, kernel by kernel.
#include "native.h"

#include <pybind11/stl.h>

#include <optional>
#include <string>
#include <vector>

#include "arrays.h"
#include "calibrate.h"
#include "onnxruntime_mlas/cpu.h"
#include "onnxruntime_mlas/isa_choice.h"
#include "onnxruntime_mlas/kernel_registry.h"
#include "thread_pool.h"

namespace onnxruntime_mlas::bindings {
namespace {

py::dict CpuFeaturesDict() {
  const CpuFeatures& cpu = HostCpuFeatures();
  py::dict features;
  features["brand"] = cpu.brand;
  features["core"] = NameOf(cpu.core);
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
  features["neon"] = cpu.neon;
  features["dotprod"] = cpu.dotprod;
  features["i8mm"] = cpu.i8mm;
  features["bf16"] = cpu.bf16;
  features["sve"] = cpu.sve;
  features["sme"] = cpu.sme;
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

py::dict ChoiceDict(const IsaChoice& choice) {
  py::dict dict;
  dict["one_row"] = InfoOf(choice.one_row).name;
  dict["few_rows"] = InfoOf(choice.few_rows).name;
  dict["many_rows"] = InfoOf(choice.many_rows).name;
  dict["many_from"] = choice.many_from;
  return dict;
}

py::dict DefaultIsasDict(const std::string& fastest, const std::string& core) {
  const CoreType type = CoreTypeNamed(core.c_str());
  if (type == CoreType::kUnknown && core != NameOf(type)) Refuse("there is no core type \"" + core + "\"");
  for (const IsaInfo& info : AllIsas()) {
    if (fastest == info.name) return ChoiceDict(DefaultIsas(info.isa, type));
  }
  Refuse("there is no ISA \"" + fastest + "\"; isas() lists all");
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

IsaChoice IsasFrom(const std::optional<std::string>& requested) {
  IsaChoice choice;
  ThrowIfError(SelectIsas(requested ? requested->c_str() : nullptr, &choice));
  return choice;
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
      [](const std::optional<std::string>& requested, py::ssize_t m) {
        if (m < 0) bindings::Refuse("m must not be negative, got " + std::to_string(m));
        return onnxruntime_mlas::InfoOf(bindings::IsasFrom(requested).For(static_cast<size_t>(m))).name;
      },
      py::arg("requested") = py::none(), py::arg("m") = 1);
  module.def(
      "isa_choice",
      [](const std::optional<std::string>& requested) { return bindings::ChoiceDict(bindings::IsasFrom(requested)); },
      py::arg("requested") = py::none());
  module.def("default_isas", &bindings::DefaultIsasDict, py::arg("fastest"), py::arg("core"));
  module.def("kernels", &bindings::KernelList);
  bindings::BindPacking(module);
  bindings::BindGemm(module);
  bindings::BindCalibration(module);
}
