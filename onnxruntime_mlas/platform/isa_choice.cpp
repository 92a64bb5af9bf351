#include "onnxruntime_mlas/isa_choice.h"

#include <cstdlib>
#include <cstring>
#include <string>

namespace onnxruntime_mlas {
namespace {

// One row of the rule. Where no row fits a machine, its fastest ISA runs every M.
struct Rule {
  Isa fastest;    // of the machine; the choice names nothing that a machine with this one may lack
  CoreType core;  // kUnknown: every core that has no row of its own
  IsaChoice choice;
};

// MAC per cycle by static models at BlkLen 64 (bench/studies/arm64-w2.md), SDOT against SMMLA:
//   M = 1   N2 13.0 : 8.8, V2 25.9 : 17.7, Oryon 26.9 : 14.8. Half of SMMLA's products are of a copy of the row.
//   M = 2   N2 16.0 : 19.0, V2 32.0 : 37.9, Oryon 32.5 : 29.7
//   M = 4   N2 20.0 : 26.9, V2 40.0 : 53.9, Oryon 40.6 : 38.3
// Oryon issues SMMLA at half the rate of SDOT.
constexpr Rule kRules[] = {
    {Isa::kNeonI8mm, CoreType::kOryon, IsaChoice::Only(Isa::kNeonDotProd)},
    {Isa::kNeonI8mm, CoreType::kUnknown, {Isa::kNeonDotProd, Isa::kNeonI8mm, Isa::kNeonI8mm, 2}},
};

std::string IsaNames() {
  std::string names;
  for (const IsaInfo& info : AllIsas()) names += (names.empty() ? "" : ", ") + std::string(info.name);
  return names;
}

}  // namespace

IsaChoice DefaultIsas(Isa fastest, CoreType core) {
  for (const CoreType wanted : {core, CoreType::kUnknown}) {
    for (const Rule& rule : kRules) {
      if (rule.fastest == fastest && rule.core == wanted) return rule.choice;
    }
  }
  return IsaChoice::Only(fastest);
}

Isa FastestIsa(const CpuFeatures& cpu) {
  Isa fastest = Isa::kPortable;
  for (const IsaInfo& info : AllIsas()) {
    if (UnavailableReason(info.isa, cpu).empty()) fastest = info.isa;
  }
  return fastest;
}

Status SelectIsas(const char* requested, IsaChoice* choice) {
  const char* source = "isa";
  if (requested == nullptr || *requested == '\0') {
    requested = std::getenv("ORT_MLAS_ISA");
    source = "ORT_MLAS_ISA";
  }
  const CpuFeatures& cpu = HostCpuFeatures();
  if (requested == nullptr || *requested == '\0') {
    *choice = DefaultIsas(FastestIsa(cpu), cpu.core);
    return {};
  }
  for (const IsaInfo& info : AllIsas()) {
    if (std::strcmp(info.name, requested) != 0) continue;
    const std::string reason = UnavailableReason(info.isa, cpu);
    if (!reason.empty()) {
      return Status::Error(std::string(source) + "=" + requested + " can't run here: " + reason + "; unset it to let " +
                           "the fastest available ISA be chosen");
    }
    *choice = IsaChoice::Only(info.isa);
    return {};
  }
  return Status::Error(std::string(source) + "=" + requested + " names no ISA; the names are " + IsaNames());
}

}  // namespace onnxruntime_mlas
