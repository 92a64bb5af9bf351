// The ARM64 program whose executed instructions are counted and modelled: one kernel row, one shape, once.
//
//   probe rows                                    JSON: every row with the addresses of its kernel and its unpacking
//   probe run ROW M N K BLOCK_LEN ZERO_POINTS SCALES
//                                                 uniform | per_block | float, fp16 | fp32
//
// Built static at fixed addresses, so that what `rows` says holds for every run.
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <vector>

#include "onnxruntime_mlas/qnbit.h"
#include "qnbit/kernels.h"

namespace mlas = onnxruntime_mlas;
namespace qnbit = onnxruntime_mlas::qnbit;

namespace {

[[noreturn]] void Fail(const std::string& why) {
  std::fprintf(stderr, "probe: %s\n", why.c_str());
  std::exit(1);
}

void Check(const mlas::Status& status) {
  if (!status.ok()) Fail(status.message());
}

template <class Function>
uintptr_t AddressOf(Function* function) {
  return reinterpret_cast<uintptr_t>(function);
}

void PrintRows() {
  const char* separator = "[";
  for (const mlas::KernelRow* row : mlas::AllKernels()) {
    const auto& kernel = static_cast<const qnbit::QnbitKernel&>(*row);
    const qnbit::WidthKernels& width = qnbit::KernelsOf(row->isa).of(row->bits);
    uintptr_t entry = 0;
    uintptr_t unpack = 0;
    if (kernel.compute_type == qnbit::ComputeType::kInt8) {
      entry = AddressOf(kernel.run_int8);
      if (kernel.panel) unpack = AddressOf(width.unpack_int8_panel);
    } else if (kernel.panel) {
      entry = AddressOf(kernel.run_fp32_panel);
      unpack = AddressOf(width.unpack_fp32_panel);
    } else {
      entry = AddressOf(kernel.run_fp32_fused);
    }
    std::printf(
        R"(%s{"name":"%s","isa":"%s","format":"%s","bits":%u,"compute":"%s","path":"%s","rows":%u,"columns":%u,)"
        R"("entry":%)" PRIuPTR R"(,"unpack":%)" PRIuPTR "}",
        separator, row->name, mlas::InfoOf(row->isa).name, row->format, row->bits, row->compute, row->path,
        row->tile_rows, row->tile_columns, entry, unpack);
    separator = ",\n";
  }
  std::printf("]\n");
}

// Aligned memory that a run works on.
class Buffer {
 public:
  explicit Buffer(size_t bytes)
      : bytes_(bytes),
        data_(static_cast<std::byte*>(operator new(bytes + 1, std::align_val_t{mlas::kPackedAlignment}))) {
    std::memset(data_, 0, bytes);
  }
  ~Buffer() { operator delete(data_, std::align_val_t{mlas::kPackedAlignment}); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  std::byte* data() { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  size_t bytes_;
  std::byte* data_;
};

size_t NumberFrom(const char* text) {
  char* end = nullptr;
  const size_t number = std::strtoul(text, &end, 10);
  if (*end != '\0' || number == 0) Fail(std::string("'") + text + "' is not a positive number");
  return number;
}

struct Model {
  std::vector<uint8_t> codes, zero_points;
  std::vector<float> scales, float_zero_points;
  qnbit::Weights weights;
};

// Values are of no concern but for the kinds of scales and zero points that they make.
void Fill(size_t n, size_t k, uint32_t bits, uint32_t block_len, const std::string& zero_points,
          const std::string& scales, Model* model) {
  const size_t blocks = (k + block_len - 1) / block_len;
  model->codes.resize(n * blocks * block_len * bits / 8);
  for (size_t i = 0; i < model->codes.size(); ++i) model->codes[i] = static_cast<uint8_t>(i * 37 + 11);
  model->scales.resize(n * blocks);
  if (scales != "fp16" && scales != "fp32") Fail("scales '" + scales + "' are neither fp16 nor fp32");
  // Fifths aren't representable in fp16.
  const float step = scales == "fp16" ? 0.125F : 0.2F;
  for (size_t i = 0; i < model->scales.size(); ++i) model->scales[i] = 0.5F + step * static_cast<float>(i % 5);
  qnbit::Weights& w = model->weights;
  w.n = n;
  w.k = k;
  w.bits = bits;
  w.block_len = block_len;
  w.codes = model->codes.data();
  w.scales = model->scales.data();
  if (zero_points == "per_block") {
    model->zero_points.assign(n * ((blocks * bits + 7) / 8), 0x1B);
    model->zero_points[0] = 0xE4;
    w.zero_points = model->zero_points.data();
  } else if (zero_points == "float") {
    model->float_zero_points.assign(n * blocks, 1.25F);
    model->float_zero_points[0] = 1.5F;
    w.float_zero_points = model->float_zero_points.data();
  } else if (zero_points != "uniform") {
    Fail("zero points '" + zero_points + "' are none of uniform, per_block, float");
  }
}

void Run(const char* name, size_t m, size_t n, size_t k, uint32_t block_len, const std::string& zero_points,
         const std::string& scales) {
  const mlas::KernelRow* row = mlas::FindKernel(name);
  if (row == nullptr) Fail(std::string("no kernel row '") + name + "'; `probe rows` lists them");
  const std::string reason = mlas::UnavailableReason(row->isa, mlas::HostCpuFeatures());
  if (!reason.empty()) Fail(std::string(name) + ": " + reason);
  Model model;
  Fill(n, k, row->bits, block_len, zero_points, scales, &model);
  qnbit::PackedInfo info;
  Check(qnbit::PlanPack(model.weights, &info));
  for (const qnbit::Format format : {qnbit::Format::kQuad, qnbit::Format::kColumn}) {
    if (std::strcmp(qnbit::NameOf(format), row->format) == 0) info.format = format;
  }
  Buffer packed(qnbit::PackedBytes(info));
  Check(qnbit::Pack(model.weights, info, packed.data(), packed.bytes(), {}));
  qnbit::PackedView view;
  Check(qnbit::OpenPacked(packed.data(), packed.bytes(), false, &view));

  std::vector<float> a(m * k);
  std::vector<float> c(m * n);
  for (size_t i = 0; i < a.size(); ++i) a[i] = 0.25F * static_cast<float>(i % 17) - 2.0F;
  qnbit::GemmArgs args;
  args.m = m;
  args.a = a.data();
  args.lda = k;
  args.b = &view;
  args.c = c.data();
  args.ldc = n;
  args.compute = static_cast<const qnbit::QnbitKernel*>(row)->compute_type;
  args.isa = row->isa;
  args.kernel = row;
  Buffer workspace(qnbit::WorkspaceBytes(args));
  args.workspace = workspace.data();
  args.workspace_bytes = workspace.bytes();
  Check(qnbit::Gemm(args));
}

}  // namespace

int main(int argc, char** argv) {
  const std::string command = argc > 1 ? argv[1] : "";
  if (command == "rows" && argc == 2) {
    PrintRows();
  } else if (command == "run" && argc == 9) {
    Run(argv[2], NumberFrom(argv[3]), NumberFrom(argv[4]), NumberFrom(argv[5]),
        static_cast<uint32_t>(NumberFrom(argv[6])), argv[7], argv[8]);
  } else {
    Fail("usage: probe rows | run ROW M N K BLOCK_LEN uniform|per_block|float fp16|fp32");
  }
  return 0;
}
