#include "provider/core/mapped_file.h"

#include <cerrno>
#include <fstream>
#include <string>
#include <system_error>

#include "provider/core/aligned_buffer.h"
#include "provider/core/ort.h"

#if !defined(_WIN32)
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#endif

namespace onnxruntime_mlas::provider {
namespace {

[[noreturn]] void FailToOpen(const std::filesystem::path& path, const std::string& why) {
  Fail(ORT_NO_SUCHFILE, "can't read '" + path.string() + "': " + why);
}

#if defined(_WIN32)

class ReadFile : public MappedFile {
 public:
  explicit ReadFile(AlignedBuffer buffer) : buffer_(std::move(buffer)) {}
  std::span<const std::byte> bytes() const override { return {buffer_.data(), buffer_.bytes()}; }

 private:
  AlignedBuffer buffer_;
};

#else

class Mapping : public MappedFile {
 public:
  Mapping(void* data, size_t bytes) : data_(data), bytes_(bytes) {}
  ~Mapping() override { (void)munmap(data_, bytes_); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  std::span<const std::byte> bytes() const override { return {static_cast<const std::byte*>(data_), bytes_}; }

 private:
  void* data_;
  size_t bytes_;
};

class Descriptor {
 public:
  explicit Descriptor(const std::filesystem::path& path) : value_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  ~Descriptor() {
    if (value_ >= 0) (void)close(value_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int value() const { return value_; }

 private:
  int value_;
};

std::string LastError() { return std::error_code(errno, std::generic_category()).message(); }

#endif

}  // namespace

#if defined(_WIN32)

std::shared_ptr<const MappedFile> MappedFile::Open(const std::filesystem::path& path) {
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  if (error) FailToOpen(path, error.message());
  AlignedBuffer buffer(size);
  std::ifstream file(path, std::ios::binary);
  if (!file.read(reinterpret_cast<char*>(buffer.data()), static_cast<std::streamsize>(size))) {
    FailToOpen(path, "the file ends early or can't be opened");
  }
  return std::make_shared<ReadFile>(std::move(buffer));
}

#else

std::shared_ptr<const MappedFile> MappedFile::Open(const std::filesystem::path& path) {
  const Descriptor file(path);
  if (file.value() < 0) FailToOpen(path, LastError());
  struct stat status{};
  if (fstat(file.value(), &status) != 0) FailToOpen(path, LastError());
  if (!S_ISREG(status.st_mode) || status.st_size <= 0) FailToOpen(path, "it is empty or no regular file");
  const auto bytes = static_cast<size_t>(status.st_size);
  void* const data = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, file.value(), 0);
  if (data == MAP_FAILED) FailToOpen(path, LastError());
  return std::make_shared<Mapping>(data, bytes);
}

#endif

}  // namespace onnxruntime_mlas::provider
