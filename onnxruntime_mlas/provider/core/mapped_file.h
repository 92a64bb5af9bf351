// A file's bytes, read-only, for as long as the object lives.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

namespace onnxruntime_mlas::provider {

// Tells files apart, and a file from one that has taken its path. Made of where the file system keeps it, its size and
// when it was changed last.
struct FileIdentity {
  std::array<uint64_t, 5> numbers{};
  auto operator<=>(const FileIdentity&) const = default;
};

class MappedFile {
 public:
  virtual ~MappedFile() = default;
  // At a multiple of kPackedAlignment.
  virtual std::span<const std::byte> bytes() const = 0;
};

// An open file. Every failure is an Ort::Exception that names it.
class InputFile {
 public:
  explicit InputFile(const std::filesystem::path& path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const FileIdentity& identity() const { return identity_; }

  // Maps the file, or where the system can't, reads it. A mapped file may be replaced by renaming another one over it,
  // but must not be made shorter.
  std::shared_ptr<const MappedFile> Contents() const;

 private:
  std::shared_ptr<const MappedFile> Map() const;  // null where the system can't
  std::shared_ptr<const MappedFile> Read() const;

  std::string name_;
  FileIdentity identity_;
  size_t bytes_ = 0;
  intptr_t handle_ = -1;
};

}  // namespace onnxruntime_mlas::provider
