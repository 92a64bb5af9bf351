// Runs the candidate loops, on ARM64 or under emulation.
//
//   candidates list         JSON: name, rows, columns, block_len and format of each
//   candidates check        compares each with plain loops over the same weights, bit by bit
//   candidates run NAME     runs one over kBlocks blocks, once
#include <cmath>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "candidates.h"
#include "formats.h"

namespace arm64_w2 {
namespace {

constexpr size_t kBlocks = 16;
constexpr size_t kMaxRows = 8;

// One strip and rows to multiply it with.
Problem RandomProblem(unsigned block_len, unsigned seed) {
  std::mt19937 random(seed);
  Problem p;
  p.block_len = block_len;
  p.blocks = kBlocks;
  p.codes.resize(kStripColumns * p.k());
  for (auto& code : p.codes) code = static_cast<uint8_t>(random() % 4);
  p.scales.resize(kBlocks * kStripColumns);
  for (auto& scale : p.scales) scale = static_cast<__fp16>(0.001F * static_cast<float>(random() % 1000 + 1));
  p.rows = kMaxRows;
  p.q.resize(kMaxRows * p.k());
  // -127..127 and, in the last block, the largest sums that there can be.
  for (auto& q : p.q) q = static_cast<int8_t>(static_cast<int>(random() % 255) - 127);
  for (size_t row = 0; row < kMaxRows; ++row) {
    for (size_t k = p.k() - block_len; k < p.k(); ++k) p.q[row * p.k() + k] = row % 2 == 0 ? 127 : -127;
  }
  for (size_t i = p.codes.size() - block_len; i < p.codes.size(); ++i) p.codes[i] = 3;
  p.a_scales.resize(kMaxRows * kBlocks);
  for (auto& scale : p.a_scales) scale = 0.01F * static_cast<float>(random() % 100 + 1);
  return p;
}

float Expected(const Problem& p, size_t row, size_t column) {
  float c = 0;
  for (size_t block = 0; block < p.blocks; ++block) {
    int32_t sum = 0;
    for (size_t k = block * p.block_len; k < (block + 1) * p.block_len; ++k) {
      sum += p.q[row * p.k() + k] * (p.codes[column * p.k() + k] - kZeroPoint);
    }
    const float scale =
        p.a_scales[row * p.blocks + block] * static_cast<float>(p.scales[block * kStripColumns + column]);
    c = std::fma(static_cast<float>(sum), scale, c);
  }
  return c;
}

std::vector<float> RunOn(const Candidate& candidate, const Problem& problem) {
  const Operands operands = Prepare(candidate, problem);
  std::vector<float> c(candidate.rows * candidate.columns);
  LoopArgs t = operands.args;
  t.c = c.data();
  t.ldc = candidate.columns;
  candidate.run(t);
  return c;
}

bool Check(const Candidate& candidate) {
  const Problem problem = RandomProblem(candidate.block_len, candidate.block_len + candidate.rows);
  const std::vector<float> c = RunOn(candidate, problem);
  for (size_t row = 0; row < candidate.rows; ++row) {
    for (size_t column = 0; column < candidate.columns; ++column) {
      const float expected = Expected(problem, row, column);
      const float found = c[row * candidate.columns + column];
      if (std::memcmp(&expected, &found, sizeof(float)) != 0) {
        std::printf("%s: row %zu, column %zu is %.9g instead of %.9g\n", candidate.name, row, column, found, expected);
        return false;
      }
    }
  }
  return true;
}

int Main(const std::string& command, const std::string& name) {
  if (command == "list") {
    const char* separator = "[";
    for (const Candidate& c : Candidates()) {
      std::printf(R"(%s{"name":"%s","rows":%u,"columns":%u,"block_len":%u,"blocks":%zu})", separator, c.name, c.rows,
                  c.columns, c.block_len, kBlocks);
      separator = ",\n";
    }
    std::printf("]\n");
    return 0;
  }
  if (command == "check") {
    size_t wrong = 0;
    for (const Candidate& candidate : Candidates()) wrong += !Check(candidate);
    std::printf("%zu candidates, %zu wrong\n", Candidates().size(), wrong);
    return wrong == 0 ? 0 : 1;
  }
  if (command == "run") {
    for (const Candidate& candidate : Candidates()) {
      if (name != candidate.name) continue;
      RunOn(candidate, RandomProblem(candidate.block_len, 1));
      return 0;
    }
    std::fprintf(stderr, "candidates: no candidate '%s'\n", name.c_str());
    return 1;
  }
  std::fprintf(stderr, "usage: candidates list | check | run NAME\n");
  return 1;
}

}  // namespace
}  // namespace arm64_w2

int main(int argc, char** argv) { return arm64_w2::Main(argc > 1 ? argv[1] : "", argc > 2 ? argv[2] : ""); }
