#include "provider/core/temporary_file.h"

#if defined(_WIN32)
#include <process.h>
#else
#include <unistd.h>
#endif

#include <atomic>
#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

#include "provider/core/ort.h"

namespace onnxruntime_mlas::provider {
namespace {

[[noreturn]] void FailOn(const std::filesystem::path& path, const char* verb, std::error_code error) {
  Fail(ORT_FAIL, std::string("can't ") + verb + " '" + Utf8Of(path) + "': " + error.message());
}

// Of the last call into the C library that failed.
std::error_code LastError() { return {errno, std::generic_category()}; }

int ProcessId() {
#if defined(_WIN32)
  return _getpid();
#else
  return getpid();
#endif
}

}  // namespace

TemporaryFile::TemporaryFile(std::filesystem::path path) : path_(std::move(path)), temporary_(path_) {
  static std::atomic<unsigned> counter{0};
  temporary_ += ".tmp." + std::to_string(ProcessId()) + "." + std::to_string(counter.fetch_add(1));
  stream_.open(temporary_, std::ios::binary);
  if (!stream_) FailOn(temporary_, "create", LastError());
}

TemporaryFile::~TemporaryFile() {
  if (committed_) return;
  stream_.close();
  std::error_code ignored;
  std::filesystem::remove(temporary_, ignored);
}

void TemporaryFile::Commit() {
  stream_.close();
  if (!stream_) FailOn(temporary_, "write", LastError());
  std::error_code error;
  std::filesystem::rename(temporary_, path_, error);
  if (error) FailOn(path_, "replace", error);
  committed_ = true;
}

std::filesystem::path PathFromUtf8(const std::string& text) { return {std::u8string(text.begin(), text.end())}; }

std::string Utf8Of(const std::filesystem::path& path) {
  const std::u8string text = path.u8string();
  return {text.begin(), text.end()};
}

}  // namespace onnxruntime_mlas::provider
