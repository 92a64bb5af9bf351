// Weights: pack, packed_info, unpack, regroup.
#include <pybind11/stl.h>

#include <string>
#include <utility>

#include "arrays.h"
#include "native.h"
#include "onnxruntime_mlas/qnbit.h"
#include "packed_array.h"
#include "thread_pool.h"

namespace onnxruntime_mlas::bindings {
namespace {

constexpr py::ssize_t kLargestDim = py::ssize_t{1} << 48;

size_t PositiveDim(std::string_view name, py::ssize_t value) {
  if (value < 1 || value > kLargestDim) {
    Refuse(std::string(name) + " must lie in [1, 2^48], got " + std::to_string(value));
  }
  return static_cast<size_t>(value);
}

// Checks the arrays of a quantised matrix against its dims. The result points into the arrays.
qnbit::Weights WeightsFrom(const py::array& codes, const py::array& scales, const std::optional<py::array>& zero_points,
                           py::ssize_t k, py::ssize_t block_size, int bits) {
  if (bits != 2 && bits != 4 && bits != 8) Refuse("bits must be 2, 4 or 8, got " + std::to_string(bits));
  qnbit::Weights weights;
  weights.k = PositiveDim("k", k);
  const size_t block = PositiveDim("block_size", block_size);
  if (block < 16 || block > (size_t{1} << 20) || (block & (block - 1)) != 0) {
    Refuse("block_size must be a power of two >= 16, got " + std::to_string(block_size));
  }
  weights.bits = static_cast<uint32_t>(bits);
  weights.block_len = static_cast<uint32_t>(block);
  CheckType("codes", codes, py::dtype::of<uint8_t>(), 3);
  const py::ssize_t n = codes.shape(0);
  const auto k_blocks = static_cast<py::ssize_t>(CeilDiv(weights.k, block));
  weights.n = static_cast<size_t>(n);
  weights.codes = Dense<uint8_t>("codes", codes, {n, k_blocks, static_cast<py::ssize_t>(block * weights.bits / 8)});
  weights.scales = Dense<float>("scales", scales, {n, k_blocks});
  if (zero_points) {
    if (zero_points->dtype().equal(py::dtype::of<float>())) {
      weights.float_zero_points = Dense<float>("zero_points", *zero_points, {n, k_blocks});
    } else if (zero_points->dtype().equal(py::dtype::of<uint8_t>())) {
      const size_t row_bytes = CeilDiv(static_cast<size_t>(k_blocks) * weights.bits, 8);
      weights.zero_points = Dense<uint8_t>("zero_points", *zero_points, {n, static_cast<py::ssize_t>(row_bytes)});
    } else {
      Refuse("zero_points must have dtype uint8 (packed) or float32, got " +
             std::string(py::str(zero_points->dtype())));
    }
  }
  return weights;
}

qnbit::Format FormatNamed(const std::string& name) {
  for (const qnbit::Format format : {qnbit::Format::kQuad, qnbit::Format::kColumn}) {
    if (name == NameOf(format)) return format;
  }
  Refuse("format must be \"quad\" or \"column\", got \"" + name + "\"");
}

py::array_t<uint8_t> Pack(const py::array& codes, const py::array& scales, const std::optional<py::array>& zero_points,
                          py::ssize_t k, py::ssize_t block_size, int bits, py::ssize_t threads, bool general,
                          const std::string& format) {
  const qnbit::Format packed_format = FormatNamed(format);
  const qnbit::Weights weights = WeightsFrom(codes, scales, zero_points, k, block_size, bits);
  ThreadedRunner runner(CheckedThreads(threads));
  qnbit::PackedInfo info;
  Status status;
  {
    py::gil_scoped_release release;
    status = general ? qnbit::PlanPackGeneral(weights, &info) : qnbit::PlanPack(weights, &info);
  }
  ThrowIfError(status);
  info.format = packed_format;
  const size_t bytes = qnbit::PackedBytes(info);
  py::array_t<uint8_t> packed = AlignedBytes(bytes);
  auto* buffer = reinterpret_cast<std::byte*>(packed.mutable_data());
  {
    py::gil_scoped_release release;
    status = qnbit::Pack(weights, info, buffer, bytes, runner.parallel_for());
  }
  ThrowIfError(status);
  return packed;
}

py::dict PackedInfoDict(const py::array& packed, bool verify_checksum) {
  const qnbit::PackedInfo info = OpenPackedArray(packed, verify_checksum).info;
  constexpr const char* kZeroPointKinds[] = {"uniform", "per_block", "float"};
  py::dict fields;
  fields["n"] = info.n;
  fields["k"] = info.k;
  fields["bits"] = info.bits;
  fields["block_size"] = info.block_len;
  fields["scale_type"] = info.scale_type == qnbit::ScaleType::kFp16 ? "fp16" : "fp32";
  fields["zero_point_kind"] = kZeroPointKinds[static_cast<size_t>(info.zero_point_kind)];
  fields["uniform_zero_point"] = info.uniform_zero_point;
  fields["format"] = NameOf(info.format);
  fields["bytes"] = packed.nbytes();
  return fields;
}

py::tuple Unpack(const py::array& packed) {
  const qnbit::PackedView view = OpenPackedArray(packed, true);
  const auto n = static_cast<py::ssize_t>(view.info.n);
  const auto k_blocks = static_cast<py::ssize_t>(view.info.k_blocks());
  py::array_t<uint8_t> codes({n, k_blocks, static_cast<py::ssize_t>(view.info.block_len * view.info.bits / 8)});
  py::array_t<float> scales({n, k_blocks});
  py::array_t<float> zero_points({n, k_blocks});
  uint8_t* codes_data = codes.mutable_data();
  float* scales_data = scales.mutable_data();
  float* zero_points_data = zero_points.mutable_data();
  {
    py::gil_scoped_release release;
    qnbit::Unpack(view, codes_data, scales_data, zero_points_data);
  }
  return py::make_tuple(codes, scales, zero_points);
}

template <class T>
py::array_t<T> Copy(const std::vector<T>& values, const Shape& shape) {
  return py::array_t<T>(shape, values.data());
}

py::tuple Regroup(const py::array& codes, const py::array& scales, const std::optional<py::array>& zero_points,
                  const py::array& g_idx, py::ssize_t k, py::ssize_t block_size, int bits) {
  const qnbit::Weights weights = WeightsFrom(codes, scales, zero_points, k, block_size, bits);
  const int32_t* groups = Dense<int32_t>("g_idx", g_idx, {k});
  qnbit::RegroupedWeights regrouped;
  Status status;
  {
    py::gil_scoped_release release;
    status = qnbit::Regroup(weights, groups, &regrouped);
  }
  ThrowIfError(status);
  if (regrouped.gather.empty()) return py::make_tuple(codes, scales, zero_points, py::none());
  const auto n = static_cast<py::ssize_t>(weights.n);
  const auto new_k = static_cast<py::ssize_t>(regrouped.gather.size());
  const py::ssize_t k_blocks = new_k / block_size;
  py::object new_zero_points = py::none();
  if (weights.zero_points != nullptr) {
    const auto row_bytes = static_cast<py::ssize_t>(CeilDiv(static_cast<size_t>(k_blocks) * weights.bits, 8));
    new_zero_points = Copy(regrouped.zero_points, {n, row_bytes});
  } else if (weights.float_zero_points != nullptr) {
    new_zero_points = Copy(regrouped.float_zero_points, {n, k_blocks});
  }
  return py::make_tuple(Copy(regrouped.codes, {n, k_blocks, block_size * bits / 8}),
                        Copy(regrouped.scales, {n, k_blocks}), new_zero_points, Copy(regrouped.gather, {new_k}));
}

}  // namespace

qnbit::PackedView OpenPackedArray(const py::array& packed, bool verify_checksum) {
  const auto* bytes =
      reinterpret_cast<const std::byte*>(Dense<uint8_t>("packed", packed, {packed.ndim() == 1 ? packed.size() : 0}));
  const auto size = static_cast<size_t>(packed.size());
  qnbit::PackedView view;
  Status status;
  {
    py::gil_scoped_release release;
    status = qnbit::OpenPacked(bytes, size, verify_checksum, &view);
  }
  ThrowIfError(status);
  return view;
}

void BindPacking(py::module_& module) {
  module.def("pack", &Pack, py::arg("codes"), py::arg("scales"), py::arg("zero_points") = py::none(), py::kw_only(),
             py::arg("k"), py::arg("block_size"), py::arg("bits") = 2, py::arg("threads") = 1,
             py::arg("general") = false, py::arg("format") = "quad");
  module.def("packed_info", &PackedInfoDict, py::arg("packed"), py::arg("verify_checksum") = true);
  module.def("unpack", &Unpack, py::arg("packed"));
  module.def("regroup", &Regroup, py::arg("codes"), py::arg("scales"), py::arg("zero_points").none(true),
             py::arg("g_idx"), py::kw_only(), py::arg("k"), py::arg("block_size"), py::arg("bits") = 2);
}

}  // namespace onnxruntime_mlas::bindings
