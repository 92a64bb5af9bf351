// Keeps this library in memory until the process ends.
#pragma once

namespace onnxruntime_mlas::provider {

// ONNX Runtime unloads a library whose registration is withdrawn, but sessions may outlive that and still call into it.
// Does nothing on ELF systems, where the linker has marked the library so (-z nodelete). May be called repeatedly.
void KeepLoaded();

}  // namespace onnxruntime_mlas::provider
