// The codes of a column-format vector (layout.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "qnbit/layout.h"

namespace onnxruntime_mlas::qnbit {

// The code of a k of the strip, in the vector that holds it.
inline uint8_t CodeOf(const std::byte* vector, size_t k) {
  const size_t plane = k / kVectorBytes % kVectorPlanes;
  return (static_cast<uint8_t>(vector[k % kVectorBytes]) >> (2 * plane)) & 3;
}

inline void JoinCodes(const uint8_t (&codes)[kVectorK], std::byte* vector) {
  for (size_t j = 0; j < kVectorBytes; ++j) {
    unsigned byte = 0;
    for (size_t plane = 0; plane < kVectorPlanes; ++plane) byte |= codes[plane * kVectorBytes + j] << (2 * plane);
    vector[j] = static_cast<std::byte>(byte);
  }
}

}  // namespace onnxruntime_mlas::qnbit
