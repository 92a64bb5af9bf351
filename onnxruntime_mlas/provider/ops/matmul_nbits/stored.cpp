#include "provider/ops/matmul_nbits/stored.h"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

#include "provider/ops/dequantize_matmul/gemm_kernel.h"

namespace onnxruntime_mlas::provider::matmul_nbits {
namespace {

constexpr char kMagic[8] = "MLASNBT";
constexpr uint32_t kVersion = 1;
constexpr uint32_t kNoInput = 0xFFFFFFFF;

// The head of a blob; after it the error texts' name of the node, gather (int32) and bias (float), padded with zeros.
struct StoredHeader {
  char magic[8];
  uint32_t version;
  uint32_t origin;
  uint64_t checksum;  // Fingerprint of the head with this field 0
  uint64_t head_bytes;
  uint64_t packed_bytes;  // 0 where n or k is 0
  uint64_t n;
  uint64_t k;  // of A
  uint64_t gather_count;
  uint64_t bias_count;
  uint64_t where_bytes;
  uint32_t bits;
  uint32_t block_size;
  uint32_t element_type;
  int32_t accuracy_level;
  uint32_t a_input;  // indices among the node's inputs
  uint32_t bias_input;
};
static_assert(sizeof(StoredHeader) == 104 && std::is_trivially_copyable_v<StoredHeader>);

[[noreturn]] void Refuse(const std::string& what) { Fail(ORT_INVALID_GRAPH, "its stored node " + what); }

size_t RoundUp(size_t bytes) { return (bytes + kPackedAlignment - 1) / kPackedAlignment * kPackedAlignment; }

uint64_t ChecksumOf(std::span<const std::byte> head) {
  std::vector<std::byte> copy(head.begin(), head.end());
  std::memset(copy.data() + offsetof(StoredHeader, checksum), 0, sizeof(uint64_t));
  return Fingerprint(copy.data(), copy.size());
}

size_t HeadBytes(const StoredHeader& header) {
  return RoundUp(sizeof(header) + header.where_bytes + header.gather_count * sizeof(int32_t) +
                 header.bias_count * sizeof(float));
}

// Takes `count` values from the front of `from`.
template <class T>
void TakeValues(size_t count, const std::byte** from, T* to) {
  if (count == 0) return;  // an empty vector has no address that memcpy may be given
  std::memcpy(to, *from, count * sizeof(T));
  *from += count * sizeof(T);
}

// Empty when the header's numbers fit each other and the blob.
std::string Fault(const StoredHeader& header, size_t blob_bytes) {
  constexpr uint64_t kMost = uint64_t{1} << 48;  // so that sums of sizes can't wrap around
  for (const uint64_t count : {header.n, header.k, header.gather_count, header.bias_count, header.where_bytes}) {
    if (count > kMost) return "names sizes that can't be";
  }
  if (header.head_bytes != HeadBytes(header) || header.head_bytes > blob_bytes ||
      header.packed_bytes != blob_bytes - header.head_bytes) {
    return "was cut short or joined with other data";
  }
  if (header.accuracy_level < 0 || header.accuracy_level > 4 || header.a_input == kNoInput ||
      (header.bias_count != 0 && header.bias_count != header.n)) {
    return "has fields of unknown meaning";
  }
  return {};
}

}  // namespace

BlobToStore Kernel::Store() const {
  StoredHeader header{};
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  header.version = kVersion;
  header.origin = static_cast<uint32_t>(stored.origin);
  header.n = dims.n;
  header.k = dims.k;
  header.gather_count = gather.size();
  header.bias_count = bias.size();
  header.where_bytes = where.size();
  header.bits = view.info.bits;
  header.block_size = view.info.block_len;
  header.element_type = static_cast<uint32_t>(type);
  header.accuracy_level = stored.accuracy_level;
  const auto input_of = [&](size_t input) {
    return slots[input].passed() ? static_cast<uint32_t>(slots[input].index) : kNoInput;
  };
  header.a_input = input_of(kA);
  header.bias_input = input_of(kBias);
  header.head_bytes = HeadBytes(header);

  BlobToStore blob;
  blob.packed = packed.bytes;
  header.packed_bytes = blob.packed.size();
  blob.head.resize(header.head_bytes);
  std::byte* to = blob.head.data();
  const auto put = [&](const void* data, size_t bytes) {
    if (bytes != 0) std::memcpy(to, data, bytes);
    to += bytes;
  };
  put(&header, sizeof(header));
  put(where.data(), where.size());
  put(gather.data(), gather.size() * sizeof(int32_t));
  put(bias.data(), bias.size() * sizeof(float));
  const uint64_t checksum = ChecksumOf(blob.head);
  std::memcpy(blob.head.data() + offsetof(StoredHeader, checksum), &checksum, sizeof(checksum));
  return blob;
}

std::unique_ptr<Kernel> Restore(const StoredBlob& blob) {
  StoredHeader header{};
  if (blob.bytes.size() < sizeof(header)) Refuse("was cut short");
  std::memcpy(&header, blob.bytes.data(), sizeof(header));
  if (std::memcmp(header.magic, kMagic, sizeof(kMagic)) != 0) Refuse("is none of this provider's");
  if (header.version != kVersion) {
    Refuse("has version " + std::to_string(header.version) + ", this build reads " + std::to_string(kVersion));
  }
  if (const std::string fault = Fault(header, blob.bytes.size()); !fault.empty()) Refuse(fault);
  const std::span<const std::byte> head = blob.bytes.first(header.head_bytes);
  if (ChecksumOf(head) != header.checksum) Refuse("was damaged: its checksum does not match");

  if (header.origin > static_cast<uint32_t>(Origin::kGemmPair) || header.element_type >= qnbit::kElementTypes) {
    Refuse("has fields of unknown meaning");
  }
  const StoredAttributes attributes{static_cast<Origin>(header.origin), header.accuracy_level};
  std::unique_ptr<Kernel> restored = attributes.origin == Origin::kGemmPair
                                         ? std::make_unique<dequantize_matmul::GemmKernel>()
                                         : std::make_unique<Kernel>();
  Kernel& kernel = *restored;
  kernel.stored = attributes;
  const std::byte* from = head.data() + sizeof(header);
  kernel.where.assign(reinterpret_cast<const char*>(from), header.where_bytes);
  from += header.where_bytes;
  kernel.gather.resize(header.gather_count);
  TakeValues(header.gather_count, &from, kernel.gather.data());
  kernel.bias.resize(header.bias_count);
  TakeValues(header.bias_count, &from, kernel.bias.data());
  for (const int32_t index : kernel.gather) {
    if (index < -1 || index >= static_cast<int64_t>(header.k)) Refuse("gathers from outside of A");
  }
  kernel.dims.bits = header.bits;
  kernel.dims.n = header.n;
  kernel.dims.k = header.k;
  kernel.dims.block_size = header.block_size;
  kernel.type = static_cast<qnbit::ElementType>(header.element_type);
  kernel.constant_weights = true;
  const auto set_slot = [&](size_t input, uint32_t index) {
    if (index == kNoInput) return;
    kernel.slots[input].index = index;
    kernel.slots[input].label.where = kernel.where + ": input " + InputName(input);
  };
  set_slot(kA, header.a_input);
  set_slot(kBias, header.bias_input);

  if (kernel.dims.empty()) {
    kernel.view.info.bits = header.bits;
    kernel.view.info.block_len = header.block_size;
    return restored;
  }
  kernel.HoldStored({blob.bytes.subspan(header.head_bytes), blob.owner});
  const qnbit::PackedInfo& info = kernel.view.info;
  const size_t k = kernel.gather.empty() ? kernel.dims.k : kernel.gather.size();
  if (info.n != header.n || info.k != k || info.bits != header.bits || info.block_len != header.block_size) {
    Refuse("and its packed weights are of different dims");
  }
  return restored;
}

}  // namespace onnxruntime_mlas::provider::matmul_nbits
