// Vocabulary in portable C++: what every ISA's vocabulary must offer and mean. For hosts without a faster ISA.
//
// Codes    kLanes columns x 4 bytes of unsigned codes
// Acc      dot products, one column per lane: I32, or with int16 sums two half sums per lane, to be widened
// I32, F32 one column per lane
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "qnbit/half.h"
#include "qnbit/kernels.h"

namespace onnxruntime_mlas::qnbit {
namespace {

struct Portable {
  static constexpr size_t kLanes = 16;
  static constexpr bool kInt32Dots = true;  // Acc is I32; else Widen(Acc) and AddI32 exist, and an Acc holds few dots
  static constexpr bool kQuadsFromMemory = true;  // Activations is a pointer
  static constexpr unsigned kUnitsAtOnce = 1;     // units of a block that a tile's loop takes at a time
  static constexpr unsigned kDotsInFlight = 1;    // independent accumulators that keep the dot instruction busy
  static constexpr bool kShiftsBytes = true;      // ShiftDown brings zeros into every byte
  // Dot takes codes of 8 bits less this: 0, or 128 where both operands are signed.
  static constexpr int32_t kCodeOffset = 0;
  static constexpr InPlaceRule InPlace(unsigned bits, bool /*long_block*/) {
    if (bits == 2) return {2, {0, 0, 4, 4}, {0, 1, 0, 1}};
    return bits == 4 ? InPlaceRule{2, {0, 0}, {0, 1}} : InPlaceRule{1, {}, {}};
  }

  template <class T, size_t kCount>
  struct Array {
    T values[kCount];
  };
  using Codes = Array<uint8_t, 4 * kLanes>;
  using Activations = const int8_t*;  // 16 k of a row
  using QuadOfA = Array<int8_t, 4>;   // 4 neighbouring k of them
  using I32 = Array<int32_t, kLanes>;
  using Acc = I32;
  using F32 = Array<float, kLanes>;
  using Scalar = F32;  // one number of A, as the first factor of Fma

  template <class T>
  static T LoadAs(const void* from) {
    T value;
    std::memcpy(&value, from, sizeof(T));
    return value;
  }
  template <class T, class F>
  static T Generate(F&& f) {
    T result;
    for (size_t i = 0; i < sizeof(result.values) / sizeof(result.values[0]); ++i) result.values[i] = f(i);
    return result;
  }

  static Codes LoadCodes(const std::byte* from) { return LoadAs<Codes>(from); }
  template <size_t kOffset>  // bytes; some ISAs load faster at a constant offset
  static Codes LoadCodesAt(const std::byte* from) {
    return LoadCodes(from + kOffset);
  }
  static void StoreCodes(std::byte* to, const Codes& x) { std::memcpy(to, &x, sizeof(x)); }
  // Where !kShiftsBytes, bits shifted in from above are unspecified; callers mask.
  template <int kBits>
  static Codes ShiftDown(const Codes& x) {
    return Generate<Codes>([&](size_t i) { return static_cast<uint8_t>(x.values[i] >> kBits); });
  }
  static Codes Mask(const Codes& x, uint8_t mask) {
    return Generate<Codes>([&](size_t i) { return static_cast<uint8_t>(x.values[i] & mask); });
  }
  // Every byte plus or less 128. For I32, of all four bytes of a lane.
  static Codes FlipTopBits(const Codes& x) {
    return Generate<Codes>([&](size_t i) { return static_cast<uint8_t>(x.values[i] ^ 0x80); });
  }
  static I32 FlipTopBits(const I32& x) {
    return Generate<I32>(
        [&](size_t i) { return static_cast<int32_t>(static_cast<uint32_t>(x.values[i]) ^ 0x80808080u); });
  }
  template <size_t kOffset>
  static Activations LoadActivations(const int8_t* a) {
    return a + kOffset;
  }
  template <unsigned kQuad>
  static QuadOfA Quad(Activations a) {
    return LoadAs<QuadOfA>(a + kQuad * kQuadK);
  }
  static I32 LoadTerm(const ActivationBlock& block) { return BroadcastI32(block.term); }
  static F32 LoadScale(const ActivationBlock& block) { return BroadcastF32(block.scale); }

  static Acc ZeroAcc() { return {}; }
  static Acc Dot(const Acc& acc, const Codes& codes, const QuadOfA& a) {
    return Generate<Acc>([&](size_t i) {
      int32_t sum = acc.values[i];
      for (size_t j = 0; j < 4; ++j) sum += codes.values[4 * i + j] * a.values[j];
      return sum;
    });
  }
  // low + high / 2^kBits; high is a multiple of 2^kBits.
  template <int kBits>
  static Acc AddShifted(const Acc& low, const Acc& high) {
    return Generate<Acc>([&](size_t i) { return low.values[i] + (high.values[i] >> kBits); });
  }

  static I32 BroadcastI32(const int32_t* from) {
    return Generate<I32>([&](size_t) { return *from; });
  }
  static I32 LoadI32(const std::byte* from) { return LoadAs<I32>(from); }
  static void StoreI32(std::byte* to, const I32& x) { std::memcpy(to, &x, sizeof(x)); }
  static I32 LoadBytes(const std::byte* from) {  // unsigned bytes, one per lane
    return Generate<I32>([&](size_t i) { return static_cast<int32_t>(from[i]); });
  }
  // What a block's sum starts from: kSumBias, and kSumBias + x * y for x in [0, 255], y in [-32768, 32767].
  static constexpr int32_t kSumBias = 0;
  static I32 StartSum() { return {}; }
  static I32 StartSum(const I32& x, const I32& y) {
    return Generate<I32>([&](size_t i) { return x.values[i] * y.values[i]; });
  }
  static F32 SumToFloat(const I32& x) { return ToFloat(x); }  // x - kSumBias
  template <unsigned kBits>
  static I32 ShiftLanes(const I32& x) {
    return ShiftLanesBy(x, kBits);
  }
  static I32 ShiftLanesBy(const I32& x, unsigned bits) {
    return Generate<I32>([&](size_t i) { return static_cast<int32_t>(static_cast<uint32_t>(x.values[i]) >> bits); });
  }

  static F32 ZeroF32() { return {}; }
  static F32 BroadcastF32(const float* from) {
    return Generate<F32>([&](size_t) { return *from; });
  }
  static Scalar LoadScalar(const float* from) { return BroadcastF32(from); }
  static F32 LoadF32(const std::byte* from) { return LoadAs<F32>(from); }
  static void StoreF32(std::byte* to, const F32& x) { std::memcpy(to, &x, sizeof(x)); }
  static F32 LoadHalf(const std::byte* from) {
    return Generate<F32>([&](size_t i) { return HalfToFloat(LoadAs<uint16_t>(from + 2 * i)); });
  }
  // The first `columns` lanes, or all of them; the others read as 0.
  static F32 LoadPartial(const float* from, size_t columns) {
    F32 result{};
    std::memcpy(&result, from, (columns < kLanes ? columns : kLanes) * sizeof(float));
    return result;
  }
  static void StorePartial(float* to, const F32& x, size_t columns) {
    std::memcpy(to, &x, (columns < kLanes ? columns : kLanes) * sizeof(float));
  }
  static F32 ToFloat(const I32& x) {
    return Generate<F32>([&](size_t i) { return static_cast<float>(x.values[i]); });
  }
  static F32 Add(const F32& x, const F32& y) {
    return Generate<F32>([&](size_t i) { return x.values[i] + y.values[i]; });
  }
  static F32 Sub(const F32& x, const F32& y) {
    return Generate<F32>([&](size_t i) { return x.values[i] - y.values[i]; });
  }
  static F32 Mul(const F32& x, const F32& y) {
    return Generate<F32>([&](size_t i) { return x.values[i] * y.values[i]; });
  }
  static F32 Fma(const F32& x, const F32& y, const F32& z) {
    return Generate<F32>([&](size_t i) { return std::fma(x.values[i], y.values[i], z.values[i]); });
  }
  static F32 Negate(const F32& x) {
    return Generate<F32>([&](size_t i) { return -x.values[i]; });
  }

  template <unsigned kBits>
  static I32 ShiftLanesUp(const I32& x) {
    return Generate<I32>([&](size_t i) { return static_cast<int32_t>(static_cast<uint32_t>(x.values[i]) << kBits); });
  }
  static I32 AddI32(const I32& x, const I32& y) {
    return Generate<I32>([&](size_t i) { return x.values[i] + y.values[i]; });
  }
  static I32 SubI32(const I32& x, const I32& y) {
    return Generate<I32>([&](size_t i) { return x.values[i] - y.values[i]; });
  }

  // 2^(23 - kBit) + the code of kBits bits from bit kBit on, exactly; kBit + kBits <= 23.
  template <unsigned kBit, unsigned kBits>
  static F32 CodePlusPower(const I32& x) {
    return Generate<F32>([&](size_t i) {
      return static_cast<float>((1u << (23 - kBit)) + ((x.values[i] >> kBit) & ((1u << kBits) - 1)));
    });
  }
};

}  // namespace
}  // namespace onnxruntime_mlas::qnbit
