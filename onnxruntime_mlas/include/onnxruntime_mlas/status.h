// Result of a fallible call. The kernel library throws nothing across its edge: a failure is a sentence that names the
// thing that is wrong and the fix.
#pragma once

#include <string>
#include <utility>

namespace onnxruntime_mlas {

class [[nodiscard]] Status {
 public:
  Status() = default;
  static Status Error(std::string message) {
    Status status;
    status.message_ = std::move(message);
    return status;
  }

  bool ok() const { return message_.empty(); }
  const std::string& message() const { return message_; }

 private:
  std::string message_;
};

}  // namespace onnxruntime_mlas

#define ORT_MLAS_RETURN_IF_ERROR(expression)                    \
  do {                                                          \
    ::onnxruntime_mlas::Status ort_mlas_status_ = (expression); \
    if (!ort_mlas_status_.ok()) return ort_mlas_status_;        \
  } while (0)
