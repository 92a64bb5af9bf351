// numpy arrays at the edge of the library: everything is checked here, before any memory is touched, because the
// kernels take bare pointers.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "onnxruntime_mlas/status.h"

namespace onnxruntime_mlas::bindings {

namespace py = pybind11;

using Shape = std::vector<py::ssize_t>;

[[noreturn]] void Refuse(const std::string& message);  // ValueError

inline void ThrowIfError(const Status& status) {
  if (!status.ok()) Refuse(status.message());
}

std::string Describe(const Shape& shape);
Shape ShapeOf(const py::array& array);

// Refuses an array of another dtype or rank, and one whose elements are not aligned as C++ needs them.
void CheckType(std::string_view name, const py::array& array, const py::dtype& dtype, py::ssize_t rank);
void CheckShape(std::string_view name, const py::array& array, const Shape& shape);
void CheckContiguous(std::string_view name, const py::array& array);
void CheckWritable(std::string_view name, const py::array& array);

// The elements of a C-contiguous array of the given shape.
template <class T>
const T* Dense(std::string_view name, const py::array& array, const Shape& shape) {
  CheckType(name, array, py::dtype::of<T>(), static_cast<py::ssize_t>(shape.size()));
  CheckShape(name, array, shape);
  CheckContiguous(name, array);
  return static_cast<const T*>(array.data());
}

template <class T>
T* MutableDense(std::string_view name, py::array& array, const Shape& shape) {
  Dense<T>(name, array, shape);
  CheckWritable(name, array);
  return static_cast<T*>(array.mutable_data());
}

// Row stride in elements of a 2-D array of that dtype whose columns are contiguous and whose rows don't overlap.
size_t RowStride(std::string_view name, const py::array& array, const py::dtype& dtype);

// First and one-past-last byte that an array's elements touch.
struct Extent {
  const std::byte* begin = nullptr;
  const std::byte* end = nullptr;
  bool overlaps(const Extent& other) const { return begin < other.end && other.begin < end; }
};
Extent ExtentOf(const py::array& array);

// uint8 [bytes] that starts at a multiple of kPackedAlignment. Contents are not initialised.
py::array_t<uint8_t> AlignedBytes(size_t bytes);

inline size_t CeilDiv(size_t a, size_t b) { return a / b + (a % b != 0); }

}  // namespace onnxruntime_mlas::bindings
