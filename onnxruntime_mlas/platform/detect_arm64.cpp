// What the operating system says about an ARM64 processor: user code can't read most feature registers itself.
#include "platform/detect.h"

#if !defined(__x86_64__)

namespace onnxruntime_mlas {

CpuFeatures DetectCpu() {
  CpuFeatures cpu;
#if defined(__aarch64__)
  cpu.neon = true;
#endif
  return cpu;
}

}  // namespace onnxruntime_mlas

#endif
