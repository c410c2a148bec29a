#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <unordered_set>

#include "core/fail.h"
#include "problems/conv_sets.h"
#include "problems/generator.h"
#include "problems/problem_sets.h"

namespace kscout {
namespace {

using P = ConvProblem;
using Key = std::vector<std::int64_t>;

struct Flag {
  std::string_view name;
  std::vector<std::int64_t P::*> fields;
  bool needed = true;
};
const Flag kFlags[] = {{"--batchsize", {&P::n}},
                       {"--in_channels", {&P::c}},
                       {"--out_channels", {&P::k}},
                       {"--in_h", {&P::h}},
                       {"--in_w", {&P::w}},
                       {"--fil_h", {&P::y}},
                       {"--fil_w", {&P::x}},
                       {"--group_count", {&P::g}},
                       {"--conv_stride_h", {&P::stride_h}},
                       {"--conv_stride_w", {&P::stride_w}},
                       {"--pad_h", {&P::left_pad_h, &P::right_pad_h}},
                       {"--pad_w", {&P::left_pad_w, &P::right_pad_w}},
                       {"--dilation_h", {&P::dilation_h}, false},
                       {"--dilation_w", {&P::dilation_w}, false}};

/// The number after a flag and a blank or '='; nothing when the line lacks the flag.
std::optional<std::int64_t> number_behind(std::string_view line, std::string_view flag) {
  for (std::size_t at = 0; (at = line.find(flag, at)) != std::string_view::npos; at += flag.size()) {
    std::string_view rest = line.substr(at + flag.size());
    // The text is part of a longer flag.
    if (rest.empty() || (rest.front() != ' ' && rest.front() != '=')) continue;
    rest.remove_prefix(std::min(rest.find_first_not_of(" ="), rest.size()));
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
    if (error == std::errc() && end != rest.data()) return value;
  }
  return std::nullopt;
}

std::optional<P> driver_line(std::string_view line, const MiopenRequest& request) {
  P problem = make_conv(request.op, request.dtype);
  for (const Flag& flag : kFlags) {
    const auto value = number_behind(line, flag.name);
    if (!value && flag.needed) return std::nullopt;
    for (const auto field : flag.fields) problem.*field = value.value_or(1);
  }
  const auto channels = [](std::int64_t count) { return count >= 64 && count % 16 == 0; };
  const bool kept = channels(problem.c) && channels(problem.k) && problem.n <= 16 && problem.y <= 11 &&
                    problem.x <= 11 && is_valid(problem);
  return kept ? std::optional(problem) : std::nullopt;
}

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
        std::int64_t value = 0;
        const auto digits = part.substr(2);
        const auto [last, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
        if (error != std::errc() || last != digits.data() + digits.size())
          fail(Errc::invalid_argument, "'{}': write n=NUMBER", part);
        images_ = value;
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

std::vector<P> miopen_problems(std::string_view text, const MiopenRequest& request) {
  std::vector<P> problems;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    if (auto problem = driver_line(text.substr(begin, end - begin), request)) problems.push_back(*problem);
    begin = end + 1;
  }
  problems = merge_equal(problems);
  for (P& problem : problems) problem.weight = 1;
  if (problems.empty()) {
    fail(Errc::corrupt_data,
         "no usable line of MIOpen's driver: a line must have all of {} to {}, with channels from "
         "64 on",
         kFlags[0].name, kFlags[11].name);
  }
  Generator random(request.seed);
  std::vector<P> drawn;
  const auto key = [](const P& p) {
    return Key{p.c / 64, p.k / 64, p.h, p.w, p.y, p.x, p.stride_h, p.stride_w, p.g};
  };
  for (auto& [of, bucket] : buckets_of(problems, key)) {
    random.shuffle(bucket);
    drawn.insert(drawn.end(), bucket.begin(),
                 bucket.begin() + std::min<std::ptrdiff_t>(2, std::ssize(bucket)));
  }
  random.shuffle(drawn);
  drawn.resize(std::min(drawn.size(), request.count), make_conv(request.op));
  return drawn;
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
