// How kernels unroll their loops.
#pragma once

#include <utility>

// Before a loop over a tile's rows or vectors. GCC keeps arrays of vectors in registers only when such loops are
// unrolled before it splits arrays into scalars; left to itself it unrolls later and stores every accumulator in every
// step.
#define ORT_MLAS_UNROLL _Pragma("GCC unroll 16")

// On the steps of a tile's loops: called out of line, a step would pass every accumulator through memory.
#define ORT_MLAS_INLINE __attribute__((always_inline))

namespace onnxruntime_mlas::qnbit {
namespace {

// step.operator()<i>() for i in [0, kCount), in order: a loop whose index is a constant in each step.
template <unsigned kCount, class Step>
ORT_MLAS_INLINE inline void ForEach(Step&& step) {
  [&]<unsigned... kI>(std::integer_sequence<unsigned, kI...>)
      ORT_MLAS_INLINE { (step.template operator()<kI>(), ...); }(std::make_integer_sequence<unsigned, kCount>());
}

}  // namespace
}  // namespace onnxruntime_mlas::qnbit
