#include "backend/cuda/harvest.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <unordered_set>

#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/matmul_launch.h"
#include "core/fail.h"
#include "core/hash.h"
#include "core/indexing.h"
#include "family/family_file.h"
#include "family/legality.h"
#include "provider/cudnn/cudnn.h"

namespace kscout {

namespace {

using namespace cuda;

constexpr std::size_t kChecked = 6;  // number of problems that a neighbour is tested on
constexpr std::int32_t kSplits[] = {1, 2, 3, 4, 6, 8, 12, 16};

/// Collects the algorithms of one signature.
class Harvester {
 public:
  Harvester(const std::vector<Problem>& problems, const HarvestOptions& options)
      : problems_(problems), options_(options) {
    for (const Problem& problem : problems_) shapes_.push_back(shape_of(problem.gemm()));
    const std::size_t step = std::max<std::size_t>(1, shapes_.size() / kChecked);
    for (std::size_t i = 0; i < shapes_.size() && shown_.size() < kChecked; i += step) shown_.push_back(i);
  }

  Harvest run() {
    found_.signature = signature_of(problems_.front());
    found_.problems = problems_.size();
    ask_heuristic();
    if (options_.widen > 0) widen();
    return std::move(found_);
  }

 private:
  void ask_heuristic() {
    std::vector<CublasLtConfig> list(static_cast<std::size_t>(options_.suggestions));
    for (const MatmulShape& shape : shapes_) {
      std::int32_t count = 0;
      const CallStatus answer =
          module_.suggest(shape, kCublasLtWorkspace, list.data(), options_.suggestions, &count);
      if (answer == CallStatus::unsupported) continue;
      cuda::check(module_, answer);
      for (const CublasLtConfig& one : std::span(list).first(static_cast<std::size_t>(count))) {
        if (!add(one)) continue;
        found_.suggested.push_back(one.kernel_config());
        seeds_.push_back(one);
      }
    }
    if (seeds_.empty()) {
      fail(Errc::unsupported, "cuBLASLt suggests no algorithm for any of {} problems like {}",
           problems_.size(), print(problems_.front()));
    }
  }

  void widen() {
    std::vector<CublasLtConfig> candidates;
    std::int32_t ids[256];
    std::int32_t count = 0;
    cuda::check(module_, module_.algorithm_ids(shapes_.front(), ids, 256, &count));
    for (const std::int32_t id : std::span(ids, static_cast<std::size_t>(count))) {
      AlgorithmRanges ranges;
      if (module_.ranges(shapes_.front(), id, &ranges) != CallStatus::done) continue;
      bool suggested = false;
      for (const CublasLtConfig& seed : seeds_) {
        if (seed.algorithm != id) continue;
        suggested = true;
        add_neighbours(seed, ranges, candidates);
      }
      if (!suggested) add_stranger(id, ranges, candidates);
    }
    std::erase_if(candidates, [&](const CublasLtConfig& one) {
      const KernelConfig config = one.kernel_config();
      return !legal_refusal(found_.signature, config, cuda_backend().device()).empty();
    });
    shuffle(candidates);
    for (const CublasLtConfig& one : candidates) {
      if (found_.widened.size() == options_.widen) break;
      if (!add(one)) continue;
      if (accepted(one)) {
        found_.widened.push_back(one.kernel_config());
      } else {
        ++found_.refused;
      }
    }
  }

  /// Adds all algorithms that differ from the seed in one attribute.
  static void add_neighbours(const CublasLtConfig& seed, const AlgorithmRanges& ranges,
                             std::vector<CublasLtConfig>& candidates) {
    const auto with = [&](auto&& change) {
      CublasLtConfig other = seed;
      change(other);
      candidates.push_back(other);
    };
    for (const auto& tile : std::span(ranges.tiles, static_cast<std::size_t>(ranges.tile_count)))
      with([&](CublasLtConfig& a) { a.tile_m = tile.first, a.tile_n = tile.second; });
    for (const auto& stage : std::span(ranges.stages, static_cast<std::size_t>(ranges.stage_count)))
      with([&](CublasLtConfig& a) { a.tile_k = stage.first, a.stages = stage.second; });
    for (const auto& cluster : std::span(ranges.clusters, static_cast<std::size_t>(ranges.cluster_count)))
      with([&](CublasLtConfig& a) { a.cluster_m = cluster.first, a.cluster_n = cluster.second; });
    for (std::int32_t custom = 0; custom <= ranges.max_custom; ++custom)
      with([&](CublasLtConfig& a) { a.custom = custom; });
    for (std::int32_t swizzle = 0; swizzle <= ranges.max_swizzle; ++swizzle)
      with([&](CublasLtConfig& a) { a.swizzle = swizzle; });
    if (!ranges.split_k) return;
    for (const std::int32_t split : kSplits) {
      for (const std::int32_t reduction : {0, 1, 2, 4}) {
        if ((split > 1) != (reduction > 0) || (reduction & ranges.reductions) != reduction) continue;
        with([&](CublasLtConfig& a) { a.split_k = split, a.reduction = reduction; });
      }
    }
  }

  void add_stranger(std::int32_t id, const AlgorithmRanges& ranges,
                    std::vector<CublasLtConfig>& candidates) const {
    for (const auto& tile : std::span(ranges.tiles, static_cast<std::size_t>(ranges.tile_count))) {
      for (const auto& stage : std::span(ranges.stages, static_cast<std::size_t>(ranges.stage_count))) {
        candidates.push_back({.version = version_,
                              .algorithm = id,
                              .tile_m = tile.first,
                              .tile_n = tile.second,
                              .tile_k = stage.first,
                              .stages = stage.second,
                              .split_k = 1});
      }
    }
  }

  bool accepted(const CublasLtConfig& one) {
    return std::ranges::any_of(shown_,
                               [&](std::size_t shape) { return takes(module_, shapes_[shape], one); });
  }

  bool add(const CublasLtConfig& one) { return known_.insert(one.kernel_config()).second; }

  void shuffle(std::vector<CublasLtConfig>& list) const {
    std::uint64_t random = options_.seed;
    for (std::size_t i = list.size(); i > 1; --i) {
      random = mix_hash(random, i);
      std::swap(list[i - 1], list[random % i]);
    }
  }

  Module& module_ = open_module();
  std::int32_t version_ = gpu_facts().cublaslt_version;
  const std::vector<Problem>& problems_;
  const HarvestOptions& options_;
  std::vector<MatmulShape> shapes_;
  std::vector<std::size_t> shown_;
  std::vector<CublasLtConfig> seeds_;
  std::unordered_set<KernelConfig> known_;
  Harvest found_;
};

}  // namespace

bool cuda::takes(Module& module, const MatmulShape& shape, const CublasLtConfig& config) {
  Matmul* made = nullptr;
  const CallStatus answer = module.prepare({.product = &shape}, cublaslt_gemm_space.provider,
                                           axes_of(config.kernel_config()), kCublasLtWorkspace, &made);
  if (answer == CallStatus::done) made->destroy();
  return answer == CallStatus::done;
}

std::vector<Harvest> harvest(const std::vector<Problem>& problems, const HarvestOptions& options) {
  if (problems.empty()) fail(Errc::invalid_argument, "no problems to ask the library about");
  const Op op = problems.front().op();
  const std::vector<Signature> signatures = signatures_of(problems);
  for (const Signature& signature : signatures) {
    if (signature.op != op)
      fail(Errc::invalid_argument,
           "a harvest is of one operation: {} and {} were given; harvest each by itself", word(op),
           word(signature.op));
    check_signature(op == Op::gemm ? cublaslt_provider() : cudnn_provider(), signature);
  }
  std::vector<Harvest> harvests;
  for (const Signature& signature : signatures) {
    std::vector<Problem> alike;
    std::ranges::copy_if(problems, std::back_inserter(alike),
                         [&](const Problem& problem) { return signature_of(problem) == signature; });
    harvests.push_back(op == Op::gemm ? Harvester(alike, options).run() : harvest_convs(alike, options));
  }
  return harvests;
}

std::string rule_set_text(const std::vector<Harvest>& harvests) {
  const auto blocks = [&](std::vector<KernelConfig> Harvest::*found) {
    std::vector<ExplicitBlock> out;
    for (const Harvest& one : harvests) out.push_back({one.signature, one.*found});
    return out;
  };
  const ConfigSpace& space = *harvests.front().suggested.front().space;
  return rule_sets_text(
      space.provider, space.op,
      {{"harvested", "configs that the library's heuristics listed for some problem", "default",
        blocks(&Harvest::suggested)},
       {"widened", "and further ones that the library accepts", "harvested", blocks(&Harvest::widened)}});
}

}  // namespace kscout
