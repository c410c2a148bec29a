#include <algorithm>
#include <vector>

#include <kscout/error.h>

#include "capi/capi.h"

namespace kscout::capi {

namespace {

static_assert(KSCOUT_BY_BEST == static_cast<int>(By::best) &&
              KSCOUT_BY_LATENCY == static_cast<int>(By::latency) &&
              KSCOUT_BY_BANDWIDTH + 1 == EnumWords<By>::words.size());
static_assert(KSCOUT_SOURCE_CACHE == static_cast<int>(ChoiceSource::cache) &&
              KSCOUT_SOURCE_MODEL == static_cast<int>(ChoiceSource::model) &&
              KSCOUT_SOURCE_DEFAULT == static_cast<int>(ChoiceSource::fallback) &&
              KSCOUT_SOURCE_FORCED + 1 >= EnumWords<ChoiceSource>::words.size());
static_assert(sizeof(kscout_choice) == sizeof(kscout_config) + 6 * 8 + 2 * 4 + 6 * 8,
              "part of ABI version 1");

Device device_or_here(const kscout_device* device) { return device ? device->device : detect_cpu(); }

std::string text_or(const char* text, const char* otherwise) { return text ? text : otherwise; }

kscout_selector* new_handle(Selector selector) {
  std::string path = selector.model_path().string();
  return new kscout_selector{std::move(selector), std::move(path)};
}

}  // namespace

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

kscout_status kscout_selector_load(const char* model, kscout_selector** selector) {
  return guarded(
      [&] { required(selector, "selector") = new_handle(Selector::load(&required(model, "model"))); });
}

kscout_status kscout_selector_find(int32_t dtype, const kscout_device* device, kscout_selector** selector) {
  return guarded([&] {
    refuse_null(selector, "selector");
    *selector =
        new_handle(Selector::find(Op::gemm, enumerator<DType>(dtype), {.device = device_or_here(device)}));
  });
}

kscout_status kscout_selector_analytic(const kscout_device* device, const char* provider, const char* rules,
                                       kscout_selector** selector) {
  return guarded([&] {
    refuse_null(selector, "selector");
    *selector = new_handle(Selector::analytic({.provider = text_or(provider, "native"),
                                               .device = device_or_here(device),
                                               .rules = text_or(rules, "default")}));
  });
}

void kscout_selector_free(kscout_selector* selector) { delete selector; }

const char* kscout_selector_model(const kscout_selector* selector) {
  return selector ? selector->model_path.c_str() : "";
}

kscout_status kscout_select(const kscout_selector* selector, const kscout_gemm* problem, int32_t by,
                            kscout_choice* choice) {
  return guarded([&] {
    const Selector& from = required(selector, "selector").selector;
    refuse_null(choice, "choice");
    store(from.select(problem_of(problem), enumerator<By>(by)), *choice);
  });
}

kscout_status kscout_rank(const kscout_selector* selector, const kscout_gemm* problem, int32_t by,
                          kscout_choice* best, size_t capacity, size_t* count) {
  return guarded([&] {
    const Selector& from = required(selector, "selector").selector;
    refuse_null(count, "count");
    if (capacity > 0) refuse_null(best, "best");
    thread_local std::vector<Choice> ranked;  // kept: later calls of the thread allocate nothing
    ranked.resize(capacity);
    const std::size_t found = from.rank(problem_of(problem), ranked, enumerator<By>(by));
    for (std::size_t i = 0; i < found; ++i) store(ranked[i], best[i]);
    *count = found;
  });
}
