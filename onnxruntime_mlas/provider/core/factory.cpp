#include "provider/core/factory.h"

#include <memory>

#include "provider/core/ep.h"
#include "provider/core/options.h"

namespace onnxruntime_mlas::provider {

Factory* Factory::Instance() {
  static Factory* const instance = new Factory();  // leaked on purpose, see the header
  return instance;
}

Factory::Factory() : OrtEpFactory{} {
  ort_version_supported = kOrtApiVersion;
  GetName = GetNameImpl;
  GetVendor = GetVendorImpl;
  GetVendorId = GetVendorIdImpl;
  GetVersion = GetVersionImpl;
  GetSupportedDevices = GetSupportedDevicesImpl;
  CreateEp = CreateEpImpl;
  ReleaseEp = ReleaseEpImpl;
  CreateAllocator = CreateAllocatorImpl;
  ReleaseAllocator = ReleaseAllocatorImpl;
  CreateDataTransfer = CreateDataTransferImpl;
  IsStreamAware = IsStreamAwareImpl;
}

const char* ORT_API_CALL Factory::GetNameImpl(const OrtEpFactory*) noexcept { return kProviderName; }
const char* ORT_API_CALL Factory::GetVendorImpl(const OrtEpFactory*) noexcept { return "onnxruntime-ep-mlas"; }
uint32_t ORT_API_CALL Factory::GetVendorIdImpl(const OrtEpFactory*) noexcept { return 0; }  // not a PCI vendor
const char* ORT_API_CALL Factory::GetVersionImpl(const OrtEpFactory*) noexcept { return ORT_MLAS_VERSION; }

OrtStatus* ORT_API_CALL Factory::GetSupportedDevicesImpl(OrtEpFactory* factory, const OrtHardwareDevice* const* devices,
                                                         size_t num_devices, OrtEpDevice** ep_devices,
                                                         size_t max_ep_devices, size_t* num_ep_devices) noexcept {
  return CatchAll([&] {
    *num_ep_devices = 0;
    for (size_t i = 0; i < num_devices && *num_ep_devices < max_ep_devices; ++i) {
      if (Ort::GetApi().HardwareDevice_Type(devices[i]) != OrtHardwareDeviceType_CPU) continue;
      // No default options here: ONNX Runtime warns about every one that a user overrides.
      Ort::ThrowOnError(
          Ort::GetEpApi().CreateEpDevice(factory, devices[i], nullptr, nullptr, &ep_devices[*num_ep_devices]));
      ++*num_ep_devices;
    }
  });
}

OrtStatus* ORT_API_CALL Factory::CreateEpImpl(OrtEpFactory*, const OrtHardwareDevice* const*,
                                              const OrtKeyValuePairs* const*, size_t,
                                              const OrtSessionOptions* session_options, const OrtLogger*,
                                              OrtEp** ep) noexcept {
  *ep = nullptr;
  return CatchAll([&] { *ep = std::make_unique<Ep>(ReadOptions(*session_options)).release(); });
}

void ORT_API_CALL Factory::ReleaseEpImpl(OrtEpFactory*, OrtEp* ep) noexcept { delete static_cast<Ep*>(ep); }

// Tensors stay in ordinary CPU memory: no allocator, no copies, no streams of our own.
OrtStatus* ORT_API_CALL Factory::CreateAllocatorImpl(OrtEpFactory*, const OrtMemoryInfo*, const OrtKeyValuePairs*,
                                                     OrtAllocator** allocator) noexcept {
  *allocator = nullptr;
  return nullptr;
}

void ORT_API_CALL Factory::ReleaseAllocatorImpl(OrtEpFactory*, OrtAllocator*) noexcept {}

OrtStatus* ORT_API_CALL Factory::CreateDataTransferImpl(OrtEpFactory*, OrtDataTransferImpl** data_transfer) noexcept {
  *data_transfer = nullptr;
  return nullptr;
}

bool ORT_API_CALL Factory::IsStreamAwareImpl(const OrtEpFactory*) noexcept { return false; }

}  // namespace onnxruntime_mlas::provider
