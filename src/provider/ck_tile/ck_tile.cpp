#include "provider/ck_tile/ck_tile.h"

#include <algorithm>
#include <array>

#include "core/fail.h"
#include "core/names.h"

namespace kscout {
namespace {

constexpr std::string_view kCkGemmStreamK[] = {"off", "atomic", "linear", "tree"};

constexpr Axis kCkGemmAxes[] = {
    {"tile_m", "elements", "rows of C that one work-group computes"},
    {"tile_n", "elements", "columns of C that one work-group computes"},
    {"tile_k", "elements", "K that is staged in LDS at once"},
    {"warp_m", "waves", "waves of a work-group along M"},
    {"warp_n", "waves", "waves of a work-group along N"},
    {"warp_k", "waves", "waves of a work-group along K"},
    {"warp_tile_m", "elements", "rows of one matrix instruction"},
    {"warp_tile_n", "elements", "columns of one matrix instruction"},
    {"warp_tile_k", "elements", "K of one matrix instruction"},
    {"pipeline", "1", "how loads and arithmetic overlap", ck_tile::kGemmPipelineWords},
    {"scheduler", "1", "whether waves or instructions interleave", ck_tile::kSchedulerWords},
    {"epilogue", "1", "how C leaves the registers", ck_tile::kEpilogueWords},
    {"pad_m", "1", "1 when M may leave a tail"},
    {"pad_n", "1", "1 when N may leave a tail"},
    {"pad_k", "1", "1 when K may leave a tail"},
    {"persistent", "1", "1 when work-groups stay and take tiles"},
    {"vec_a", "elements", "fixed vector width of loads of A; 0 = native"},
    {"vec_b", "elements", "fixed vector width of loads of B; 0 = native"},
    {"vec_c", "elements", "fixed vector width of stores of C; 0 = native"},
    {"split_k", "1", "split-K slices, summed at the end; 1 = none"},
    {"preshuffle", "1", "1 when B is stored in the order of the instructions"},
    {"stream_k", "1", "whether work-groups share tiles along K, and how their partial sums are reduced",
     kCkGemmStreamK},
};
static_assert(std::size(kCkGemmAxes) == static_cast<std::size_t>(CkGemmAxis::count));

double known_value(std::int32_t value) { return value == KernelConfig::unknown ? Traits::unknown : value; }

bool is_word(const KernelConfig& config, CkGemmAxis axis, std::span<const std::string_view> words) {
  const auto position = static_cast<std::size_t>(axis);
  return find_word(axis_value_text(kCkGemmAxes[position], config[position]), words).has_value();
}

class CkTile final : public Provider {
 public:
  std::string_view name() const noexcept override { return "ck_tile"; }
  std::string_view help() const noexcept override {
    return "AMD CK Tile kernels: GEMMs and grouped convolutions (described, not executed here)";
  }
  bool runs_on(const Device& device) const noexcept override {
    return device.kind == DeviceKind::gpu && device.vendor == "AMD";
  }
  std::span<const Op> ops() const noexcept override {
    static constexpr std::array kOps = {Op::gemm, Op::conv_fwd, Op::conv_bwd_data, Op::conv_bwd_weight};
    return kOps;
  }
  const ConfigSpace& space(Op op) const override {
    return op == Op::gemm ? ck_tile_gemm_space : ck_tile_conv_space(op);
  }

  std::string print(const Signature& signature, const KernelConfig& config) const override {
    return signature.op == Op::gemm ? print_ck_tile_gemm(signature, config)
                                    : print_ck_tile_conv(signature, config);
  }
  NamedConfig parse(std::string_view text) const override {
    return is_ck_tile_conv_name(text) ? parse_ck_tile_conv(text) : parse_ck_tile_gemm(text);
  }

  Traits traits(const Signature& signature, const KernelConfig& config, const Device& device) const override {
    return signature.op == Op::gemm ? gemm_traits(signature, config, device)
                                    : ck_tile_conv_traits(signature, config, device);
  }

  KernelConfig canonical(const KernelConfig& config) const override {
    const ConfigSpace& space = *config.space;
    const std::size_t pipeline = space.axis_index("pipeline");
    KernelConfig runs = config;
    if (axis_value_text(space.axes[pipeline], config[pipeline]) == "mem") {
      for (const std::string_view pad : {"pad_m", "pad_n", "pad_k"}) {
        std::int32_t& value = runs[space.axis_index(pad)];
        // Short names state no pads: theirs stay unknown, so that the config keeps its name.
        if (value != KernelConfig::unknown) value = 1;
      }
    }
    return runs;
  }

 private:
  static Traits gemm_traits(const Signature& signature, const KernelConfig& config, const Device& device) {
    const auto at = [&](CkGemmAxis axis) { return known_value(config[static_cast<std::size_t>(axis)]); };
    const double tile_m = at(CkGemmAxis::tile_m), tile_n = at(CkGemmAxis::tile_n),
                 tile_k = at(CkGemmAxis::tile_k);
    const double bytes_a = bytes_per_element(signature.dtype_a),
                 bytes_b = bytes_per_element(signature.dtype_b);
    const double stages = is_word(config, CkGemmAxis::pipeline, ck_tile::kDoubleBuffered) ? 2 : 1;
    const double native_vector = 16 / std::max(bytes_a, bytes_b);  // a load moves 16 bytes
    const double fixed_vector = at(CkGemmAxis::vec_a);
    Traits traits;
    traits.tile_m = tile_m;
    traits.tile_n = tile_n;
    traits.tile_k = tile_k;
    traits.inner_m = at(CkGemmAxis::warp_tile_m);
    traits.inner_n = at(CkGemmAxis::warp_tile_n);
    traits.inner_k = at(CkGemmAxis::warp_tile_k);
    traits.workers = 0;
    traits.workers_m = 0;
    traits.workers_n = 0;
    traits.threads_per_worker =
        device.wavefront_size * at(CkGemmAxis::warp_m) * at(CkGemmAxis::warp_n) * at(CkGemmAxis::warp_k);
    traits.workers_per_core = is_word(config, CkGemmAxis::pipeline, ck_tile::kAlone) || stages == 2 ? 1 : 2;
    traits.stages = stages;
    traits.split_k = at(CkGemmAxis::split_k);
    traits.shared_bytes = stages * tile_k * (tile_m * bytes_a + tile_n * bytes_b);
    // Elements of one wave.
    traits.register_elements = tile_m * tile_n / (at(CkGemmAxis::warp_m) * at(CkGemmAxis::warp_n));
    traits.vector_elements = fixed_vector > 0 ? fixed_vector : native_vector;
    traits.alignment = traits.vector_elements;
    traits.packs_a = 0;
    traits.packs_b = at(CkGemmAxis::preshuffle);
    traits.kind = 0;
    traits.persistent = at(CkGemmAxis::persistent);
    traits.cluster = 1;
    return traits;
  }
};

}  // namespace

const CkHardwareConstant& find_ck_hardware(std::string_view name) {
  std::array<std::string_view, kCkHardware.size()> names;
  std::ranges::transform(kCkHardware, names.begin(), &CkHardwareConstant::name);
  return kCkHardware[index_of_word("hardware constant", name, names)];
}

constinit const ConfigSpace ck_tile_gemm_space{"ck_tile", Op::gemm, kCkGemmAxes};

const Provider& ck_tile_provider() {
  static const CkTile instance;
  return instance;
}

}  // namespace kscout
