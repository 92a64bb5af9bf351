// What this machine can do at most, measured, for benchmarks to be compared with.
#pragma once

#include <pybind11/pybind11.h>

namespace onnxruntime_mlas::bindings {

// Adds clock_hz, peak_ops, peak_instructions, check_peak and read_bandwidth to the module.
void BindCalibration(pybind11::module_& module);

}  // namespace onnxruntime_mlas::bindings
