// The ONNX Runtime C API as this provider uses it: taken at run time from whoever loads the library, never linked.
#pragma once

#include <exception>
#include <new>
#include <string>
#include <utility>

#define ORT_API_MANUAL_INIT
#include <onnxruntime_cxx_api.h>
#undef ORT_API_MANUAL_INIT

#include "onnxruntime_mlas/status.h"

namespace onnxruntime_mlas::provider {

// The first API version that has what a compiling plugin provider needs. Asking for this one rather than for the
// headers' own version lets one binary run in every later ONNX Runtime.
inline constexpr uint32_t kOrtApiVersion = 23;

inline constexpr char kProviderName[] = "MlasExecutionProvider";
// ONNX Runtime stores provider options in the session's configuration under the provider's name in lower case.
inline constexpr char kOptionPrefix[] = "ep.mlasexecutionprovider.";

// Runs `body` and turns whatever it throws into an OrtStatus: nothing may be thrown across the C ABI.
template <class Body>
OrtStatus* CatchAll(Body&& body) noexcept {
  const OrtApi& api = Ort::GetApi();
  try {
    std::forward<Body>(body)();
    return nullptr;
  } catch (const Ort::Exception& error) {
    return api.CreateStatus(error.GetOrtErrorCode(), error.what());
  } catch (const std::bad_alloc&) {
    return api.CreateStatus(ORT_FAIL, "MlasExecutionProvider: out of memory");
  } catch (const std::exception& error) {
    return api.CreateStatus(ORT_FAIL, error.what());
  } catch (...) {
    return api.CreateStatus(ORT_FAIL, "MlasExecutionProvider: unknown error");
  }
}

[[noreturn]] inline void Fail(OrtErrorCode code, std::string message) {
  throw Ort::Exception(std::move(message), code);
}

// `where` names the node or option that the kernel library can't know about.
inline void FailIfError(const Status& status, OrtErrorCode code, const std::string& where) {
  if (!status.ok()) Fail(code, where + ": " + status.message());
}

}  // namespace onnxruntime_mlas::provider
