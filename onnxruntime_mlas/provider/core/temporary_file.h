// Files that appear whole or not at all.
#pragma once

#include <filesystem>
#include <fstream>

namespace onnxruntime_mlas::provider {

// A file beside `path` that takes its name on Commit, and is removed when it doesn't come to that. Several processes
// and threads may write to one path. Throws Ort::Exception naming the path.
class TemporaryFile {
 public:
  explicit TemporaryFile(std::filesystem::path path);
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  std::ofstream& stream() { return stream_; }
  void Commit();

 private:
  std::filesystem::path path_;
  std::filesystem::path temporary_;
  std::ofstream stream_;
  bool committed_ = false;
};

// ONNX Runtime passes paths in options as UTF-8, which Windows' narrow file names are not.
std::filesystem::path PathFromUtf8(const std::string& text);
std::string Utf8Of(const std::filesystem::path& path);

}  // namespace onnxruntime_mlas::provider
