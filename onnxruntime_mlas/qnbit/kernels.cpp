#include "qnbit/kernels.h"

namespace onnxruntime_mlas::qnbit {

const IsaKernels& KernelsOf(Isa isa) {
  switch (isa) {
#if defined(__x86_64__) || defined(_M_X64)
    case Isa::kAvx2:
      return kAvx2Kernels;
    case Isa::kAvxVnni:
      return kAvxVnniKernels;
    case Isa::kAvx512Bw:
      return kAvx512BwKernels;
    case Isa::kAvx512Vnni:
      return kAvx512VnniKernels;
#elif defined(__aarch64__) || defined(_M_ARM64)
    case Isa::kNeon:
      return kNeonKernels;
    case Isa::kNeonDotProd:
      return kNeonDotProdKernels;
    case Isa::kNeonI8mm:
      return kNeonI8mmKernels;
#endif
    default:
      return kPortableKernels;
  }
}

}  // namespace onnxruntime_mlas::qnbit
