#include "provider/core/context_file.h"

#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include "onnxruntime_mlas/packed_buffer.h"
#include "provider/core/ort.h"
#include "provider/core/temporary_file.h"

namespace onnxruntime_mlas::provider {
namespace {

constexpr char kMagic[8] = "MLASCTX";
constexpr uint32_t kVersion = 1;

struct FileHeader {
  char magic[8];
  uint32_t version;
  uint32_t reserved;
  uint64_t count;
  uint64_t file_bytes;
  uint64_t checksum;  // Fingerprint of the header with this field 0, then of the entries
  uint8_t padding[24];
};
static_assert(sizeof(FileHeader) == 64);

struct FileEntry {
  uint64_t offset;
  uint64_t bytes;
};

size_t RoundUp(size_t bytes) { return (bytes + kPackedAlignment - 1) / kPackedAlignment * kPackedAlignment; }

uint64_t ChecksumOf(FileHeader header, const FileEntry* entries) {
  header.checksum = 0;
  return Fingerprint(reinterpret_cast<const std::byte*>(&header), sizeof(header)) ^
         Fingerprint(reinterpret_cast<const std::byte*>(entries), header.count * sizeof(FileEntry));
}

struct OpenFiles {
  std::mutex mutex;
  std::map<FileIdentity, std::weak_ptr<const ContextFile>> files;
};

// Never destroyed: sessions may end after static objects do.
OpenFiles& TheOpenFiles() {
  static OpenFiles& files = *new OpenFiles;
  return files;
}

}  // namespace

void WriteContextFile(const std::filesystem::path& path, const std::vector<BlobToStore>& blobs) {
  FileHeader header{};
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  header.version = kVersion;
  header.count = blobs.size();
  std::vector<FileEntry> entries;
  size_t end = RoundUp(sizeof(FileHeader) + blobs.size() * sizeof(FileEntry));
  for (const BlobToStore& blob : blobs) {
    entries.push_back({end, blob.bytes()});
    end = RoundUp(end + blob.bytes());
  }
  header.file_bytes = end;
  header.checksum = ChecksumOf(header, entries.data());

  TemporaryFile file(path);
  size_t at = 0;
  const auto write = [&](const void* data, size_t bytes) {
    file.stream().write(static_cast<const char*>(data), static_cast<std::streamsize>(bytes));
    at += bytes;
  };
  const auto pad = [&] {
    static constexpr char kZeros[kPackedAlignment] = {};
    write(kZeros, RoundUp(at) - at);
  };
  write(&header, sizeof(header));
  write(entries.data(), entries.size() * sizeof(FileEntry));
  pad();
  for (const BlobToStore& blob : blobs) {
    write(blob.head.data(), blob.head.size());
    write(blob.packed.data(), blob.packed.size());
    pad();
  }
  file.Commit();
}

std::shared_ptr<const ContextFile> ContextFile::Open(const std::filesystem::path& path) {
  const InputFile input(path);
  OpenFiles& open = TheOpenFiles();
  const std::lock_guard lock(open.mutex);
  const auto known = open.files.find(input.identity());
  if (known != open.files.end()) {
    if (std::shared_ptr<const ContextFile> file = known->second.lock()) return file;
  }
  auto file = std::make_shared<const ContextFile>(std::string("'").append(Utf8Of(path)).append("'"), input.Contents());
  std::erase_if(open.files, [](const auto& entry) { return entry.second.expired(); });
  open.files[input.identity()] = file;
  return file;
}

ContextFile::ContextFile(std::string name, std::shared_ptr<const MappedFile> file)
    : name_(std::move(name)), file_(std::move(file)), count_(0) {
  const std::span<const std::byte> bytes = file_->bytes();
  FileHeader header;
  if (bytes.size() < sizeof(header)) Fail(ORT_INVALID_GRAPH, name_ + " was cut short");
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (std::memcmp(header.magic, kMagic, sizeof(kMagic)) != 0) {
    Fail(ORT_INVALID_GRAPH, name_ + " holds no packed weights of " + kProviderName);
  }
  if (header.version != kVersion) {
    Fail(ORT_INVALID_GRAPH,
         name_ + " has version " + std::to_string(header.version) + ", this build reads " + std::to_string(kVersion));
  }
  if (header.file_bytes != bytes.size() || header.count > (bytes.size() - sizeof(header)) / sizeof(FileEntry)) {
    Fail(ORT_INVALID_GRAPH, name_ + " was cut short or joined with other data");
  }
  count_ = header.count;
  // The entries lie at a multiple of 64.
  const auto* const entries = reinterpret_cast<const FileEntry*>(bytes.data() + sizeof(header));
  if (ChecksumOf(header, entries) != header.checksum) {
    Fail(ORT_INVALID_GRAPH, name_ + ": its table's checksum does not match: the file was damaged");
  }
}

StoredBlob ContextFile::Blob(size_t index) const {
  const std::span<const std::byte> bytes = file_->bytes();
  if (index >= count_) {
    Fail(ORT_INVALID_GRAPH, name_ + " holds " + std::to_string(count_) + " nodes, not number " + std::to_string(index));
  }
  FileEntry entry;
  std::memcpy(&entry, bytes.data() + sizeof(FileHeader) + index * sizeof(entry), sizeof(entry));
  if (entry.offset % kPackedAlignment != 0 || entry.offset > bytes.size() ||
      entry.bytes > bytes.size() - entry.offset) {
    Fail(ORT_INVALID_GRAPH, name_ + ": node number " + std::to_string(index) + " lies outside of the file");
  }
  return {bytes.subspan(entry.offset, entry.bytes), shared_from_this()};
}

}  // namespace onnxruntime_mlas::provider
