// The program that runs in the bed (and natively): drives the kernel library from a list of cases.
//
//   runner features            JSON: what the library finds out about the CPU and chooses
//   runner instruction NAME    executes one instruction, whatever the CPU: exit code 0 when its result is right
//   runner cases               reads cases from standard input, writes results to standard output (cases.cpp)
#include "runner.h"

#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <string>

#include "onnxruntime_mlas/isa_choice.h"
#include "onnxruntime_mlas/qnbit.h"

namespace mlas = onnxruntime_mlas;

void WriteAll(const void* data, size_t bytes) {
  const auto* at = static_cast<const char*>(data);
  while (bytes != 0) {
    const ssize_t written = write(STDOUT_FILENO, at, bytes);
    if (written <= 0) Fail("can't write to standard output");
    at += written;
    bytes -= static_cast<size_t>(written);
  }
}

void Fail(const std::string& why) {
  std::fprintf(stderr, "runner: %s\n", why.c_str());
  std::exit(1);
}

namespace {

std::string Quoted(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + '"';
}

std::string Member(const char* name, const std::string& value) { return Quoted(name) + ":" + value; }

void PrintFeatures() {
  const mlas::CpuFeatures& cpu = mlas::HostCpuFeatures();
  mlas::IsaChoice choice;
  const mlas::Status status = mlas::SelectIsas(nullptr, &choice);
  std::string text = "{" + Member("brand", Quoted(cpu.brand));
  const struct {
    const char* name;
    bool value;
  } flags[] = {{"avx2", cpu.avx2},         {"fma", cpu.fma},           {"f16c", cpu.f16c},
               {"avx_vnni", cpu.avx_vnni}, {"avx512f", cpu.avx512f},   {"avx512bw", cpu.avx512bw},
               {"avx512dq", cpu.avx512dq}, {"avx512vl", cpu.avx512vl}, {"avx512_vnni", cpu.avx512_vnni},
               {"os_ymm", cpu.os_ymm},     {"os_zmm", cpu.os_zmm}};
  for (const auto& flag : flags) text += "," + Member(flag.name, flag.value ? "true" : "false");
  text += "," + Member("error", Quoted(status.message()));
  text += "," + Member("selected", status.ok() ? Quoted(mlas::InfoOf(choice.many_rows).name) : "null");
  text += ",\"unavailable\":{";
  const char* separator = "";
  for (const mlas::IsaInfo& info : mlas::AllIsas()) {
    text += separator + Member(info.name, Quoted(mlas::UnavailableReason(info.isa, cpu)));
    separator = ",";
  }
  text += "},\"rows\":[";
  separator = "";
  for (const mlas::KernelRow* row : mlas::AllKernels()) {
    text += separator + ("{" + Member("name", Quoted(row->name))) + "," +
            Member("isa", Quoted(mlas::InfoOf(row->isa).name)) + "," + Member("compute", Quoted(row->compute)) + "," +
            Member("path", Quoted(row->path)) + "," + Member("tile_rows", std::to_string(row->tile_rows)) + "}";
    separator = ",";
  }
  text += "]}\n";
  WriteAll(text.data(), text.size());
}

// One dot product instruction on 2 x 4 bytes per lane. Written as assembly, so that the compiler needs no flags which
// it could use elsewhere.
int ExecuteInstruction(const std::string& name) {
  alignas(64) uint8_t codes[64];
  alignas(64) int8_t values[64];
  alignas(64) int32_t sums[16] = {};
  for (int i = 0; i < 64; ++i) {
    codes[i] = static_cast<uint8_t>(3 * i);
    values[i] = static_cast<int8_t>(i - 40);
  }
  int lanes = 8;
  if (name == "avx512_vnni") {
    lanes = 16;
    asm volatile(
        "vpxord %%zmm16, %%zmm16, %%zmm16; vmovdqu32 %1, %%zmm17; vpdpbusd %2, %%zmm17, %%zmm16;"
        "vmovdqu32 %%zmm16, %0"
        : "=m"(sums)
        : "m"(codes), "m"(values));
  } else if (name == "avx512_vnni_vl") {
    asm volatile(
        "vpxord %%ymm16, %%ymm16, %%ymm16; vmovdqu32 %1, %%ymm17; vpdpbusd %2, %%ymm17, %%ymm16;"
        "vmovdqu32 %%ymm16, %0"
        : "=m"(sums)
        : "m"(codes), "m"(values));
  } else if (name == "avx_vnni") {
    asm volatile(
        "vpxor %%xmm0, %%xmm0, %%xmm0; vmovdqu %1, %%ymm1; %{vex%} vpdpbusd %2, %%ymm1, %%ymm0;"
        "vmovdqu %%ymm0, %0; vzeroupper"
        : "=m"(sums)
        : "m"(codes), "m"(values)
        : "xmm0", "xmm1");
  } else if (name == "avx512bw") {
    lanes = 16;
    // Words of 1 turn the saturating 16-bit pairs into 32-bit sums; the operands above stay in range.
    asm volatile(
        "vpternlogd $255, %%zmm18, %%zmm18, %%zmm18; vpsrlw $15, %%zmm18, %%zmm18; vmovdqu32 %1, %%zmm17;"
        "vpmaddubsw %2, %%zmm17, %%zmm16; vpmaddwd %%zmm18, %%zmm16, %%zmm16; vmovdqu32 %%zmm16, %0"
        : "=m"(sums)
        : "m"(codes), "m"(values));
  } else {
    Fail("no instruction '" + name + "'");
  }
  for (int lane = 0; lane < lanes; ++lane) {
    int32_t expected = 0;
    for (int i = 4 * lane; i < 4 * lane + 4; ++i) expected += codes[i] * values[i];
    if (sums[lane] != expected) Fail(name + ": wrong result");
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string command = argc > 1 ? argv[1] : "";
  if (command == "features" && argc == 2) {
    PrintFeatures();
    return 0;
  }
  if (command == "instruction" && argc == 3) return ExecuteInstruction(argv[2]);
  if (command == "cases" && argc == 2) {
    RunCases();
    return 0;
  }
  Fail("usage: runner features | instruction NAME | cases");
}
