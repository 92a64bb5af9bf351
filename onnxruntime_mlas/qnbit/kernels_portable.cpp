// Portable kernels, built with baseline flags: the fall-back where no faster ISA is available.
#include <algorithm>
#include <bit>
#include <cmath>

#include "qnbit/half.h"
#include "qnbit/isa/portable.h"
#include "qnbit/kernel_rows.h"
#include "qnbit/quantize_row.h"

namespace onnxruntime_mlas::qnbit {
namespace {

using V = Portable;
constexpr Isa kIsa = Isa::kPortable;

template <class T>
T Same(T x) {
  return x;
}

template <class Element, float (*kToFloat)(Element)>
uint32_t LargestMagnitudeBits(const Element* a, size_t part_len) {
  uint32_t largest = 0;
  for (size_t i = 0; i < part_len; ++i)
    largest = std::max(largest, std::bit_cast<uint32_t>(kToFloat(a[i])) & 0x7FFFFFFFu);
  return largest;
}

template <class Element, float (*kToFloat)(Element)>
int32_t RoundPart(const Element* a, size_t part_len, float r, int8_t* q) {
  int32_t sum = 0;
  for (size_t i = 0; i < part_len; ++i) {
    q[i] = static_cast<int8_t>(std::nearbyint(kToFloat(a[i]) * r));
    sum += q[i];
  }
  return sum;
}

template <class Element, float (*kToFloat)(Element)>
constexpr auto QuantizeRowPortable =
    QuantizeRow<Element, LargestMagnitudeBits<Element, kToFloat>, RoundPart<Element, kToFloat>>;

template <float (*kToFloat)(uint16_t)>
void Widen(const void* from, size_t count, float* to) {
  const auto* const elements = static_cast<const uint16_t*>(from);
  std::transform(elements, elements + count, to, kToFloat);
}

template <uint16_t (*kFromFloat)(float)>
void Narrow(const float* from, size_t count, void* to) {
  std::transform(from, from + count, static_cast<uint16_t*>(to), kFromFloat);
}

#define INT8_ROWS(bits)                                                                         \
  Int8FusedRow<V, bits, 4>(QNBIT_ROW_NAME(bits, "int8", "portable", "fused", 4, 16), kIsa),     \
      Int8FusedRow<V, bits, 1>(QNBIT_ROW_NAME(bits, "int8", "portable", "fused", 1, 16), kIsa), \
      Int8PanelRow<V, bits, 4>(QNBIT_ROW_NAME(bits, "int8", "portable", "panel", 4, 16), kIsa), \
      Int8PanelRow<V, bits, 1>(QNBIT_ROW_NAME(bits, "int8", "portable", "panel", 1, 16), kIsa)
#define FP32_ROWS(bits)                                                                            \
  Fp32FusedRow<V, bits, 1, 1>(QNBIT_ROW_NAME(bits, "fp32", "portable", "fused", 1, 16), kIsa),     \
      Fp32PanelRow<V, bits, 4, 1>(QNBIT_ROW_NAME(bits, "fp32", "portable", "panel", 4, 16), kIsa), \
      Fp32PanelRow<V, bits, 1, 1>(QNBIT_ROW_NAME(bits, "fp32", "portable", "panel", 1, 16), kIsa)

constexpr QnbitKernel kInt8Rows[] = {INT8_ROWS(2), INT8_ROWS(4), INT8_ROWS(8)};
constexpr QnbitKernel kFp32Rows[] = {FP32_ROWS(2), FP32_ROWS(4), FP32_ROWS(8)};

}  // namespace

constinit const IsaKernels kPortableKernels = {
    .int8_rows = kInt8Rows,
    .fp32_rows = kFp32Rows,
    .column_rows = kPortableColumnRows,
    .widths = {WidthOf<V, 2>(4, 4), WidthOf<V, 4>(4, 4), WidthOf<V, 8>(4, 4)},
    .activations = {.quantize_row = {QuantizeRowPortable<float, Same<float>>,
                                     QuantizeRowPortable<uint16_t, HalfToFloat>,
                                     QuantizeRowPortable<uint16_t, BFloat16ToFloat>},
                    .widen = {nullptr, Widen<HalfToFloat>, Widen<BFloat16ToFloat>},
                    .narrow = {nullptr, Narrow<FloatToHalf>, Narrow<FloatToBFloat16>}},
    .arrange_rows = nullptr,
    .sum_bias = V::kSumBias,
    .int8_strips = 1,
    .fp32_panel_strips = 1,
};

}  // namespace onnxruntime_mlas::qnbit
