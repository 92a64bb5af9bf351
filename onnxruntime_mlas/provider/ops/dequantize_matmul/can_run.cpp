// Which pairs are taken. A malformed pair is declined: the CPU provider checks the shapes of DequantizeLinear's inputs.
#include <cmath>
#include <cstdio>
#include <limits>

#include "provider/core/element_types.h"
#include "provider/core/graph.h"
#include "provider/ops/dequantize_matmul/dequantize_matmul.h"
#include "provider/ops/dequantize_matmul/pair.h"

namespace onnxruntime_mlas::provider::dequantize_matmul {
namespace {

using Shape = std::vector<int64_t>;

// Bounds n * k with room for what a packed element may take.
constexpr int64_t kMaxElements = std::numeric_limits<int64_t>::max() / 64;

std::string Text(float value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%g", static_cast<double>(value));
  return text;
}

std::string OfWeight(const Pair& pair) { return "the dequantised constant '" + pair.weight.name + "'"; }

// Each function below returns why the pair can't be run, or nothing.

std::string GraphReason(const GraphIndex& graph, const Pair& pair) {
  // All that lies between DequantizeLinear and the product exists in the product alone.
  for (size_t i = 0; i < pair.group.main; ++i) {
    const std::string value = FirstOutputName(pair.group.nodes[i]);
    if (graph.Uses(value) != 1) {
      return "'" + value + "' has " + std::to_string(graph.Uses(value)) +
             " uses, graph outputs included, so that it has to be computed anyway";
    }
  }
  return {};
}

std::string ConstantsReason(const Pair& pair) {
  if (!pair.weight.constant) return "what is dequantised, '" + pair.weight.name + "', is not constant";
  if (!CodeTypeOf(pair.weight.type)) {
    return OfWeight(pair) + " holds other elements than int2, uint2, int4, uint4, int8 or uint8";
  }
  if (!pair.scale.constant) return "the scale '" + pair.scale.name + "' is not constant";
  if (pair.zero_point.present() && !pair.zero_point.constant) {
    return "the zero point '" + pair.zero_point.name + "' is not constant";
  }
  if (pair.zero_point.present() && pair.zero_point.type != pair.weight.type) {
    return "the zero point '" + pair.zero_point.name + "' and " + OfWeight(pair) + " are of different types";
  }
  return {};
}

std::string TypesReason(const Pair& pair) {
  if (!ElementTypeOf(pair.a.type)) return "input A is not a tensor of float, float16 or bfloat16";
  if (pair.dequantized.type != pair.scale.type) {
    return "DequantizeLinear's output and the scale '" + pair.scale.name + "' are of different types";
  }
  if (pair.dequantized.type != pair.a.type) return "input A and DequantizeLinear's output are of different types";
  return {};
}

std::string ShapesReason(const Pair& pair) {
  const Shape& weight = pair.weight.shape;
  if (weight.size() != 2) return OfWeight(pair) + " has shape " + ShapeText(weight) + ", not two dims";
  const int64_t n = pair.n();
  const int64_t k = pair.k();
  if (n < 0 || k < 0) return OfWeight(pair) + " has shape " + ShapeText(weight) + ", which is negative";
  if (k > kMaxElements || n > kMaxElements / (k + int64_t{qnbit::kBlockLengths[0]})) {
    return OfWeight(pair) + " has shape " + ShapeText(weight) + ", more weights than can be addressed";
  }
  const Shape& scale = pair.scale.shape;
  const Shape& zero_point = pair.zero_point.shape;
  if (pair.zero_point.present() && zero_point != scale && !(IsOne(zero_point) && IsOne(scale))) {
    return "the zero point '" + pair.zero_point.name + "' has shape " + ShapeText(zero_point) + " and the scale " +
           ShapeText(scale);
  }
  if (pair.block_size < 0) return "block_size = " + std::to_string(pair.block_size) + " is negative";
  const Granularity granularity = GranularityOf(pair);
  if (granularity == Granularity::kTensor) return {};
  const bool along_k = pair.axis == pair.k_axis();
  if (granularity == Granularity::kColumn) {
    if (along_k && n != 1) return "its scales differ along K, where the kernels have them per column or per block of K";
    if (scale == Shape{n}) return {};
    return "the scale has shape " + ShapeText(scale) + " where " + ShapeText({n}) + " is needed";
  }
  if (!along_k) return "its blocks lie along N, where the kernels have them along K";
  Shape needed = weight;
  needed[static_cast<size_t>(pair.axis)] = k / pair.block_size + (k % pair.block_size != 0);
  if (scale != needed) {
    return "the scale has shape " + ShapeText(scale) + " where " + ShapeText(needed) + " is needed";
  }
  if (pair.block_size < k && LongestBlockWithin(pair.block_size) == 0) {
    return "block_size = " + std::to_string(pair.block_size) + " is not a multiple of 16";
  }
  return {};
}

std::string ProductReason(const Pair& pair) {
  if (!pair.permutation.empty() && pair.permutation != Shape{1, 0}) {
    return "Transpose has perm = " + ShapeText(pair.permutation) + " where [1,0] is needed";
  }
  if (pair.transpose_a) return "Gemm has transA = 1";
  if (pair.alpha != 1.0f) return "Gemm has alpha = " + Text(pair.alpha) + ", not 1";
  const Value& bias = pair.bias;
  if (!bias.present()) return {};
  if (pair.beta != 1.0f) return "Gemm has beta = " + Text(pair.beta) + ", not 1";
  if (!bias.constant) return "Gemm's input C ('" + bias.name + "') is not constant";
  if (bias.type != pair.a.type) return "Gemm's input C ('" + bias.name + "') and A are of different types";
  const Shape& shape = bias.shape;
  const bool row = shape == Shape{pair.n()} || shape == Shape{1, pair.n()};
  const bool one = shape.empty() || shape == Shape{1} || shape == Shape{1, 1};
  if (!row && !one) {
    return "Gemm's input C ('" + bias.name + "') has shape " + ShapeText(shape) + " where " + ShapeText({pair.n()}) +
           " is needed";
  }
  return {};
}

// A weight beyond the largest number of a 16-bit type is infinite after DequantizeLinear, but not in the kernels, which
// multiply codes and scales in float32.
std::string OverflowReason(const Pair& pair) {
  const qnbit::ElementType type = RequireElementType(pair.scale.type);
  if (type == qnbit::ElementType::kFloat32) return {};
  const CodeType codes = RequireCodeType(pair.weight.type);
  const bool shifted = pair.zero_point.present() || !codes.is_signed;
  const auto largest_code = static_cast<float>(shifted ? (1u << codes.bits) - 1 : 1u << (codes.bits - 1));
  const float largest_scale = LargestOf(type) / largest_code;
  for (const float scale : ReadFloats(pair, "scale", pair.scale)) {
    // Written so that NaN counts as too large.
    if (std::abs(scale) <= largest_scale) continue;
    return "a scale of " + Text(scale) + " makes weights that " + TypeName(pair.scale.type) + " may not hold";
  }
  return {};
}

// The CPU provider rewrites such graphs, after this provider was asked, to multiply integers by integers.
std::string IntegerProductReason(const GraphIndex& graph, const Pair& pair) {
  const Ort::ConstNode source = graph.Producer(pair.a.name);
  if (source == nullptr || source.GetOperatorType() != "DequantizeLinear") return {};
  const auto a_type = CodeTypeOf(ReadValue(source.GetInputs(), 0).type);
  const bool bytes = a_type && a_type->bits == 8 && RequireCodeType(pair.weight.type).bits == 8;
  if (!bytes || pair.block_size != 0) return {};
  return "input A is dequantised from 8 bits too, and the CPU provider multiplies such operands as integers";
}

std::string DeclineReason(const GraphIndex& graph, const Pair& pair) {
  for (const auto& check : {ConstantsReason, TypesReason, ShapesReason, ProductReason}) {
    std::string reason = check(pair);
    if (!reason.empty()) return reason;
  }
  std::string reason = GraphReason(graph, pair);
  if (reason.empty()) reason = IntegerProductReason(graph, pair);
  if (reason.empty()) reason = OverflowReason(pair);
  return reason;
}

}  // namespace

Decision CanRun(const GraphIndex& graph, const NodeGroup& group, const Options& options) {
  const Pair pair = ReadPair(group);
  Decision decision;
  decision.reason = DeclineReason(graph, pair);
  decision.take = decision.reason.empty();
  decision.drop_initializers = !pair.a.constant;  // a constant A is read at run time
  decision.fields = ReportFields(pair, options, nullptr, {}, 0);
  return decision;
}

}  // namespace onnxruntime_mlas::provider::dequantize_matmul
