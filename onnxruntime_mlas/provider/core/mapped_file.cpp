#include "provider/core/mapped_file.h"

#include <algorithm>
#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

#include "provider/core/aligned_buffer.h"
#include "provider/core/ort.h"
#include "provider/core/temporary_file.h"

#if defined(_WIN32)
#define WIN32_LEAN_AND_MEAN
#define NOMINMAX
#include <windows.h>
#else
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#endif

namespace onnxruntime_mlas::provider {
namespace {

[[noreturn]] void FailToRead(const std::string& name, const std::string& why) {
  Fail(ORT_NO_SUCHFILE, "can't read '" + name + "': " + why);
}

class FileInMemory : public MappedFile {
 public:
  explicit FileInMemory(AlignedBuffer buffer) : buffer_(std::move(buffer)) {}
  std::span<const std::byte> bytes() const override { return {buffer_.data(), buffer_.bytes()}; }

 private:
  AlignedBuffer buffer_;
};

#if defined(_WIN32)

std::string LastError() { return std::error_code(static_cast<int>(GetLastError()), std::system_category()).message(); }

HANDLE AsHandle(intptr_t handle) { return reinterpret_cast<HANDLE>(handle); }

uint64_t Joined(DWORD high, DWORD low) { return (uint64_t{high} << 32) | low; }

void* MapBytes(intptr_t file, size_t /*bytes*/) {
  const HANDLE mapping = CreateFileMappingW(AsHandle(file), nullptr, PAGE_READONLY, 0, 0, nullptr);
  if (mapping == nullptr) return nullptr;
  void* const data = MapViewOfFile(mapping, FILE_MAP_READ, 0, 0, 0);
  CloseHandle(mapping);
  return data;
}

void UnmapBytes(void* data, size_t /*bytes*/) { UnmapViewOfFile(data); }

// Bytes read; 0 at the end of the file, negative on an error.
int64_t ReadAt(intptr_t file, std::byte* data, size_t bytes, uint64_t offset) {
  OVERLAPPED position{};
  position.Offset = static_cast<DWORD>(offset);
  position.OffsetHigh = static_cast<DWORD>(offset >> 32);
  DWORD done = 0;
  if (ReadFile(AsHandle(file), data, static_cast<DWORD>(bytes), &done, &position)) return done;
  return GetLastError() == ERROR_HANDLE_EOF ? 0 : -1;
}

#else

std::string LastError() { return std::error_code(errno, std::generic_category()).message(); }

int AsDescriptor(intptr_t handle) { return static_cast<int>(handle); }

void* MapBytes(intptr_t file, size_t bytes) {
  void* const data = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, AsDescriptor(file), 0);
  return data == MAP_FAILED ? nullptr : data;
}

void UnmapBytes(void* data, size_t bytes) { (void)munmap(data, bytes); }

int64_t ReadAt(intptr_t file, std::byte* data, size_t bytes, uint64_t offset) {
  ssize_t done = -1;
  do {
    done = pread(AsDescriptor(file), data, bytes, static_cast<off_t>(offset));
  } while (done < 0 && errno == EINTR);
  return done;
}

#endif

class Mapping : public MappedFile {
 public:
  Mapping(void* data, size_t bytes) : data_(data), bytes_(bytes) {}
  ~Mapping() override { UnmapBytes(data_, bytes_); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  std::span<const std::byte> bytes() const override { return {static_cast<const std::byte*>(data_), bytes_}; }

 private:
  void* data_;
  size_t bytes_;
};

}  // namespace

#if defined(_WIN32)

InputFile::InputFile(const std::filesystem::path& path) : name_(Utf8Of(path)) {
  // Others may replace or remove the file meanwhile, but not write into it.
  const HANDLE file = CreateFileW(path.c_str(), GENERIC_READ, FILE_SHARE_READ | FILE_SHARE_DELETE, nullptr,
                                  OPEN_EXISTING, FILE_ATTRIBUTE_NORMAL, nullptr);
  if (file == INVALID_HANDLE_VALUE) FailToRead(name_, LastError());
  BY_HANDLE_FILE_INFORMATION status;
  if (!GetFileInformationByHandle(file, &status)) {
    const std::string why = LastError();
    CloseHandle(file);
    FailToRead(name_, why);
  }
  handle_ = reinterpret_cast<intptr_t>(file);
  bytes_ = static_cast<size_t>(Joined(status.nFileSizeHigh, status.nFileSizeLow));
  identity_.numbers = {status.dwVolumeSerialNumber, Joined(status.nFileIndexHigh, status.nFileIndexLow), bytes_,
                       Joined(status.ftLastWriteTime.dwHighDateTime, status.ftLastWriteTime.dwLowDateTime)};
}

InputFile::~InputFile() { CloseHandle(AsHandle(handle_)); }

#else

InputFile::InputFile(const std::filesystem::path& path) : name_(Utf8Of(path)) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) FailToRead(name_, LastError());
  struct stat status{};
  std::string why;
  if (fstat(file, &status) != 0) {
    why = LastError();
  } else if (!S_ISREG(status.st_mode)) {
    why = "it is no regular file";
  }
  if (!why.empty()) {
    (void)close(file);
    FailToRead(name_, why);
  }
  handle_ = file;
  bytes_ = static_cast<size_t>(status.st_size);
#if defined(__APPLE__)
  const timespec& changed = status.st_mtimespec;
#else
  const timespec& changed = status.st_mtim;
#endif
  identity_.numbers = {static_cast<uint64_t>(status.st_dev), static_cast<uint64_t>(status.st_ino), bytes_,
                       static_cast<uint64_t>(changed.tv_sec), static_cast<uint64_t>(changed.tv_nsec)};
}

InputFile::~InputFile() { (void)close(AsDescriptor(handle_)); }

#endif

std::shared_ptr<const MappedFile> InputFile::Map() const {
  void* const data = MapBytes(handle_, bytes_);
  if (data == nullptr) return nullptr;
  return std::make_shared<Mapping>(data, bytes_);
}

std::shared_ptr<const MappedFile> InputFile::Read() const {
  constexpr size_t kMostAtOnce = size_t{1} << 30;
  AlignedBuffer buffer(bytes_);
  size_t at = 0;
  while (at < bytes_) {
    const int64_t done = ReadAt(handle_, buffer.data() + at, std::min(bytes_ - at, kMostAtOnce), at);
    if (done < 0) FailToRead(name_, LastError());
    if (done == 0) FailToRead(name_, "it ends early");
    at += static_cast<size_t>(done);
  }
  return std::make_shared<FileInMemory>(std::move(buffer));
}

std::shared_ptr<const MappedFile> InputFile::Contents() const {
  if (bytes_ == 0) FailToRead(name_, "it is empty");
  std::shared_ptr<const MappedFile> mapping = Map();
  return mapping != nullptr ? mapping : Read();
}

}  // namespace onnxruntime_mlas::provider
