// The file beside an EPContext model that holds what its nodes keep.
//
//   byte 0    FileHeader (64 bytes, little endian)
//   byte 64   FileEntry [count]
//   then      blobs (stored_blob.h), each at a multiple of kPackedAlignment
//
// Blobs carry checksums of their own; the header's covers itself and the entries.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "provider/core/mapped_file.h"
#include "provider/core/stored_blob.h"

namespace onnxruntime_mlas::provider {

// Writes to a temporary file, then renames it, so that no reader sees half of it. Throws Ort::Exception naming the
// file.
void WriteContextFile(const std::filesystem::path& path, const std::vector<BlobToStore>& blobs);

// A file opened for reading, checked but for the blobs' contents.
class ContextFile : public std::enable_shared_from_this<ContextFile> {
 public:
  // All nodes and sessions that use a file at the same time share one object, and so its mapping. Throws Ort::Exception
  // that says what is wrong with the file.
  static std::shared_ptr<const ContextFile> Open(const std::filesystem::path& path);

  ContextFile(std::string name, std::shared_ptr<const MappedFile> file);
  // Throws when there is no blob of that index. The blob keeps this object alive.
  StoredBlob Blob(size_t index) const;

 private:
  std::string name_;
  std::shared_ptr<const MappedFile> file_;
  size_t count_;
};

}  // namespace onnxruntime_mlas::provider
