#pragma once
/// \file
/// Computes a convolution with oneDNN, in fp32, with images channels-last and the filter in the format that
/// oneDNN chooses.
///
///     OneDnnConv peer(problem, {.in = in, .wei = wei, .out = out});
///     peer.convert();   // the filter into oneDNN's format; of conv_bwd_weight: the result back
///     peer.compute();   // the kernel alone
///     peer.both();      // from plain operands to a plain result
#include <optional>
#include <string>

#include <dnnl.hpp>

#include <kscout/backend.h>

namespace kscout::bench {

class OneDnnConv {
 public:
  /// The tensors must outlive the object. Throws dnnl::error when oneDNN lacks the convolution.
  OneDnnConv(const ConvProblem& problem, const ConvTensors& tensors);

  void compute();
  void convert();  ///< does nothing when oneDNN uses the plain format
  void both();
  bool converts() const noexcept { return conversion_.has_value(); }
  /// The kernel's name as oneDNN prints it: "jit:avx2", "gemm:jit", "ref:any".
  const std::string& implementation() const noexcept { return implementation_; }

 private:
  template <class Description>
  void make(const Description& description);

  Op op_;
  dnnl::engine engine_;
  dnnl::stream stream_;
  dnnl::memory in_, plain_, wei_, out_;  ///< wei_: the filter in oneDNN's format, maybe plain_ itself
  dnnl::primitive kernel_;
  std::optional<dnnl::reorder> conversion_;
  std::string implementation_;
};

}  // namespace kscout::bench
