// The two symbols that the library exports.
#include "provider/core/factory.h"
#include "provider/core/keep_loaded.h"
#include "provider/core/ort.h"

using onnxruntime_mlas::provider::CatchAll;
using onnxruntime_mlas::provider::Factory;
using onnxruntime_mlas::provider::kOrtApiVersion;

// ORT_EXPORT of the headers is empty, and everything here is built hidden.
#if defined(_WIN32)
#define ORT_MLAS_EXPORT __declspec(dllexport)
#else
#define ORT_MLAS_EXPORT __attribute__((visibility("default")))
#endif

extern "C" {

ORT_MLAS_EXPORT OrtStatus* CreateEpFactories(const char* /*registered_name*/, const OrtApiBase* ort_api_base,
                                             const OrtLogger* /*default_logger*/, OrtEpFactory** factories,
                                             size_t max_factories, size_t* num_factories) noexcept {
  const OrtApi* api = ort_api_base->GetApi(kOrtApiVersion);
  if (api == nullptr) {
    // Every ONNX Runtime has version 1 of the API, and CreateStatus has been in it since then.
    return ort_api_base->GetApi(1)->CreateStatus(
        ORT_NOT_IMPLEMENTED, "MlasExecutionProvider needs ONNX Runtime 1.23 or later; upgrade onnxruntime");
  }
  Ort::InitApi(api);
  onnxruntime_mlas::provider::KeepLoaded();
  return CatchAll([&] {
    if (max_factories < 1) {
      onnxruntime_mlas::provider::Fail(ORT_INVALID_ARGUMENT, "MlasExecutionProvider: no room for a provider factory");
    }
    factories[0] = Factory::Instance();
    *num_factories = 1;
  });
}

// The factory lives as long as the process: sessions that outlive the registration still release their provider
// through it.
ORT_MLAS_EXPORT OrtStatus* ReleaseEpFactory(OrtEpFactory* /*factory*/) noexcept { return nullptr; }

}  // extern "C"
