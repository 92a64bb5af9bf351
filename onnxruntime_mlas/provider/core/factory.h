// Makes one Ep per session, for the CPU devices of this machine.
#pragma once

#include "provider/core/ort.h"

namespace onnxruntime_mlas::provider {

class Factory : public OrtEpFactory {
 public:
  // The one factory of this process; never destroyed.
  static Factory* Instance();

 private:
  Factory();

  static const char* ORT_API_CALL GetNameImpl(const OrtEpFactory* factory) noexcept;
  static const char* ORT_API_CALL GetVendorImpl(const OrtEpFactory* factory) noexcept;
  static uint32_t ORT_API_CALL GetVendorIdImpl(const OrtEpFactory* factory) noexcept;
  static const char* ORT_API_CALL GetVersionImpl(const OrtEpFactory* factory) noexcept;
  static OrtStatus* ORT_API_CALL GetSupportedDevicesImpl(OrtEpFactory* factory, const OrtHardwareDevice* const* devices,
                                                         size_t num_devices, OrtEpDevice** ep_devices,
                                                         size_t max_ep_devices, size_t* num_ep_devices) noexcept;
  static OrtStatus* ORT_API_CALL CreateEpImpl(OrtEpFactory* factory, const OrtHardwareDevice* const* devices,
                                              const OrtKeyValuePairs* const* ep_metadata, size_t num_devices,
                                              const OrtSessionOptions* session_options, const OrtLogger* logger,
                                              OrtEp** ep) noexcept;
  static void ORT_API_CALL ReleaseEpImpl(OrtEpFactory* factory, OrtEp* ep) noexcept;
  static OrtStatus* ORT_API_CALL CreateAllocatorImpl(OrtEpFactory* factory, const OrtMemoryInfo* memory_info,
                                                     const OrtKeyValuePairs* options,
                                                     OrtAllocator** allocator) noexcept;
  static void ORT_API_CALL ReleaseAllocatorImpl(OrtEpFactory* factory, OrtAllocator* allocator) noexcept;
  static OrtStatus* ORT_API_CALL CreateDataTransferImpl(OrtEpFactory* factory,
                                                        OrtDataTransferImpl** data_transfer) noexcept;
  static bool ORT_API_CALL IsStreamAwareImpl(const OrtEpFactory* factory) noexcept;
};

}  // namespace onnxruntime_mlas::provider
