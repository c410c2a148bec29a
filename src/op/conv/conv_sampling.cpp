#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <unordered_set>

#include "core/fail.h"
#include "core/numbers.h"
#include "op/conv/conv_sets.h"
#include "op/generator.h"
#include "op/problem_sets.h"

namespace kscout {
namespace {

using P = ConvProblem;
using Key = std::vector<std::int64_t>;

/// Groups in key order, so that random choices do not depend on a hash table's order.
template <class KeyOf>
std::map<Key, std::vector<P>> buckets_of(std::span<const P> problems, const KeyOf& key_of) {
  std::map<Key, std::vector<P>> buckets;
  for (const P& problem : problems) buckets[key_of(problem)].push_back(problem);
  return buckets;
}

/// The step of a value: how many of `limits` it exceeds.
std::int64_t step_of(std::int64_t value, std::initializer_list<std::int64_t> limits) {
  return std::ranges::count_if(limits, [value](std::int64_t limit) { return value > limit; });
}
std::int64_t image_step(const P& p) { return step_of(p.h, {4, 16, 64}); }
std::int64_t channel_step(const P& p) { return step_of(std::min(p.c, p.k), {16, 64, 256}); }

constexpr std::array<std::string_view, 3> kGroupWords = {"standard", "grouped", "depthwise"};
std::int64_t group_kind(const P& p) { return is_depthwise(p) && p.g > 1 ? 2 : p.g > 1 ? 1 : 0; }

/// The properties by which top_up groups problems.
Key kind_of(const P& p) {
  const std::int64_t filter = is_pointwise(p) ? 0 : std::max(p.y, p.x) <= 3 ? 1 : 2;
  return {p.n, group_kind(p), image_step(p), channel_step(p), filter};
}

/// A kind of problems by name: "n=2,grouped"; omitted properties match all.
class NamedKind {
 public:
  explicit NamedKind(std::string_view text) {
    for (std::size_t begin = 0; begin <= text.size();) {
      const std::size_t end = std::min(text.find(',', begin), text.size());
      const std::string_view part = text.substr(begin, end - begin);
      begin = end + 1;
      if (part.starts_with("n=") || part.starts_with("N=")) {
        const auto value = number_in<std::int64_t>(part.substr(2));
        if (!value) fail(Errc::invalid_argument, "'{}': write n=NUMBER", part);
        images_ = *value;
      } else {
        const auto word = std::ranges::find(kGroupWords, part);
        if (word == kGroupWords.end())
          fail(Errc::invalid_argument, "'{}' is no kind of problem: write n=NUMBER, {}", part,
               fmt::join(kGroupWords, ", "));
        group_ = word - kGroupWords.begin();
      }
    }
  }
  bool matches(const Key& kind) const {
    return (!images_ || *images_ == kind[0]) && (!group_ || *group_ == kind[1]);
  }

 private:
  std::optional<std::int64_t> images_, group_;
};

/// Calls use(problem) for each problem of the grid that top_up chooses from.
template <class Use>
void for_each_candidate(const P& like, int density, const Use& use) {
  std::vector<std::int64_t> images = {1, 2, 4, 8, 16, 32, 64, 128},
                            channels = {32, 64, 128, 256, 512, 1024, 2048}, edges = {7, 14, 28, 56, 112, 224};
  if (density > 1) {
    images.insert(images.end(), {3, 6, 12, 24, 48, 96});
    channels.insert(channels.end(), {96, 192, 384, 768, 1536});
    edges.insert(edges.end(), {10, 12, 18, 24, 36, 48});
  }
  P p = make_conv(like.op, like.dtype_in);
  for (const auto n : images) {
    for (const auto c : channels) {
      for (const auto k : channels) {
        for (const std::int64_t g : {1, 2, 4, 8}) {
          if ((c / g) % 8 != 0 || (k / g) % 8 != 0 || c % g != 0 || k % g != 0) continue;
          p.n = n, p.c = c, p.k = k, p.g = g;
          for (const auto edge : edges) {
            for (const std::int64_t filter : {1, 3, 5, 7}) {
              for (const std::int64_t stride : {1, 2}) {
                p.h = p.w = edge, p.y = p.x = filter, p.stride_h = p.stride_w = stride;
                p.left_pad_h = p.right_pad_h = p.left_pad_w = p.right_pad_w = filter / 2;
                use(p);
              }
            }
          }
        }
      }
    }
  }
}

bool is_large_enough(const P& p) {
  const ImplicitGemm gemm = implicit_gemm(p);
  return gemm.m >= 32 && gemm.n >= 32 && gemm.k >= 32;
}

}  // namespace

MiopenProblems miopen_problems(std::string_view text, const MiopenRequest& request) {
  // Channels below one step of 64 are a kind each: 3 of a first layer are not 48.
  const auto channels = [](std::int64_t count) { return count < 64 ? -count : count / 64; };
  const auto key = [&](const P& p) {
    return Key{channels(p.c), channels(p.k), p.d,        p.h,        p.w,        p.z,
               p.y,           p.x,           p.stride_d, p.stride_h, p.stride_w, p.g};
  };
  MiopenProblems log = read_miopen_log(text, request);
  const auto keep = [&](std::vector<P> kept, std::string_view reason) {
    if (kept.size() < log.problems.size())
      log.left_out.push_back({std::string(reason), log.problems.size() - kept.size()});
    log.problems = std::move(kept);
  };
  keep(merge_equal(log.problems), "repeated");
  for (P& problem : log.problems) problem.weight = 1;
  Generator random(request.seed);
  std::vector<P> drawn;
  for (auto& [of, bucket] : buckets_of(log.problems, key)) {
    random.shuffle(bucket);
    drawn.insert(drawn.end(), bucket.begin(),
                 bucket.begin() + std::min<std::ptrdiff_t>(2, std::ssize(bucket)));
  }
  random.shuffle(drawn);
  keep(std::move(drawn),
       "more than two of a kind (channels in steps of 64; image, filter, stride and groups)");
  if (log.problems.size() > request.count) {
    keep({log.problems.begin(), log.problems.begin() + static_cast<std::ptrdiff_t>(request.count)},
         "above --count");
  }
  return log;
}

std::vector<P> stratified(std::span<const P> problems, std::size_t count, std::uint64_t seed) {
  const auto key = [](const P& p) {
    return Key{p.y, p.x, p.stride_h > 1 || p.stride_w > 1, group_kind(p), image_step(p), channel_step(p)};
  };
  std::vector<std::vector<P>> buckets;
  for (auto& [of, bucket] : buckets_of(problems, key)) buckets.push_back(std::move(bucket));
  std::ranges::stable_sort(buckets, std::ranges::greater{}, &std::vector<P>::size);
  const double share =
      static_cast<double>(count) / static_cast<double>(std::max<std::size_t>(problems.size(), 1));
  std::vector<std::size_t> quota;
  std::size_t sum = 0;
  for (const auto& bucket : buckets) {
    const auto wanted = static_cast<std::size_t>(std::lround(share * static_cast<double>(bucket.size())));
    quota.push_back(std::clamp<std::size_t>(wanted, 1, bucket.size()));
    sum += quota.back();
  }
  count = std::min(count, problems.size());
  for (bool changed = true; changed && sum != count;) {  // corrects the quotas round-robin, largest first
    changed = false;
    for (std::size_t i = 0; i < quota.size() && sum != count; ++i) {
      if (sum > count && quota[i] > 1) --quota[i], --sum, changed = true;
      if (sum < count && quota[i] < buckets[i].size()) ++quota[i], ++sum, changed = true;
    }
  }
  // With more kinds than problems to keep, the rarest kinds get none.
  for (std::size_t i = quota.size(); i-- > 0 && sum > count;) --quota[i], --sum;
  Generator random(seed);
  std::vector<P> drawn;
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    random.shuffle(buckets[i]);
    drawn.insert(drawn.end(), buckets[i].begin(), buckets[i].begin() + static_cast<std::ptrdiff_t>(quota[i]));
  }
  random.shuffle(drawn);
  return drawn;
}

std::vector<P> top_up(std::span<const ShapeEfficiency> measured, const TopUpRequest& request) {
  if (measured.empty())
    fail(Errc::invalid_argument, "no measured problems: nothing shows which kinds are missing");
  std::vector<NamedKind> named;
  for (const auto& text : request.also) named.emplace_back(text);
  struct Sum {
    double efficiency = 0;
    std::size_t problems = 0;
  };
  std::map<Key, Sum> kinds;
  std::unordered_set<P> known;
  for (const ShapeEfficiency& one : measured) {
    Sum& sum = kinds[kind_of(one.problem)];
    sum.efficiency += std::clamp(one.efficiency, 0.0, 1.0);
    ++sum.problems;
    P sizes = make_conv(one.problem.op, one.problem.dtype_in);
    for_each_field<P>([&](const auto& field) {
      if constexpr (std::is_same_v<typename std::remove_cvref_t<decltype(field)>::value, std::int64_t>)
        sizes.*field.member = one.problem.*field.member;
    });
    known.insert(sizes);
  }
  const auto wants = [&](const Key& kind) {
    const auto found = kinds.find(kind);
    if (found != kinds.end() &&
        found->second.efficiency < request.below * static_cast<double>(found->second.problems))
      return true;
    return std::ranges::any_of(named, [&](const NamedKind& one) { return one.matches(kind); });
  };
  std::map<Key, std::vector<P>> offers;
  for_each_candidate(measured.front().problem, request.density, [&](const P& p) {
    const Key kind = kind_of(p);
    if (wants(kind) && is_large_enough(p) && !known.contains(p)) offers[kind].push_back(p);
  });
  std::vector<P> chosen;
  Generator random(42);
  for (auto& [kind, problems] : offers) random.shuffle(problems);
  for (std::size_t turn = 0;; ++turn) {
    const std::size_t before = chosen.size();
    for (const auto& [kind, problems] : offers) {
      if (turn < problems.size() && chosen.size() < request.count) chosen.push_back(problems[turn]);
    }
    if (chosen.size() == before) break;
  }
  return chosen;
}

}  // namespace kscout
