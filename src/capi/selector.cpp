#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include <kscout/backend.h>
#include <kscout/error.h>
#include <kscout/family.h>

#include "capi/capi.h"

namespace kscout::capi {

namespace {

static_assert(KSCOUT_BY_BEST == static_cast<int>(By::best) &&
              KSCOUT_BY_LATENCY == static_cast<int>(By::latency) &&
              KSCOUT_BY_BANDWIDTH + 1 == EnumWords<By>::words.size());
static_assert(KSCOUT_SOURCE_CACHE == static_cast<int>(ChoiceSource::cache) &&
              KSCOUT_SOURCE_MODEL == static_cast<int>(ChoiceSource::model) &&
              KSCOUT_SOURCE_DEFAULT == static_cast<int>(ChoiceSource::fallback) &&
              KSCOUT_SOURCE_ANY_CPU + 1 == EnumWords<ChoiceSource>::words.size());
static_assert(KSCOUT_DEVICES_EXACT == static_cast<int>(DevicePolicy::exact) &&
              KSCOUT_DEVICES_SAME_ARCH == static_cast<int>(DevicePolicy::same_arch) &&
              KSCOUT_DEVICES_ANY + 1 == EnumWords<DevicePolicy>::words.size());
static_assert(KSCOUT_VERDICT_ALLOWED == static_cast<int>(VerdictStatus::allowed) &&
              KSCOUT_VERDICT_UNKNOWN == static_cast<int>(VerdictStatus::unknown) &&
              KSCOUT_VERDICT_UNKNOWN + 1 == EnumWords<VerdictStatus>::words.size());
static_assert(sizeof(kscout_verdict) == 2 * 4 + 64 + 512 + 64 + 5 * 8, "part of ABI version 1");
static_assert(sizeof(kscout_choice) == sizeof(kscout_config) + 6 * 8 + 2 * 4 + 6 * 8,
              "part of ABI version 1");
static_assert(sizeof(kscout_request) == 5 * 8 + 2 * 4 + 6 * 8, "part of ABI version 1");
static_assert(sizeof(kscout_cache_statistics) == 8 * 8, "part of ABI version 1");

SelectorRequest request_of(const kscout_request* given) {
  kscout_request from;
  kscout_request_init(&from);
  if (given) from = *given;
  refuse_reserved(from.reserved, from.reserved32, "request", "kscout_request_init");
  Device device = from.device ? from.device->device : detect_cpu();
  auto suggestions = suggestions_here(device);
  return {.provider = text_or(from.provider, ""),
          .device = std::move(device),
          .rules = text_or(from.rules, "default"),
          .devices = enumerator<DevicePolicy>(from.devices),
          .db = text_or(from.db, ""),
          .driver = text_or(from.driver, ""),
          .suggestions = std::move(suggestions),
          .threads = from.threads,
          .calls = from.calls,
          .limits = limits_of(from.limits, from.max_workspace_bytes)};
}

/// Creates a selector for a handle.
template <class Make>
kscout_status new_handle(kscout_selector** selector, const Make& make) {
  return guarded([&] {
    refuse_null(selector, "selector");
    *selector = new kscout_selector{make()};
  });
}

template <class C>
kscout_status select(const kscout_selector* selector, const C* problem, std::int32_t by,
                     kscout_choice* choice) {
  return guarded([&] {
    const Selector& from = required(selector, "selector").selector;
    refuse_null(choice, "choice");
    store(from.select(problem_of(problem), enumerator<By>(by)), *choice);
  });
}

template <class C>
kscout_status rank(const kscout_selector* selector, const C* problem, std::int32_t by, kscout_choice* best,
                   std::size_t capacity, std::size_t* count) {
  return guarded([&] {
    const Selector& from = required(selector, "selector").selector;
    refuse_null(count, "count");
    if (capacity > 0) refuse_null(best, "best");
    thread_local std::vector<Choice> ranked;  // thread_local, so later calls of the thread allocate nothing
    ranked.resize(capacity);
    const std::size_t found = from.rank(problem_of(problem), ranked, enumerator<By>(by));
    for (std::size_t i = 0; i < found; ++i) store(ranked[i], best[i]);
    *count = found;
  });
}

/// Copies a text; one that is too long ends in "...".
template <std::size_t Size>
void store_cut(const std::string& from, char (&to)[Size]) noexcept {
  const std::size_t length = std::min(from.size(), Size - 1);
  from.copy(to, length);
  to[length] = 0;
  if (from.size() > length) std::fill_n(to + length - 3, 3, '.');
}

template <class C>
kscout_status verdict_of(const kscout_selector* selector, const C* problem, const kscout_config* config,
                         kscout_verdict* verdict) {
  return guarded([&] {
    const Selector& from = required(selector, "selector").selector;
    refuse_null(verdict, "verdict");
    const Verdict found = from.verdict(problem_of(problem), config_of(config));
    *verdict = {};
    verdict->status = static_cast<std::int32_t>(found.status);
    store_cut(found.rule, verdict->rule);
    store_cut(found.because, verdict->because);
    store_cut(found.since, verdict->since);
  });
}

}  // namespace

Limits limits_of(std::int64_t limits, std::int64_t max_workspace_bytes) {
  constexpr std::int64_t kKnown =
      KSCOUT_LIMIT_WORKSPACE | KSCOUT_LIMIT_DETERMINISTIC | KSCOUT_LIMIT_BATCH_INVARIANT;
  if ((limits & ~kKnown) != 0)
    throw Error(Errc::invalid_argument,
                fmt::format("limits={}: only KSCOUT_LIMIT_WORKSPACE (1), KSCOUT_LIMIT_DETERMINISTIC (2) and "
                            "KSCOUT_LIMIT_BATCH_INVARIANT (4), combined with |",
                            limits));
  const bool workspace = (limits & KSCOUT_LIMIT_WORKSPACE) != 0;
  if (max_workspace_bytes < 0 || (!workspace && max_workspace_bytes != 0))
    throw Error(Errc::invalid_argument,
                fmt::format("max_workspace_bytes={}: at least 0 with KSCOUT_LIMIT_WORKSPACE in limits, 0 "
                            "without it",
                            max_workspace_bytes));
  return {workspace ? max_workspace_bytes : Limits::none, (limits & KSCOUT_LIMIT_DETERMINISTIC) != 0,
          (limits & KSCOUT_LIMIT_BATCH_INVARIANT) != 0};
}

void store(const Choice& from, kscout_choice& to) noexcept {
  to = {};
  store(from.config, to.config);
  to.time_us = from.time_us;
  to.tflops = from.tflops;
  to.gb_s = from.gb_s;
  to.margin = from.margin;
  to.confidence = from.confidence;
  to.score = from.score;
  to.source = static_cast<std::int32_t>(from.source);
  to.decided_by = static_cast<std::int32_t>(from.decided_by);
  to.setup_us = static_cast<double>(from.setup_us);
  to.suggestion_us = static_cast<double>(from.suggestion_us);
}

}  // namespace kscout::capi

using namespace kscout;
using namespace kscout::capi;

const char* kscout_source_word(int32_t source) {
  constexpr auto& words = EnumWords<ChoiceSource>::words;
  return source < 0 || static_cast<std::size_t>(source) >= words.size()
             ? ""
             : words[static_cast<std::size_t>(source)].data();
}

void kscout_request_init(kscout_request* request) {
  *request = {};
  request->devices = KSCOUT_DEVICES_SAME_ARCH;
}

kscout_status kscout_selector_load(const char* model, const kscout_request* request,
                                   kscout_selector** selector) {
  return new_handle(selector, [&] {
    const char* const path = &required(model, "model");
    if (request) return Selector::load(path, request_of(request));
    Selector loaded = Selector::load(path);
    auto suggestions = suggestions_here(loaded.device());
    if (!suggestions) return loaded;
    return Selector::load(path, {.device = loaded.device(), .suggestions = std::move(suggestions)});
  });
}

kscout_status kscout_selector_find(int32_t dtype, const kscout_request* request, kscout_selector** selector) {
  return new_handle(selector, [&] {
    const Op op = request ? enumerator<Op>(request->op) : Op::gemm;
    return Selector::find(op, enumerator<DType>(dtype), request_of(request));
  });
}

kscout_status kscout_selector_analytic(const kscout_request* request, kscout_selector** selector) {
  return new_handle(selector, [&] { return Selector::analytic(request_of(request)); });
}

void kscout_selector_free(kscout_selector* selector) { delete selector; }

kscout_status kscout_selector_reload(kscout_selector* selector) {
  return guarded([&] { required(selector, "selector").selector.reload(); });
}

kscout_status kscout_selector_refresh(kscout_selector* selector) {
  return guarded([&] { required(selector, "selector").selector.refresh(); });
}

kscout_status kscout_selector_model(const kscout_selector* selector, char* path, size_t size,
                                    size_t* needed) {
  return guarded(
      [&] { store_text(required(selector, "selector").selector.model_path().string(), path, size, needed); });
}

kscout_status kscout_selector_warning(const kscout_selector* selector, char* text, size_t size,
                                      size_t* needed) {
  return guarded([&] {
    const auto warnings = required(selector, "selector").selector.warnings();
    store_text(fmt::format("{}", fmt::join(warnings, "; ")), text, size, needed);
  });
}

kscout_status kscout_selector_cache(const kscout_selector* selector, kscout_cache_statistics* statistics) {
  return guarded([&] {
    refuse_null(statistics, "statistics");
    const CacheStatistics now = required(selector, "selector").selector.cache_statistics();
    *statistics = {.hits = now.hits, .misses = now.misses, .evictions = now.evictions, .reserved = {}};
  });
}

kscout_status kscout_selector_clear_cache(kscout_selector* selector) {
  return guarded([&] { required(selector, "selector").selector.clear_cache(); });
}

kscout_status kscout_select(const kscout_selector* selector, const kscout_gemm* problem, int32_t by,
                            kscout_choice* choice) {
  return select(selector, problem, by, choice);
}

kscout_status kscout_select_conv(const kscout_selector* selector, const kscout_conv* problem, int32_t by,
                                 kscout_choice* choice) {
  return select(selector, problem, by, choice);
}

kscout_status kscout_select_problem(const kscout_selector* selector, const kscout_problem* problem,
                                    int32_t by, kscout_choice* choice) {
  return select(selector, problem, by, choice);
}

kscout_status kscout_rank_problem(const kscout_selector* selector, const kscout_problem* problem, int32_t by,
                                  kscout_choice* best, size_t capacity, size_t* count) {
  return rank(selector, problem, by, best, capacity, count);
}

kscout_status kscout_rank(const kscout_selector* selector, const kscout_gemm* problem, int32_t by,
                          kscout_choice* best, size_t capacity, size_t* count) {
  return rank(selector, problem, by, best, capacity, count);
}

kscout_status kscout_rank_conv(const kscout_selector* selector, const kscout_conv* problem, int32_t by,
                               kscout_choice* best, size_t capacity, size_t* count) {
  return rank(selector, problem, by, best, capacity, count);
}

kscout_status kscout_verdict_of(const kscout_selector* selector, const kscout_gemm* problem,
                                const kscout_config* config, kscout_verdict* verdict) {
  return verdict_of(selector, problem, config, verdict);
}

kscout_status kscout_verdict_of_conv(const kscout_selector* selector, const kscout_conv* problem,
                                     const kscout_config* config, kscout_verdict* verdict) {
  return verdict_of(selector, problem, config, verdict);
}

kscout_status kscout_verdict_of_problem(const kscout_selector* selector, const kscout_problem* problem,
                                        const kscout_config* config, kscout_verdict* verdict) {
  return verdict_of(selector, problem, config, verdict);
}
