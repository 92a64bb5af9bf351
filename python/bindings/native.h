// The parts of the module _native, one per file.
#pragma once

#include <pybind11/pybind11.h>

#include <optional>
#include <string>

#include "onnxruntime_mlas/isa_choice.h"

namespace onnxruntime_mlas::bindings {

// The ISA of that name, else of ORT_MLAS_ISA, else this machine's choice by M; ValueError when there is none.
IsaChoice IsasFrom(const std::optional<std::string>& requested);

// ValueError unless in [1, kMaxThreads].
size_t CheckedThreads(pybind11::ssize_t threads);

void BindPacking(pybind11::module_& module);  // bind_packing.cpp
void BindGemm(pybind11::module_& module);     // bind_gemm.cpp

}  // namespace onnxruntime_mlas::bindings
