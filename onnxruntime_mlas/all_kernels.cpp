// Joins the kernels of all families into one list; a new family adds its loop here.
#include "onnxruntime_mlas/kernel_registry.h"
#include "qnbit/kernels.h"

namespace onnxruntime_mlas {

const std::vector<const KernelRow*>& AllKernels() {
  static const std::vector<const KernelRow*> rows = [] {
    std::vector<const KernelRow*> all;
    for (const IsaInfo& info : AllIsas()) {
      const qnbit::IsaKernels& kernels = qnbit::KernelsOf(info.isa);
      for (const auto table : {kernels.int8_rows, kernels.column_rows, kernels.fp32_rows}) {
        for (const qnbit::QnbitKernel& kernel : table) {
          // Rows that an ISA takes from another are listed there, and where this build has no code for an ISA,
          // KernelsOf answers with the portable kernels.
          if (kernel.isa == info.isa) all.push_back(&kernel);
        }
      }
    }
    return all;
  }();
  return rows;
}

const KernelRow* FindKernel(std::string_view name) {
  for (const KernelRow* row : AllKernels()) {
    if (name == row->name) return row;
  }
  return nullptr;
}

}  // namespace onnxruntime_mlas
