#include <algorithm>
#include <functional>
#include <mutex>

#include <fmt/format.h>

#include <kscout/family.h>
#include <kscout/provider.h>
#include <kscout/selector.h>
#include <kscout/version.h>

#include "core/fail.h"
#include "core/fork_mutex.h"
#include "core/log.h"
#include "core/owners.h"
#include "op/gemm/gemm_views.h"
#include "select/decision_cache.h"
#include "select/fallback_chain.h"
#include "select/hazard_ptr.h"
#include "select/limited.h"

namespace kscout {

namespace {

/// Finds and reads the model of a selector; returns nothing for a selector without a model.
using ModelSource = std::function<std::optional<LoadedModel>()>;

std::optional<LoadedModel> no_model() { return std::nullopt; }

/// Throws unsupported when the request's device policy forbids the model.
LoadedModel load_model(const std::filesystem::path& path, const SelectorRequest& request) {
  Model model = Model::load(path, &request.device);
  const Device trained = model.data().any_cpu ? any_cpu() : model.device();
  if (const auto refusal = device_refusal(trained, request.device, request.devices); !refusal.empty()) {
    fail(Errc::unsupported, "model {} cannot answer for '{}': {}; tune on that device, or allow more devices",
         path.string(), request.device.name, refusal);
  }
  std::string warning = model.data().any_cpu ? any_cpu_note(model.data().known_devices, request.device)
                                             : foreign_device_warning(trained, request.device);
  return {with_facts_of(std::move(model), request.device), path, std::move(warning)};
}

/// The request that matches a model's own families.
SelectorRequest request_of(const Model& model) {
  const Family& family = model.data().families.front();
  return {family.provider, family.device, family.rules,
          model.data().any_cpu ? DevicePolicy::same_arch : DevicePolicy::exact};
}

/// The request with its provider filled in.
SelectorRequest described(SelectorRequest request, Op op) {
  if (request.provider.empty()) request.provider = default_provider(op, request.device);
  return request;
}

/// The folder of the model for batches of GEMMs that belongs to a model; empty where there is none.
std::filesystem::path batches_of(const std::filesystem::path& model) {
  std::error_code ignored;
  const auto folder =
      (std::filesystem::is_directory(model, ignored) ? model : model.parent_path()) / "batches";
  return std::filesystem::is_regular_file(folder / "model.ksf", ignored) ? folder : std::filesystem::path();
}

std::vector<std::string> warnings_of(const FallbackChain& chain) {
  std::vector<std::string> warnings;
  if (chain.model() && !chain.model()->warning.empty()) warnings.push_back(chain.model()->warning);
  if (!chain.model() && !chain.without_model().empty()) warnings.push_back(chain.without_model());
  if (!chain.left_out().empty()) warnings.push_back(chain.left_out());
  if (!chain.not_charged().empty()) warnings.push_back(chain.not_charged());
  return warnings;
}

void log_model(Log& log, const FallbackChain& chain) {
  if (!chain.model()) {
    log.line("no model: analytic costs");
    return;
  }
  log.line(
      fmt::format("model {} of device {}", chain.model()->path.string(), chain.model()->model.device().name));
  for (const std::string& warning : warnings_of(chain)) log.line("warning: " + warning);
}

/// The decisions that are valid for a request; empty when no file is named.
std::vector<StoredDecision> stored_decisions(const SelectorRequest& request) {
  std::filesystem::path file = request.db;
  if (file.empty()) {
    file = environment("KSCOUT_DB");
    refuse_if_others_write(file);
  }
  if (file.empty()) return {};
  return DecisionDb(file).read(
      DecisionOrigin{device_identity(request.device), request.driver, KSCOUT_VERSION, request.backend});
}

std::unique_ptr<const FallbackChain> make_fallback_chain(const FallbackInputs& base,
                                                         std::optional<LoadedModel> model) {
  const auto log = Log::from_environment();
  const auto stored = stored_decisions(base.request);
  auto chain = std::make_unique<const FallbackChain>(base, std::move(model), stored, log);
  if (log && !stored.empty()) {
    log->line(
        fmt::format("db: {} decisions, {} skipped", chain->decisions().size(), chain->decisions().skipped()));
  }
  if (log) log_model(*log, *chain);
  return chain;
}

}  // namespace

struct Selector::Impl {
  Impl(FallbackInputs of, ModelSource from, std::optional<LoadedModel> model)
      : base(std::move(of)),
        source(std::move(from)),
        limited(base.request),
        chain(make_fallback_chain(base, std::move(model))) {
    use_cache = !chain.read()->switches().off(ChoiceSource::cache);
  }
  /// Without a provider, each signature uses that of its operation; names are then those of GEMM configs.
  Impl(const SelectorRequest& of, ModelSource from, std::optional<LoadedModel> model)
      : Impl(FallbackInputs{described(of, Op::gemm), families_by_rules(of)}, std::move(from),
             std::move(model)) {}

  /// With the model for batches.
  static std::shared_ptr<Impl> made(auto&&... arguments) {
    auto impl = std::make_shared<Impl>(std::forward<decltype(arguments)>(arguments)...);
    impl->add_batches();
    return impl;
  }

  /// Reads the model for batches that belongs to the model, of any GPU of the architecture: its own Impl,
  /// whose answers replace those of this one.
  void add_batches() {
    const auto model_of = [this]() -> std::optional<LoadedModel> {
      const auto reader = chain.read();
      const auto folder = reader->model() ? batches_of(reader->model()->path) : std::filesystem::path();
      if (folder.empty()) return std::nullopt;
      SelectorRequest request = base.request;
      request.devices = std::max(request.devices, DevicePolicy::same_arch);
      LoadedModel loaded = load_model(folder, request);
      loaded.warning.clear();  // that of the model counts
      return loaded;
    };
    if (auto model = model_of()) batches = std::make_unique<Impl>(base, model_of, std::move(model));
  }
  /// Whether the model has configs for the problem's types and layout.
  bool knows(const ProblemRef& problem) noexcept {
    const auto reader = chain.read();
    return reader->model() && reader->model()->model.family(signature_of(problem));
  }
  Impl& of(const ProblemRef& problem) noexcept {
    return batches && batch_of(problem) > 1 && batches->knows(problem) ? *batches : *this;
  }

  /// Takes the problem by reference: two pointers passed in registers would be stored one by one and then
  /// read as one vector.
  SelectStatus select(const ProblemRef& problem, By by, Choice& choice, const Limits& of_call) noexcept {
    const Limits limits = limited.with(of_call);
    const DecisionKey key = cache.key(problem, by, limits);
    if (use_cache.load(std::memory_order_relaxed) && cache.find(key, choice)) return SelectStatus::ok;
    return decide(problem, by, key, choice, limits);
  }

  [[gnu::noinline]] SelectStatus decide(const ProblemRef& problem, By by, const DecisionKey& key,
                                        Choice& choice, const Limits& limits) noexcept {
    Choice decided;
    std::size_t count = 0;
    const SelectStatus status = rank(problem, by, std::span(&decided, 1), count, limits);
    if (status != SelectStatus::ok) return status;
    cache.add(key, decided);
    choice = decided;
    return status;
  }

  SelectStatus rank(ProblemRef problem, By by, std::span<Choice> best, std::size_t& count,
                    const Limits& of_call) noexcept {
    try {
      const auto reader = chain.read();
      const Limits limits = limited.with(of_call);
      if (limits.any()) return limited.rank(*reader, problem, by, best, count, limits, reader.scratch());
      return reader->rank(problem, by, best, count, reader.scratch());
    } catch (...) {  // no memory for the scratch of another thread
      return SelectStatus::failed;
    }
  }

  /// Throws unless the status is ok.
  void need(SelectStatus status, ProblemRef problem, By by, const Limits& of_call) const {
    if (status == SelectStatus::ok) return;
    const auto reader = chain.read();
    const Limits limits = limited.with(of_call);
    if (status == SelectStatus::no_config && limits.any())
      limited.explain(*reader, problem, by, limits, reader.scratch());
    if (status == SelectStatus::failed && limits.any()) {  // a device that fails says why
      Choice again;
      std::size_t count = 0;
      limited.rank(*reader, problem, by, std::span(&again, 1), count, limits, reader.scratch());
    }
    reader->explain(status, problem, by);
  }

  void reload() {
    const std::lock_guard lock(reloading);
    publish(make_fallback_chain(base, source()));
    if (batches) batches->reload();
  }

  void refresh() {
    const std::lock_guard lock(reloading);
    auto model = chain.read()->model();  // a copy, which shares its data
    publish(make_fallback_chain(base, std::move(model)));
    if (batches) batches->refresh();
  }

  void publish(std::unique_ptr<const FallbackChain> next) {
    const bool cached = !next->switches().off(ChoiceSource::cache);
    chain.replace(std::move(next));
    // A thread that reads the new generation finds the new chain; decisions of the old chain have the old
    // generation.
    cache.clear();
    use_cache = cached;
  }

  const FallbackInputs base;
  const ModelSource source;
  const Limited limited;
  HazardPtr<FallbackChain, SelectScratch> chain;
  DecisionCache cache;
  std::atomic<bool> use_cache = true;
  ForkMutex reloading{ForkLevel::reload};
  std::unique_ptr<Impl> batches;  ///< null: there was no model for batches when this one was made
};

Selector::Selector(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

Selector Selector::load(const std::filesystem::path& path) {
  LoadedModel loaded{Model::load(path), path, {}};
  if (loaded.model.data().any_cpu)
    loaded.warning = any_cpu_note(loaded.model.data().known_devices, loaded.model.device());
  const SelectorRequest request = request_of(loaded.model);
  const ModelSource source = [path, request] { return load_model(path, request); };
  return Selector(Impl::made(request, source, std::move(loaded)));
}

Selector Selector::load(const std::filesystem::path& path, const SelectorRequest& request) {
  const ModelSource source = [path, request] { return load_model(path, request); };
  return Selector(Impl::made(request, source, source()));
}

Selector Selector::analytic(const SelectorRequest& request) {
  return Selector(std::make_shared<Impl>(request, no_model, no_model()));
}

Selector Selector::analytic(SelectorRequest request, std::function<Family(const Signature&)> make) {
  request.provider.clear();
  request.rules.clear();
  return Selector(std::make_shared<Impl>(FallbackInputs{request, std::move(make)}, no_model, no_model()));
}

Selector Selector::find(Op op, DType dtype, const SelectorRequest& of) {
  const SelectorRequest request = described(of, op);
  const ModelSource source = [=]() -> std::optional<LoadedModel> {
    const auto found = find_model(op, dtype, request.device, request.devices);
    if (!found) return std::nullopt;
    return load_model(*found, request);
  };
  FallbackInputs inputs{request, families_by_rules(request)};
  if (request.device.kind == DeviceKind::gpu && request.devices == DevicePolicy::same_arch)
    inputs.without_model = library_first_note(op, dtype, request.device);
  return Selector(Impl::made(std::move(inputs), source, source()));
}

SelectStatus Selector::try_select(ProblemRef problem, Choice& choice, By by,
                                  const Limits& limits) const noexcept {
  return impl_->of(problem).select(problem, by, choice, limits);
}

Choice Selector::select(ProblemRef problem, By by, const Limits& limits) const {
  check(limits);
  Choice choice;
  Impl& impl = impl_->of(problem);
  impl.need(impl.select(problem, by, choice, limits), problem, by, limits);
  return choice;
}

SelectStatus Selector::try_rank(ProblemRef problem, std::span<Choice> best, std::size_t& count, By by,
                                const Limits& limits) const noexcept {
  return impl_->of(problem).rank(problem, by, best, count, limits);
}

std::size_t Selector::rank(ProblemRef problem, std::span<Choice> best, By by, const Limits& limits) const {
  check(limits);
  std::size_t count = 0;
  Impl& impl = impl_->of(problem);
  impl.need(impl.rank(problem, by, best, count, limits), problem, by, limits);
  return count;
}

std::vector<Choice> Selector::rank(ProblemRef problem, std::size_t count, By by, const Limits& limits) const {
  constexpr std::size_t kFirstRoom = 64;
  std::vector<Choice> best(std::min(count, kFirstRoom));
  std::size_t found = rank(problem, best, by, limits);
  while (found == best.size() && found < count) {  // there may be more configs
    best.resize(std::min(count, 4 * best.size()));
    found = rank(problem, best, by, limits);
  }
  best.resize(found);
  return best;
}

Verdict Selector::verdict(ProblemRef problem, const KernelConfig& config) const {
  const auto reader = impl_->chain.read();
  return reader->verdict(problem, config, impl_->base.request.device, reader.scratch());
}

std::string Selector::name(ProblemRef problem, const Choice& choice) {
  return config_name(signature_of(problem), choice.config);
}

void Selector::reload() { impl_->reload(); }
void Selector::refresh() { impl_->refresh(); }
CacheStatistics Selector::cache_statistics() const noexcept {
  CacheStatistics all = impl_->cache.statistics();
  if (impl_->batches) {
    const CacheStatistics more = impl_->batches->cache.statistics();
    all.hits += more.hits;
    all.misses += more.misses;
    all.evictions += more.evictions;
  }
  return all;
}
void Selector::clear_cache() noexcept {
  impl_->cache.clear();
  if (impl_->batches) impl_->batches->cache.clear();
}

std::filesystem::path Selector::model_path() const { return model_path(Problem()); }
std::filesystem::path Selector::model_path(ProblemRef problem) const {
  const auto reader = impl_->of(problem).chain.read();
  return reader->model() ? reader->model()->path : std::filesystem::path();
}

std::vector<std::string> Selector::warnings() const { return warnings_of(*impl_->chain.read()); }

const Device& Selector::device() const noexcept { return impl_->base.request.device; }

}  // namespace kscout
