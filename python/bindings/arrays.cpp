#include "arrays.h"

#include <memory>
#include <new>

#include "onnxruntime_mlas/packed_memory.h"

namespace onnxruntime_mlas::bindings {

void Refuse(const std::string& message) { throw py::value_error(message); }

std::string Describe(const Shape& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return text + "]";
}

Shape ShapeOf(const py::array& array) { return Shape(array.shape(), array.shape() + array.ndim()); }

void CheckType(std::string_view name, const py::array& array, const py::dtype& dtype, py::ssize_t rank) {
  if (!array.dtype().equal(dtype)) {
    Refuse(std::string(name) + " must have dtype " + std::string(py::str(dtype)) + ", got " +
           std::string(py::str(array.dtype())));
  }
  if (array.ndim() != rank) {
    Refuse(std::string(name) + " must have " + std::to_string(rank) + " dimension(s), got shape " +
           Describe(ShapeOf(array)));
  }
  if (reinterpret_cast<uintptr_t>(array.data()) % static_cast<uintptr_t>(dtype.itemsize()) != 0) {
    Refuse(std::string(name) + " starts at an address that is not a multiple of its element size; pass a copy");
  }
}

void CheckShape(std::string_view name, const py::array& array, const Shape& shape) {
  const Shape actual = ShapeOf(array);
  if (actual != shape) Refuse(std::string(name) + " must have shape " + Describe(shape) + ", got " + Describe(actual));
}

void CheckContiguous(std::string_view name, const py::array& array) {
  if ((array.flags() & py::array::c_style) == 0) {
    Refuse(std::string(name) + " must be C-contiguous; pass numpy.ascontiguousarray(" + std::string(name) + ")");
  }
}

void CheckWritable(std::string_view name, const py::array& array) {
  if (!array.writeable()) Refuse(std::string(name) + " is read-only; pass a writable array");
}

size_t RowStride(std::string_view name, const py::array& array, const py::dtype& dtype) {
  CheckType(name, array, dtype, 2);
  const py::ssize_t item = dtype.itemsize();
  const py::ssize_t rows = array.shape(0);
  const py::ssize_t columns = array.shape(1);
  // numpy gives meaningless strides to empty arrays and to dimensions of length 1.
  if (rows == 0 || columns == 0) return static_cast<size_t>(columns);
  if (columns > 1 && array.strides(1) != item) {
    Refuse(std::string(name) +
           " must have contiguous columns (its rows may be strided); pass numpy.ascontiguousarray(" +
           std::string(name) + ")");
  }
  if (rows == 1) return static_cast<size_t>(columns);
  const py::ssize_t stride = array.strides(0);
  if (stride % item != 0 || stride < columns * item) {
    Refuse(std::string(name) + " has a row stride of " + std::to_string(stride) + " bytes; it must be a multiple of " +
           std::to_string(item) + " and at least " + std::to_string(columns * item) +
           ", so that rows don't overlap: pass a copy");
  }
  return static_cast<size_t>(stride / item);
}

Extent ExtentOf(const py::array& array) {
  const auto* begin = static_cast<const std::byte*>(array.data());
  if (array.size() == 0) return {begin, begin};
  const std::byte* end = begin + array.itemsize();
  for (py::ssize_t i = 0; i < array.ndim(); ++i) {
    const py::ssize_t span = (array.shape(i) - 1) * array.strides(i);
    (span < 0 ? begin : end) += span;
  }
  return {begin, end};
}

py::array_t<uint8_t> AlignedBytes(size_t bytes) {
  struct Block {
    explicit Block(size_t size) : bytes(size == 0 ? 1 : size), memory(AllocatePackedMemory(bytes)) {
      if (memory == nullptr) throw std::bad_alloc();
    }
    ~Block() { FreePackedMemory(memory, bytes); }
    Block(const Block&) = delete;
    Block& operator=(const Block&) = delete;
    size_t bytes;
    std::byte* memory;
  };
  auto block = std::make_unique<Block>(bytes);
  const auto* const data = reinterpret_cast<const uint8_t*>(block->memory);
  py::capsule owner(block.get(), [](void* held) { delete static_cast<Block*>(held); });
  [[maybe_unused]] const Block* const held_by_owner = block.release();
  return py::array_t<uint8_t>(static_cast<py::ssize_t>(bytes), data, owner);
}

}  // namespace onnxruntime_mlas::bindings
