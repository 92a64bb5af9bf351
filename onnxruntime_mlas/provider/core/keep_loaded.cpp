#include "provider/core/keep_loaded.h"

#if defined(_WIN32)
#define WIN32_LEAN_AND_MEAN
#include <windows.h>
#elif defined(__APPLE__)
#include <dlfcn.h>
#endif

namespace onnxruntime_mlas::provider {

void KeepLoaded() {
  // Any address inside the library names it.
  [[maybe_unused]] static const char anchor = 0;
#if defined(_WIN32)
  HMODULE module = nullptr;
  (void)GetModuleHandleExA(GET_MODULE_HANDLE_EX_FLAG_PIN | GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS, &anchor, &module);
#elif defined(__APPLE__)
  Dl_info info;
  if (dladdr(&anchor, &info) != 0) (void)dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
#endif
}

}  // namespace onnxruntime_mlas::provider
