#include "provider/core/ep.h"

#include <utility>

namespace onnxruntime_mlas::provider {

Ep::Ep(Options options) : OrtEp{}, options_(std::move(options)), report_(options_.report, options_.isas) {
  ort_version_supported = kOrtApiVersion;
  GetName = GetNameImpl;
  GetCapability = GetCapabilityImpl;
  Compile = CompileImpl;
  ReleaseNodeComputeInfos = ReleaseNodeComputeInfosImpl;
  // A path that can't be written is told here, before any work is done; a model without our operators leaves this file.
  report_.Write();
}

const char* ORT_API_CALL Ep::GetNameImpl(const OrtEp*) noexcept { return kProviderName; }

}  // namespace onnxruntime_mlas::provider
