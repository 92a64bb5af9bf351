// The 16-bit floating-point types <-> IEEE 754 binary32 with baseline operations, for code built with baseline flags.
#pragma once

#include <bit>
#include <cstdint>

namespace onnxruntime_mlas::qnbit {

inline float HalfToFloat(uint16_t half) {
  const uint32_t sign = uint32_t{half & 0x8000u} << 16;
  const uint32_t exponent = (half >> 10) & 0x1F;
  const uint32_t mantissa = half & 0x3FF;
  if (exponent == 0x1F) return std::bit_cast<float>(sign | 0x7F800000u | (mantissa << 13));
  if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
  // Zero or subnormal: mantissa * 2^-24 is exact in fp32.
  const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
}

// To the nearest, half to even; too large a value becomes infinity. A NaN is kept one by its quiet bit.
inline uint16_t FloatToHalf(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) return static_cast<uint16_t>(sign | 0x7E00u | ((magnitude >> 13) & 0x1FFu));
  if (magnitude < 0x38800000u) {
    // Subnormal in binary16: one unit of 2^-24 is one unit in the last place of a float in [0.5, 1).
    return static_cast<uint16_t>(sign |
                                 (std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3F000000u));
  }
  const uint32_t rounded = magnitude + 0xFFFu + ((magnitude >> 13) & 1u);
  return static_cast<uint16_t>(sign | (rounded >= 0x47800000u ? 0x7C00u : (rounded >> 13) - (112u << 10)));
}

// bfloat16 is the upper half of a binary32.
inline float BFloat16ToFloat(uint16_t upper) { return std::bit_cast<float>(uint32_t{upper} << 16); }

inline uint16_t FloatToBFloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

// True when `half` then holds exactly `value`. NaN of any payload counts as exact and becomes a quiet NaN.
inline bool FloatToHalfIfExact(float value, uint16_t* half) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7FFFFFFFu;
  const int exponent = static_cast<int>(magnitude >> 23) - 127;
  const uint32_t mantissa = magnitude & 0x7FFFFFu;
  if (magnitude >= 0x7F800000u) {
    *half = static_cast<uint16_t>(sign | (magnitude > 0x7F800000u ? 0x7E00u : 0x7C00u));
    return true;
  }
  if (magnitude == 0) {
    *half = sign;
    return true;
  }
  if (exponent > 15 || exponent < -24) return false;
  // Bits of the significand that binary16 drops: 13 for normal numbers, more for subnormal ones.
  const int dropped = exponent >= -14 ? 13 : 13 + (-14 - exponent);
  const uint32_t significand = mantissa | 0x800000u;
  if ((significand & ((1u << dropped) - 1)) != 0) return false;
  const uint32_t kept = significand >> dropped;
  *half = static_cast<uint16_t>(
      sign | (exponent >= -14 ? (static_cast<uint32_t>(exponent + 15) << 10) | (kept & 0x3FF) : kept));
  return true;
}

}  // namespace onnxruntime_mlas::qnbit
