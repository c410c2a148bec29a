#include "provider/cudnn/cudnn.h"

#include <algorithm>

#include <kscout/conv_problem.h>

#include "core/fail.h"
#include "provider/name_reader.h"
#include "provider/signature_rules.h"
#include "provider/typed_config.h"

namespace kscout {

namespace {

constexpr std::string_view kCudnnModeWords[] = {"a", "b", "fallback"};
/// Knobs in names.
constexpr std::string_view kCudnnKnobWords[kCudnnKnobs] = {
    "split_k",  "tile_size",  "use_tex",        "kblock",      "ldga",     "split_k_buf",
    "tilek",    "stages",     "reduction_mode", "split_k_slc", "idx_mode", "ldgc",
    "specfilt", "kernel_cfg", "workspace",      "cga_m",       "cga_n"};

constexpr std::string_view kKnobHelp = "the library's value of this knob + 1; 0 = not given";
constexpr std::size_t kFirstKnob = 4;

constexpr Axis kCudnnAxes[] = {
    {"version", "1", "release of the library that defines the numbers; 0 = any installed release"},
    {"suggestion", "1",
     "n: the n-th suggestion of the library's own heuristic for the problem; with an engine: the place of "
     "that "
     "engine in its list; 0: only the engine"},
    {"mode", "1", "the heuristic that suggests", kCudnnModeWords},
    {"engine", "1", "the library's number of the engine + 1; 0 = a suggestion that does not name it"},
    {"knob_split_k", "1", kKnobHelp, {}, true},
    {"knob_tile_size", "1", kKnobHelp},
    {"knob_use_tex", "1", kKnobHelp},
    {"knob_kblock", "1", kKnobHelp},
    {"knob_ldga", "1", kKnobHelp},
    {"knob_split_k_buf", "1", kKnobHelp, {}, true},
    {"knob_tilek", "1", kKnobHelp},
    {"knob_stages", "1", kKnobHelp},
    {"knob_reduction_mode", "1", kKnobHelp, {}, true},
    {"knob_split_k_slc", "1", kKnobHelp, {}, true},
    {"knob_idx_mode", "1", kKnobHelp},
    {"knob_ldgc", "1", kKnobHelp},
    {"knob_specfilt", "1", kKnobHelp},
    {"knob_kernel_cfg", "1", kKnobHelp},
    {"knob_workspace", "1", kKnobHelp},
    {"knob_cga_m", "1", kKnobHelp},
    {"knob_cga_n", "1", kKnobHelp},
};
static_assert(std::size(kCudnnAxes) == kFirstKnob + kCudnnKnobs);

constexpr ConfigSpace kCudnnSpaces[] = {{"cudnn", Op::conv_fwd, kCudnnAxes},
                                        {"cudnn", Op::conv_bwd_data, kCudnnAxes},
                                        {"cudnn", Op::conv_bwd_weight, kCudnnAxes}};

void read_cudnn_engine(NameReader& in, CudnnConfig& c) {
  in.literal("e");
  c.engine = in.number("engine") + 1;
  std::size_t next = 0;
  while (in.optional("_")) {
    const auto knob = static_cast<std::size_t>(in.word("knob", kCudnnKnobWords));
    if (knob < next) in.bad("knobs in the order of the axes, each at most once,");
    next = knob + 1;
    c.knob[knob] = in.number(kCudnnKnobWords[knob]) + 1;
  }
}

void read_cudnn_suggestion(NameReader& in, CudnnConfig& c) {
  c.suggestion = in.number("suggestion");
  if (c.suggestion == 0) in.bad("a suggestion above 0");
  if (!in.optional("_")) return;
  if (in.rest.starts_with('e')) return read_cudnn_engine(in, c);
  c.mode = static_cast<CudnnMode>(in.word("mode", kCudnnModeWords));
  if (c.mode == CudnnMode::a) in.bad("mode b or fallback; 'a' is left out");
}

class CudnnProvider final : public Provider {
 public:
  std::string_view name() const noexcept override { return "cudnn"; }
  std::string_view help() const noexcept override {
    return "convolutions: engine configs of NVIDIA's cuDNN, run by backend cuda";
  }
  bool built_in() const noexcept override { return true; }
  bool runs_on(const Device& device) const noexcept override {
    return device.kind == DeviceKind::gpu && device.vendor == "NVIDIA";
  }
  bool library_decides() const noexcept override { return true; }
  std::span<const Op> ops() const noexcept override { return kDirections; }
  const ConfigSpace& space(Op op) const override {
    if (!is_direction(op))
      fail(Errc::unsupported, "cudnn has no kernels for {}; it has {}", word(op),
           fmt::join(kDirectionWords, ", "));
    return cudnn_space(op);
  }

  std::string print(const Signature& signature, const KernelConfig& config) const override {
    check_signature(*this, signature);
    const CudnnConfig c = CudnnConfig::from(config);
    std::string text = fmt::format("cudnn_{}_v{}__", conv_signature_text(signature), c.version);
    if (c.suggestion > 0) text += fmt::format("suggestion{}", c.suggestion);
    if (!c.is_named())
      return c.mode == CudnnMode::a ? text : text + fmt::format("_{}", kCudnnModeWords[config[2]]);
    if (c.suggestion > 0) text += '_';
    text += fmt::format("e{}", c.engine - 1);
    for (std::size_t i = 0; i < kCudnnKnobs; ++i) {
      if (c.knob[i] > 0) text += fmt::format("_{}{}", kCudnnKnobWords[i], c.knob[i] - 1);
    }
    return text;
  }

  NamedConfig parse(std::string_view name) const override {
    NameReader in("cudnn", name);
    in.literal("cudnn_");
    const Signature signature = read_conv_signature(in);
    in.check_signature(cudnn_space(signature.op), signature);
    CudnnConfig c;
    in.literal("_v");
    c.version = in.number("version");
    in.literal("__");
    if (in.optional("suggestion")) {
      read_cudnn_suggestion(in, c);
    } else {
      read_cudnn_engine(in, c);
    }
    if (!in.rest.empty()) in.bad("the end");
    return {signature, c.kernel_config(signature.op)};
  }

  Traits traits(const Signature&, const KernelConfig& config, const Device&) const override {
    const CudnnConfig c = CudnnConfig::from(config);
    Traits t;
    t.workers = t.workers_m = t.workers_n = 0;
    t.packs_a = t.packs_b = 0;
    t.kind = 0;
    // Only the first list is asked about a problem that is decided anew (cudnn_suggestions).
    if (c.mode == CudnnMode::a) {
      t.suggestion = c.is_named() ? 0 : c.suggestion;
      if (c.suggestion > 0) t.listed = c.suggestion;
    }
    if (!c.is_named()) return t;  // the library may suggest a different engine for each problem
    // Knob values number the engine's own tiles, stages and clusters: their sizes are unknown.
    t.algorithm = c.engine - 1;
    t.variant = c.knob[1] > 0 ? c.knob[1] - 1 : Traits::unknown;
    return t;
  }
};

}  // namespace

const ConfigSpace& cudnn_space(Op op) noexcept { return kCudnnSpaces[op == Op::gemm ? 0 : int(op) - 1]; }

const Provider& cudnn_provider() {
  static const CudnnProvider provider;
  return provider;
}

std::size_t cudnn_knob(std::int32_t type) noexcept {
  const auto found = std::ranges::find(kCudnnKnobTypes, type);
  return static_cast<std::size_t>(found - kCudnnKnobTypes.begin());
}

CudnnConfig CudnnConfig::from(const KernelConfig& config) {
  const ConfigSpace& space = cudnn_space(config.space ? config.space->op : Op::conv_fwd);
  if (config.space != &space) {
    fail(Errc::invalid_argument, "a config of {} is not one of cudnn {}",
         config.space ? config.space->provider : "no space", word(space.op));
  }
  CudnnConfig c;
  c.version = axis_value(config, 0, false);
  c.suggestion = axis_value(config, 1, false);
  c.mode = static_cast<CudnnMode>(axis_value(config, 2, false));
  c.engine = axis_value(config, 3, false);
  for (std::size_t i = 0; i < kCudnnKnobs; ++i) c.knob[i] = axis_value(config, kFirstKnob + i, false);
  if (c.suggestion == 0 && !c.is_named())
    fail(Errc::invalid_argument,
         "cudnn {}: a config has a suggestion, an engine, or both (suggestion={}, engine={})", word(space.op),
         c.suggestion, c.engine);
  if (c.is_named() && c.mode != CudnnMode::a)
    fail(Errc::invalid_argument, "cudnn {}: the place of an engine is that in the list of mode a, not {}",
         word(space.op), kCudnnModeWords[config[2]]);
  return c;
}

KernelConfig CudnnConfig::kernel_config(Op op) const {
  KernelConfig config(cudnn_space(op));
  config[0] = version;
  config[1] = suggestion;
  config[2] = static_cast<std::int32_t>(mode);
  config[3] = engine;
  for (std::size_t i = 0; i < kCudnnKnobs; ++i) config[kFirstKnob + i] = knob[i];
  return config;
}

}  // namespace kscout
