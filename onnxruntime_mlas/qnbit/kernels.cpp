#include "qnbit/kernels.h"

namespace onnxruntime_mlas::qnbit {

const IsaKernels& KernelsOf(Isa isa) {
  switch (isa) {
#if defined(__x86_64__)
    case Isa::kAvx2:
      return kAvx2Kernels;
    case Isa::kAvxVnni:
      return kAvxVnniKernels;
    case Isa::kAvx512Bw:
      return kAvx512BwKernels;
    case Isa::kAvx512Vnni:
      return kAvx512VnniKernels;
#endif
    default:
      return kPortableKernels;
  }
}

}  // namespace onnxruntime_mlas::qnbit
