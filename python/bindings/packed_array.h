// A packed buffer that lies in a numpy array.
#pragma once

#include <pybind11/numpy.h>

#include "onnxruntime_mlas/qnbit.h"

namespace onnxruntime_mlas::bindings {

// The view of a uint8 [bytes] array; valid as long as the array. ValueError when the buffer is refused.
qnbit::PackedView OpenPackedArray(const pybind11::array& packed, bool verify_checksum);

}  // namespace onnxruntime_mlas::bindings
