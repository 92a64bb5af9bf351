// Asks the processor and the operating system what may be used. One file per architecture defines it.
#pragma once

#include "onnxruntime_mlas/cpu.h"

namespace onnxruntime_mlas {

CpuFeatures DetectCpu();

}  // namespace onnxruntime_mlas
