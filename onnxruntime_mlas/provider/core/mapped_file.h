// A file's bytes, read-only, for as long as the object lives.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>

namespace onnxruntime_mlas::provider {

class MappedFile {
 public:
  // Maps the file, or where the system can't, reads it. Throws Ort::Exception that names the file.
  static std::shared_ptr<const MappedFile> Open(const std::filesystem::path& path);
  virtual ~MappedFile() = default;

  // At a multiple of kPackedAlignment.
  virtual std::span<const std::byte> bytes() const = 0;
};

}  // namespace onnxruntime_mlas::provider
