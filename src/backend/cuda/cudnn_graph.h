#pragma once
/// \file
/// Lists, checks and runs cuDNN's engine configs for one convolution, through its C backend API.
///
///     cudnn::ConvGraph graph(problem, cudnn::Target::gpu());
///     auto listed = graph.suggestions(CudnnMode::a);              // configs, best first
///     cudnn::EngineConfig config = graph.configure(named);        // throws unsupported: it cannot take it
///     cudnn::ConvPlan plan(std::move(graph), std::move(config));
///     plan.run({.in = in, .wei = wei, .out = out}, workspace, stream);
///
/// Without a GPU, a Target made of a description (Target::described) lists and checks; only plans need the
/// GPU. That takes cuDNN 9.8 or later.
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <kscout/conv_problem.h>
#include <kscout/launch.h>

#include "backend/cuda/cudnn_library.h"
#include "provider/cudnn/cudnn.h"

namespace kscout::cudnn {

/// A descriptor of the library; it keeps what it refers to alive.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(Kind kind);
  Descriptor(Descriptor&& other) noexcept : raw_(other.raw_) { other.raw_ = nullptr; }
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(raw_, other.raw_);
    return *this;
  }
  ~Descriptor();

  void* raw() const noexcept { return raw_; }
  void set(Attribute attribute, Type type, const void* values, std::int64_t count = 1);
  void set(Attribute attribute, std::int64_t value) { set(attribute, Type::int64, &value); }
  void set(Attribute attribute, const std::vector<std::int64_t>& values) {
    set(attribute, Type::int64, values.data(), static_cast<std::int64_t>(values.size()));
  }
  void set(Attribute attribute, const Descriptor& other) { set(attribute, Type::descriptor, &other.raw_); }
  void finalize(const char* what);
  std::int64_t number(Attribute attribute) const;
  /// Bits of an engine's notes.
  std::uint32_t notes(Attribute attribute, Type type) const;

 private:
  void* raw_ = nullptr;
};

/// Where a graph's plans would run: the open GPU, or a GPU that is only described.
class Target {
 public:
  /// The GPU that the calling thread has opened (open_module). Threads have handles of their own, which are
  /// reused.
  static Target gpu();
  /// A GPU that JSON describes (cudnnBackendDescriptor_t of the device's properties). Throws unsupported when
  /// this release cannot read it.
  static Target described(const std::string& json);

  void* handle() const noexcept { return handle_; }
  /// Null for the open GPU.
  const Descriptor* device() const noexcept { return device_ ? &*device_ : nullptr; }

 private:
  void* handle_ = nullptr;
  std::optional<Descriptor> device_;
};

/// A config that the library accepts for a graph's problem.
struct EngineConfig {
  CudnnConfig named;  ///< without a version
  Descriptor engine, config;
  std::int64_t workspace_bytes = 0;
  std::uint32_t notes = 0;     ///< kTensorCores, ...
  std::uint32_t behavior = 0;  ///< kCompilesAtRunTime

  bool compiles_at_run_time() const noexcept { return (behavior & kCompilesAtRunTime) != 0; }
};

/// Why a config may not compute convolutions of this type, whatever its speed: it would sum in a narrower
/// type than the accumulator, use TF32 for fp32, or need more workspace than kCudnnWorkspace. With
/// `deterministic`, also when two runs may give different bits. Empty when it may.
std::string numerical_refusal(const EngineConfig& config, DType dtype, bool deterministic);

/// Whether KSCOUT_CUDNN_DETERMINISTIC=1 asks for configs that give the same bits in every run.
bool deterministic_asked();

/// The operation graph of one convolution, and of the bias that its epilogue adds. Images lie in memory as
/// the problem's layout says, the filter as k [z] y x c/g; all tensors are aligned to 16 bytes.
class ConvGraph {
 public:
  /// Throws unsupported where the library computes no such convolution. `target` must outlive the graph.
  ConvGraph(const ConvProblem& problem, const Target& target);

  /// The number of engines that the release has for the direction; engine numbers are below it.
  std::int64_t engines() const { return graph_.number(Attribute::graph_engines); }
  /// What the library's heuristic lists for the problem, best first; an empty list where it has nothing.
  /// `unnamed` counts configs with knobs that have no axis, which are left out.
  std::vector<EngineConfig> suggestions(CudnnMode mode, std::size_t* unnamed = nullptr) const;
  /// The config with an engine and knobs. Throws unsupported when the library refuses it for the problem.
  EngineConfig configure(const CudnnConfig& named) const;

 private:
  Descriptor engine(std::int64_t index) const;
  static std::optional<EngineConfig> read(Descriptor config);

  const Target& target_;
  std::vector<Descriptor> parts_;
  Descriptor graph_;
};

/// A config built for the open GPU. Building may compile code (EngineConfig::compiles_at_run_time).
class ConvPlan {
 public:
  ConvPlan(const Target& target, EngineConfig config);

  std::size_t workspace_bytes() const noexcept { return static_cast<std::size_t>(workspace_bytes_); }
  const CudnnConfig& named() const noexcept { return config_.named; }
  /// Enqueues the convolution. Throws device_failure.
  void run(const ConvTensors& tensors, void* workspace, void* stream);

 private:
  EngineConfig config_;
  Descriptor plan_;
  std::int64_t workspace_bytes_ = 0;
  std::array<const void*, 5> last_{};  ///< pointers of `pack_`
  Descriptor pack_;
};

}  // namespace kscout::cudnn
