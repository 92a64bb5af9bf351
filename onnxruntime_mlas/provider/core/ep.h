// The provider of one session.
#pragma once

#include <span>

#include "provider/core/options.h"
#include "provider/core/ort.h"
#include "provider/core/report.h"

namespace onnxruntime_mlas::provider {

class Ep : public OrtEp {
 public:
  explicit Ep(Options options);

 private:
  static const char* ORT_API_CALL GetNameImpl(const OrtEp* ep) noexcept;
  static OrtStatus* ORT_API_CALL GetCapabilityImpl(OrtEp* ep, const OrtGraph* graph,
                                                   OrtEpGraphSupportInfo* support) noexcept;
  static OrtStatus* ORT_API_CALL CompileImpl(OrtEp* ep, const OrtGraph** graphs, const OrtNode** fused_nodes,
                                             size_t count, OrtNodeComputeInfo** node_compute_infos,
                                             OrtNode** ep_context_nodes) noexcept;
  static void ORT_API_CALL ReleaseNodeComputeInfosImpl(OrtEp* ep, OrtNodeComputeInfo** node_compute_infos,
                                                       size_t count) noexcept;

  void ClaimNodes(Ort::ConstGraph graph, OrtEpGraphSupportInfo* support);              // capability.cpp
  OrtNodeComputeInfo* CompileGraph(Ort::ConstGraph graph, Ort::ConstNode fused_node);  // compile.cpp

  void WriteContext(Ort::ConstGraph graph, std::span<const OrtNode*> fused_nodes,
                    std::span<OrtNodeComputeInfo*> node_compute_infos, OrtNode** ep_context_nodes);  // compile.cpp

  unsigned context_files_ = 0;  // written by this session
  Options options_;
  Report report_;
};

}  // namespace onnxruntime_mlas::provider
