#pragma once
/// \file
/// Describes a config's behaviour in numbers that are comparable over providers. KernelScout's own feature
/// schemas read them.
///
/// The provider computes them once per family. NaN = unknown or meaningless for the config. Fields<Traits>
/// below defines each number.
#include <cstddef>
#include <limits>
#include <string_view>
#include <tuple>

#include <kscout/fields.h>

namespace kscout {

struct Traits {
  static constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
  /// Lower numbers of `algorithm` are those of a vendor's GEMM library.
  static constexpr double first_compiled_algorithm = 1000;

  double tile_m = unknown;
  double tile_n = unknown;
  double tile_k = unknown;
  double inner_m = unknown;
  double inner_n = unknown;
  double inner_k = unknown;
  double workers = unknown;
  double workers_m = unknown;
  double workers_n = unknown;
  double threads_per_worker = unknown;
  double workers_per_core = unknown;
  double stages = unknown;
  double split_k = unknown;
  double shared_bytes = unknown;
  double register_elements = unknown;
  double vector_elements = unknown;
  double alignment = unknown;
  double packs_a = unknown;
  double packs_b = unknown;
  double kind = unknown;
  double order = unknown;
  double prefetch = unknown;
  double persistent = unknown;
  double cluster = unknown;
  double cluster_m = unknown;
  double cluster_n = unknown;
  double swizzle = unknown;
  double algorithm = unknown;
  double variant = unknown;
  double suggestion = unknown;
  double listed = unknown;
};

template <>
struct Fields<Traits> {
  using T = Traits;
  static constexpr auto list = std::tuple{
      Field{"tile_m", &T::tile_m, "elements", "rows of C that one worker finishes before the next tile"},
      Field{"tile_n", &T::tile_n, "elements", "columns of C that one worker finishes before the next tile"},
      Field{"tile_k", &T::tile_k, "elements", "K that is staged at once"},
      Field{"inner_m", &T::inner_m, "elements", "rows of the register tile"},
      Field{"inner_n", &T::inner_n, "elements", "columns of the register tile"},
      Field{"inner_k", &T::inner_k, "elements", "K of one inner step"},
      Field{"workers", &T::workers, "1", "cores or blocks that can run at once; 0 = all of the device"},
      Field{"workers_m", &T::workers_m, "1", "rows of a fixed grid of workers; 0 = dynamic"},
      Field{"workers_n", &T::workers_n, "1", "columns of a fixed grid of workers; 0 = dynamic"},
      Field{"threads_per_worker", &T::threads_per_worker, "1", "threads of one worker"},
      Field{"workers_per_core", &T::workers_per_core, "1", "workers resident on one core"},
      Field{"stages", &T::stages, "1", "copies of the staged tiles"},
      Field{"split_k", &T::split_k, "1", "split-K slices, summed at the end"},
      Field{"shared_bytes", &T::shared_bytes, "bytes", "staged bytes of one worker"},
      Field{"register_elements", &T::register_elements, "elements", "accumulators of one register tile"},
      Field{"vector_elements", &T::vector_elements, "elements", "lanes of one load of A or B"},
      Field{"alignment", &T::alignment, "elements", "m, n and k must be multiples of this; 1 = any"},
      Field{"packs_a", &T::packs_a, "1", "1 when A is copied into tiles first"},
      Field{"packs_b", &T::packs_b, "1", "1 when B is copied into tiles first"},
      Field{"kind", &T::kind, "1", "0 tiled, 1 skinny (streams one operand), 2 small (no blocking)"},
      Field{"order", &T::order, "1", "outermost loop: 0 = m, 1 = n, 2 = k"},
      Field{"prefetch", &T::prefetch, "elements", "prefetch distance, 0 = none"},
      Field{"persistent", &T::persistent, "1", "1 when workers stay and take tiles"},
      Field{"cluster", &T::cluster, "1", "workers that share staged tiles"},
      Field{"swizzle", &T::swizzle, "1", "tiles of C walked together, for reuse in caches"},
      Field{"cluster_m", &T::cluster_m, "1", "rows of workers in a cluster"},
      Field{"cluster_n", &T::cluster_n, "1", "columns of workers in a cluster"},
      Field{"algorithm", &T::algorithm, "1",
            "which of its library's algorithms; numbers mean only \"the same\""},
      Field{"variant", &T::variant, "1", "an option within the algorithm"},
      Field{"suggestion", &T::suggestion, "1", "n: what the library names n-th for the problem; 0 = fixed"},
      Field{"listed", &T::listed, "1", "n: the library names it n-th for the problem; unknown = not asked"},
  };
};

}  // namespace kscout
