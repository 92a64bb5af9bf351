// Cases and results, little endian; strings are a u32 length and bytes. One case:
//
//   u32 kind, m, n, k, bits, block_len, lda, ldc, compute, zero points (0 none, 1 packed, 2 float), has bias, runs
//   string x runs       kind 0: an ISA or a kernel row; kind 1: an ISA
//   float a[m, k]
//   kind 0 only: u8 codes[n, k_blocks, block_len * bits / 8], float scales[n, k_blocks], zero points, float bias[n]
//
// Each of its runs answers with
//
//   string error, string names of the rows used, string what was written out of bounds
//   kind 0: u32 1 if C has the very bits of the case's first run, else u32 0 and float c[m, n]
//   kind 1: i8 q[m, padded k], float scales[m, k_blocks], i32 sums[m, k_blocks], u8 fp32_rows[m]
// where the arrays are missing if there is an error.
#include <unistd.h>

#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "guarded_buffer.h"
#include "onnxruntime_mlas/qnbit.h"
#include "runner.h"

namespace mlas = onnxruntime_mlas;
namespace qnbit = onnxruntime_mlas::qnbit;

namespace {

std::vector<char> ReadStandardInput() {
  std::vector<char> data;
  size_t end = 0;
  for (;;) {
    if (data.size() - end < 65536) data.resize(2 * data.size() + 65536);
    const ssize_t count = read(STDIN_FILENO, data.data() + end, data.size() - end);
    if (count < 0) Fail("can't read standard input");
    if (count == 0) break;
    end += static_cast<size_t>(count);
  }
  data.resize(end);
  return data;
}

class Reader {
 public:
  explicit Reader(std::vector<char> data) : data_(std::move(data)) {}
  bool AtEnd() const { return at_ == data_.size(); }
  const char* Take(size_t bytes) {
    if (bytes > data_.size() - at_) Fail("the cases end in the middle of one");
    at_ += bytes;
    return data_.data() + at_ - bytes;
  }
  uint32_t U32() {
    uint32_t value = 0;
    std::memcpy(&value, Take(sizeof value), sizeof value);
    return value;
  }
  std::string String() {
    const uint32_t bytes = U32();
    return std::string(Take(bytes), bytes);
  }

 private:
  std::vector<char> data_;
  size_t at_ = 0;
};

void WriteString(const std::string& text) {
  const auto bytes = static_cast<uint32_t>(text.size());
  WriteAll(&bytes, sizeof bytes);
  WriteAll(text.data(), bytes);
}

struct Case {
  uint32_t kind, m, n, k, bits, block_len, lda, ldc, compute, zero_points, has_bias;
  std::vector<std::string> runs;

  size_t k_blocks() const { return (k + block_len - 1) / block_len; }
};

GuardedBuffer FloatBuffer(size_t count) { return GuardedBuffer(count * sizeof(float), alignof(float)); }

// A's rows lda apart with NaN between them, which a kernel must not let in.
void SpreadRows(const Case& c, const char* from, float* a) {
  for (size_t row = 0; row < c.m; ++row) {
    std::memcpy(a + row * c.lda, from + row * c.k * sizeof(float), c.k * sizeof(float));
    for (size_t i = c.k; row + 1 < c.m && i < c.lda; ++i) a[row * c.lda + i] = std::numeric_limits<float>::quiet_NaN();
  }
}

size_t Spread(size_t rows, size_t stride, size_t columns) { return rows == 0 ? 0 : (rows - 1) * stride + columns; }

mlas::Status FindRun(const std::string& name, mlas::Isa* isa, const mlas::KernelRow** row) {
  for (const mlas::IsaInfo& info : mlas::AllIsas()) {
    if (name == info.name) {
      *isa = info.isa;
      return {};
    }
  }
  *row = mlas::FindKernel(name);
  if (*row == nullptr) return mlas::Status::Error("no ISA or kernel row '" + name + "'");
  *isa = (*row)->isa;
  return {};
}

bool GapsIntact(const Case& c, const float* matrix) {
  for (size_t row = 0; row + 1 < c.m; ++row) {
    const auto* gap = reinterpret_cast<const uint8_t*>(matrix + row * c.ldc + c.n);
    for (size_t i = 0; i < (c.ldc - c.n) * sizeof(float); ++i) {
      if (gap[i] != GuardedBuffer::kFill) return false;
    }
  }
  return true;
}

void RunProduct(const Case& c, const GuardedBuffer& a, const GuardedBuffer& bias, const qnbit::PackedView& view,
                const GuardedBuffer& packed, const std::string& name, std::vector<float>* first_c) {
  GuardedBuffer product = FloatBuffer(Spread(c.m, c.ldc, c.n));
  qnbit::GemmArgs args;
  mlas::Status status = FindRun(name, &args.isa, &args.kernel);
  if (!status.ok()) return WriteString(status.message());
  args.m = c.m;
  args.a = a.As<float>();
  args.lda = c.lda;
  args.b = &view;
  args.bias = c.has_bias ? bias.As<float>() : nullptr;
  args.c = product.As<float>();
  args.ldc = c.ldc;
  args.compute = c.compute == 0 ? qnbit::ComputeType::kInt8 : qnbit::ComputeType::kFp32;
  GuardedBuffer workspace(qnbit::WorkspaceBytes(args), mlas::kPackedAlignment);
  args.workspace = workspace.As<std::byte>();
  args.workspace_bytes = workspace.bytes();
  status = qnbit::Gemm(args);
  WriteString(status.message());
  if (!status.ok()) return;

  std::string used;
  for (const mlas::KernelRow* row : qnbit::KernelsFor(args)) used += (used.empty() ? "" : " ") + std::string(row->name);
  WriteString(used);
  std::string damage;
  if (!product.Intact()) damage += "around C; ";
  if (!GapsIntact(c, product.As<float>())) damage += "between rows of C; ";
  if (!workspace.Intact()) damage += "around the workspace; ";
  if (!packed.Intact()) damage += "around the packed weights; ";
  if (!a.Intact()) damage += "around A; ";
  WriteString(damage);
  std::vector<float> dense(size_t{c.m} * c.n);
  for (size_t row = 0; row < c.m; ++row) {
    std::memcpy(dense.data() + row * c.n, product.As<float>() + row * c.ldc, c.n * sizeof(float));
  }
  const size_t bytes = dense.size() * sizeof(float);
  const uint32_t same =
      !dense.empty() && dense.size() == first_c->size() && std::memcmp(dense.data(), first_c->data(), bytes) == 0;
  WriteAll(&same, sizeof same);
  if (same == 0) WriteAll(dense.data(), bytes);
  if (first_c->empty()) *first_c = std::move(dense);
}

void RunProducts(const Case& c, Reader* reader, const GuardedBuffer& a) {
  const auto load = [&](size_t bytes, size_t alignment) {
    auto buffer = std::make_unique<GuardedBuffer>(bytes, alignment);
    std::memcpy(buffer->As<char>(), reader->Take(bytes), bytes);
    return buffer;
  };
  const size_t blocks = c.k_blocks();
  const auto codes = load(c.n * blocks * c.block_len * c.bits / 8, 1);
  const auto scales = load(c.n * blocks * sizeof(float), alignof(float));
  const auto zero_points = c.zero_points == 1   ? load(c.n * ((blocks * c.bits + 7) / 8), 1)
                           : c.zero_points == 2 ? load(c.n * blocks * sizeof(float), alignof(float))
                                                : load(0, 1);
  const auto bias = load(c.has_bias ? c.n * sizeof(float) : 0, alignof(float));

  qnbit::Weights weights;
  weights.n = c.n;
  weights.k = c.k;
  weights.bits = c.bits;
  weights.block_len = c.block_len;
  weights.codes = codes->As<uint8_t>();
  weights.scales = scales->As<float>();
  if (c.zero_points == 1) weights.zero_points = zero_points->As<uint8_t>();
  if (c.zero_points == 2) weights.float_zero_points = zero_points->As<float>();
  qnbit::PackedInfo info;
  mlas::Status status = qnbit::PlanPack(weights, &info);
  if (!status.ok()) Fail("PlanPack: " + status.message());
  const GuardedBuffer packed(qnbit::PackedBytes(info), mlas::kPackedAlignment);
  status = qnbit::Pack(weights, info, packed.As<std::byte>(), packed.bytes(), {});
  if (!status.ok()) Fail("Pack: " + status.message());
  qnbit::PackedView view;
  status = qnbit::OpenPacked(packed.As<std::byte>(), packed.bytes(), true, &view);
  if (!status.ok()) Fail("OpenPacked: " + status.message());
  std::vector<float> first_c;
  for (const std::string& name : c.runs) RunProduct(c, a, *bias, view, packed, name, &first_c);
}

void RunQuantiser(const Case& c, const GuardedBuffer& a, const std::string& name) {
  mlas::Isa isa{};
  const mlas::KernelRow* row = nullptr;
  mlas::Status status = FindRun(name, &isa, &row);
  const std::string reason = mlas::UnavailableReason(isa, mlas::HostCpuFeatures());
  if (status.ok() && !reason.empty()) status = mlas::Status::Error("ISA " + name + " can't run here: " + reason);
  WriteString(status.message());
  if (!status.ok()) return;
  const size_t blocks = c.k_blocks();
  const GuardedBuffer q(c.m * blocks * c.block_len, 1);
  const GuardedBuffer scales = FloatBuffer(c.m * blocks);
  const GuardedBuffer sums(c.m * blocks * sizeof(int32_t), alignof(int32_t));
  const GuardedBuffer fp32_rows(c.m, 1);
  qnbit::QuantizeActivations(isa, c.m, c.k, c.block_len, a.As<float>(), c.lda, q.As<int8_t>(), scales.As<float>(),
                             sums.As<int32_t>(), fp32_rows.As<uint8_t>());
  WriteString("");
  const bool intact = q.Intact() && scales.Intact() && sums.Intact() && fp32_rows.Intact() && a.Intact();
  WriteString(intact ? "" : "around the quantiser's buffers");
  for (const GuardedBuffer* buffer : {&q, &scales, &sums, &fp32_rows}) WriteAll(buffer->As<char>(), buffer->bytes());
}

}  // namespace

void RunCases() {
  Reader reader(ReadStandardInput());
  while (!reader.AtEnd()) {
    Case c{};
    for (uint32_t* field :
         {&c.kind, &c.m, &c.n, &c.k, &c.bits, &c.block_len, &c.lda, &c.ldc, &c.compute, &c.zero_points, &c.has_bias}) {
      *field = reader.U32();
    }
    c.runs.resize(reader.U32());
    for (std::string& run : c.runs) run = reader.String();
    GuardedBuffer a = FloatBuffer(Spread(c.m, c.lda, c.k));
    SpreadRows(c, reader.Take(size_t{c.m} * c.k * sizeof(float)), a.As<float>());
    if (c.kind == 0) {
      RunProducts(c, &reader, a);
    } else {
      for (const std::string& name : c.runs) RunQuantiser(c, a, name);
    }
  }
}
