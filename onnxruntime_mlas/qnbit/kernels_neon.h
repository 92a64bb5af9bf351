// What the tables of the later NEON ISAs take from ARMv8.0's: fp32 has no faster instruction there.
#pragma once

#include "qnbit/kernels.h"

namespace onnxruntime_mlas::qnbit {

inline constexpr size_t kNeonFp32RowCount = 18;
extern const QnbitKernel kNeonFp32Rows[kNeonFp32RowCount];

}  // namespace onnxruntime_mlas::qnbit
