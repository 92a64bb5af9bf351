// Times what calibrate_machine.h defines, and refuses results that no core can have.
#include "calibrate.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "calibrate_machine.h"
#include "onnxruntime_mlas/cpu.h"

namespace py = pybind11;

namespace onnxruntime_mlas::bindings {
namespace {

// Long against the clock's resolution and an interrupt, short against a frequency change.
constexpr double kPassSeconds = 1e-3;
constexpr int kPasses = 15;
// A disturbed measurement is repeated this often before it is refused.
constexpr int kAttempts = 8;
// Half the distance between two plausible rates is 6 % near 4 per cycle on x86-64, and 8 % near 6 on ARM64.
constexpr double kRateTolerance = 0.05;

double Seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// Shortest time of one call of run(iterations), per iteration.
template <class Run>
double BestSecondsPerIteration(const Run& run) {
  uint64_t iterations = 1024;
  for (;;) {
    const double start = Seconds();
    run(iterations);
    if (Seconds() - start >= kPassSeconds) break;
    iterations *= 2;
  }
  double best = std::numeric_limits<double>::infinity();
  for (int pass = 0; pass < kPasses; ++pass) {
    const double start = Seconds();
    run(iterations);
    best = std::min(best, Seconds() - start);
  }
  return best / static_cast<double>(iterations);
}

double MeasureClockHz() { return kChainLength / BestSecondsPerIteration(AddChain); }

const PeakLoop& FindLoop(const std::string& name) {
  std::string known;
  for (const PeakLoop& loop : PeakLoops()) {
    if (name == loop.name) return loop;
    known += (known.empty() ? "" : ", ") + std::string(loop.name);
  }
  throw py::value_error("unknown instruction '" + name + "'; known: " + known);
}

// Empty when `steps_per_cycle` is what a whole number of pipes can do, else what is wrong with it. A step is limited by
// the pipes that multiply or by all pipes that take its instructions; a half is a pipe of half the vector's width.
std::string ImplausibleReason(const PeakLoop& loop, double steps_per_cycle) {
  const unsigned instructions_per_step[] = {loop.multiplies, loop.instructions};
  for (const unsigned instructions : instructions_per_step) {
    const double per_cycle = steps_per_cycle * instructions;
    for (unsigned halves = 1; halves <= 2 * kMostPerCycle; ++halves) {
      // Halves above 1 occur for single instructions only; allowing them for sequences would allow almost any rate.
      if ((loop.instructions > 1 || !kHalvesAboveOne) && halves > 1 && halves % 2 != 0) continue;
      const double plausible = 0.5 * halves;
      if (std::abs(per_cycle / plausible - 1.0) <= kRateTolerance) return "";
    }
  }
  if (loop.instructions == 2 && loop.multiplies == 1) {
    // Additions that the scheduler sends to a pipe that multiplies take up to a third of its time (Zen 4: a quarter).
    for (unsigned pipes = 1; pipes <= kMostPerCycle; ++pipes) {
      const double share = steps_per_cycle / pipes;
      if (2.0 / 3.0 - kRateTolerance <= share && share <= 1.0) return "";
    }
  }
  char text[256];
  std::snprintf(
      text, sizeof(text),
      "%s: %.3f steps per cycle of the measured clock is impossible: no number of pipes up to %u gives it, so the "
      "peak or the clock was disturbed; stop other work on this machine and repeat",
      loop.name, steps_per_cycle, kMostPerCycle);
  return text;
}

void CheckPeak(const std::string& instruction, double ops_per_second, double clock_hz) {
  const PeakLoop& loop = FindLoop(instruction);
  if (!(ops_per_second > 0) || !(clock_hz > 0)) {
    throw py::value_error("ops_per_second and clock_hz must be positive");
  }
  const std::string reason = ImplausibleReason(loop, ops_per_second / loop.ops / clock_hz);
  if (!reason.empty()) throw std::runtime_error(reason);
}

double PeakOps(const std::string& instruction) {
  const PeakLoop& loop = FindLoop(instruction);
  const std::string missing = loop.missing(HostCpuFeatures());
  if (!missing.empty()) throw std::runtime_error(instruction + " can't run here: " + missing);
  const py::gil_scoped_release release;
  std::string reason;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    // The clock on both sides of the peak, so that a change of frequency between them shows.
    const double clock_before = MeasureClockHz();
    const double step_seconds = BestSecondsPerIteration(loop.run) / loop.steps;
    const double clock = std::max(clock_before, MeasureClockHz());
    reason = ImplausibleReason(loop, 1.0 / (step_seconds * clock));
    if (reason.empty()) return loop.ops / step_seconds;
  }
  throw std::runtime_error(reason);
}

py::list PeakInstructions() {
  py::list list;
  for (const PeakLoop& loop : PeakLoops()) {
    py::dict row;
    row["name"] = loop.name;
    row["description"] = loop.description;
    row["ops"] = loop.ops;
    row["unavailable_reason"] = loop.missing(HostCpuFeatures());
    list.append(row);
  }
  return list;
}

double ReadBandwidth(size_t bytes) {
  constexpr size_t kPage = size_t{2} << 20;  // of a huge page, so that address translation costs as little as it can
  constexpr size_t kLeast = 4096;
  constexpr double kSecondsPerStreamCount = 0.25;
  if (bytes < kLeast) throw py::value_error("bytes must be at least 4096");
  const size_t allocated = (bytes + kPage - 1) / kPage * kPage;
  struct Delete {
    void operator()(std::byte* data) const { ::operator delete(data, std::align_val_t{kPage}); }
  };
  const std::unique_ptr<std::byte, Delete> buffer(
      static_cast<std::byte*>(::operator new(allocated, std::align_val_t{kPage})));
  const py::gil_scoped_release release;
#if defined(__linux__)
  (void)madvise(buffer.get(), allocated, MADV_HUGEPAGE);  // without effect where huge pages are off
#endif
  std::fill_n(buffer.get(), allocated, std::byte{1});

  double best = 0;
  for (const size_t streams : {size_t{1}, size_t{2}, size_t{4}}) {
    const size_t part = bytes / streams / kReadGroup * kReadGroup;
    const size_t passes = std::max<size_t>(1, (size_t{1} << 20) / bytes);  // a pass much longer than a clock reading
    const double end = Seconds() + kSecondsPerStreamCount;
    do {
      const double start = Seconds();
      for (size_t pass = 0; pass < passes; ++pass) ReadStreams(buffer.get(), part, streams);
      best = std::max(best, static_cast<double>(part * streams * passes) / (Seconds() - start));
    } while (Seconds() < end);
  }
  return best;
}

}  // namespace

void BindCalibration(py::module_& module) {
  module.def(
      "clock_hz",
      [] {
        const py::gil_scoped_release release;
        return MeasureClockHz();
      },
      "Clock of this core now, from a chain of dependent additions.");
  module.def("peak_instructions", &PeakInstructions,
             "Instructions that peak_ops knows: name, description, ops per step, unavailable_reason.");
  module.def("peak_ops", &PeakOps, py::arg("instruction"),
             "Multiplications and additions per second that one core does with nothing but `instruction`.\n\n"
             "ValueError for an unknown name; RuntimeError when it can't run here or the result is implausible.");
  module.def("check_peak", &CheckPeak, py::arg("instruction"), py::arg("ops_per_second"), py::arg("clock_hz"),
             "RuntimeError when no whole number of pipes gives this peak at this clock.");
  module.def("read_bandwidth", &ReadBandwidth, py::arg("bytes"),
             "Bytes per second that one core reads from a buffer of `bytes` bytes, best of several passes.");
}

}  // namespace onnxruntime_mlas::bindings
