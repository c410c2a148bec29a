#include "selector.h"

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <kscout/backend.h>
#include <kscout/family.h>
#include <kscout/provider.h>

#include "device.h"
#include "fields.h"
#include "problem.h"
#include "select/model.h"

namespace kscout::python {

namespace {

SelectorRequest request_of(std::string provider, const DeviceArgument& device, std::string rules,
                           std::string_view devices, const FileArgument& db, int threads,
                           std::int64_t calls) {
  Device of = device_of(device);
  auto suggestions = suggestions_here(of);
  return {.provider = std::move(provider),
          .device = std::move(of),
          .rules = std::move(rules),
          .devices = parse<DevicePolicy>(devices),
          .db = db.value_or(std::filesystem::path()),
          .suggestions = std::move(suggestions),
          .threads = threads,
          .calls = calls};
}

/// Omitted arguments default to the model's provider, device and rule set.
Selector load(const std::filesystem::path& path, const std::optional<DeviceArgument>& device,
              const std::optional<std::string>& rules, std::string_view devices, const FileArgument& db,
              int threads, std::int64_t calls) {
  const auto policy = parse<DevicePolicy>(devices);
  const Device of = device ? device_of(*device) : model_device(path);
  auto suggestions = suggestions_here(of);
  if (!device && !rules && !db && threads == 0 && calls == 0 && !suggestions) return Selector::load(path);
  const Model model = Model::load(path);
  const Family& trained = model.data().families.front();
  return Selector::load(path, {.provider = trained.provider,
                               .device = of,
                               .rules = rules.value_or(trained.rules),
                               .devices = policy,
                               .db = db.value_or(std::filesystem::path()),
                               .suggestions = std::move(suggestions),
                               .threads = threads,
                               .calls = calls});
}

NamedChoice select(const Selector& selector, const ProblemArgument& argument, std::string_view order,
                   std::optional<std::int64_t> workspace_limit, bool deterministic, bool batch_invariant) {
  const Problem problem = problem_of(argument);
  const By by = parse<By>(order);
  const Limits limits = limits_of(workspace_limit, deterministic, batch_invariant);
  const nb::gil_scoped_release unlocked;
  return {selector.select(problem, by, limits), signature_of(problem)};
}

std::vector<NamedChoice> rank(const Selector& selector, const ProblemArgument& argument, std::size_t count,
                              std::string_view order, std::optional<std::int64_t> workspace_limit,
                              bool deterministic, bool batch_invariant) {
  const Problem problem = problem_of(argument);
  const By by = parse<By>(order);
  const Limits limits = limits_of(workspace_limit, deterministic, batch_invariant);
  const nb::gil_scoped_release unlocked;
  std::vector<NamedChoice> named;
  for (const Choice& choice : selector.rank(problem, count, by, limits))
    named.push_back({.choice = choice, .signature = signature_of(problem)});
  return named;
}

std::string name_of(const NamedChoice& named) {
  if (!named.written.empty()) return named.written;
  return provider(named.choice.config.space->provider).print(named.signature, named.choice.config);
}

/// A property for one field of Choice.
template <class V>
void bind_field(nb::class_<NamedChoice>& type, const char* name, V Choice::*field, const char* help) {
  const std::string signature = std::string("def ") + name + "(self) -> " + python_type<V>() +
                                (std::is_floating_point_v<V> ? " | None" : "");
  type.def_prop_ro(
      name, [field](const NamedChoice& named) { return to_python(named.choice.*field); },
      nb::for_getter(nb::sig(signature.c_str())), nb::for_getter(help));
}

void bind_choice(nb::module_& module) {
  nb::class_<NamedChoice> choice(module, "Choice",
                                 "One config for one problem, with its predictions; None = unknown.");
  choice.def_prop_ro(
      "config",
      [](const NamedChoice& n) {
        return NamedConfig{n.signature, n.choice.config};
      },
      "How to compute the problem.");
  choice.def_prop_ro("name", &name_of, "The config's name; of a kernel that the caller named, this name.");
  bind_field(choice, "time_us", &Choice::time_us, "Time of the whole call, in microseconds.");
  bind_field(choice, "tflops", &Choice::tflops, "10^12 operations per second.");
  bind_field(choice, "gb_s", &Choice::gb_s, "Minimum bytes over the time, 10^9 bytes per second.");
  bind_field(choice, "margin", &Choice::margin,
             "How much longer the next config takes, as a fraction of this one's time.");
  bind_field(choice, "confidence", &Choice::confidence, "Probability of being within 3 % of the best.");
  bind_field(choice, "score", &Choice::score,
             "The value that the ranking sorts by, higher is better; comparable within one problem.");
  bind_field(choice, "setup_us", &Choice::setup_us,
             "Expected time that the config needs once before its runs, in microseconds: a plan, its "
             "compilation, a packed filter.");
  bind_field(choice, "suggestion_us", &Choice::suggestion_us,
             "Time that the model expects of the first suggestion of the kernels' library, in microseconds.");
  bind_field(choice, "source", &Choice::source, "The source of the fallback chain that chose.");
  bind_field(choice, "decided_by", &Choice::decided_by,
             "The source that decided when the choice was cached.");
  choice.def("__repr__", [](const NamedChoice& n) {
    return "<Choice " + name_of(n) + " by " + std::string(word(n.choice.source)) + ">";
  });
}

/// An empty text as None.
std::optional<std::string> text_or_none(const std::string& text) {
  return text.empty() ? std::nullopt : std::optional(text);
}

Verdict verdict_of(const Selector& selector, const ProblemArgument& argument,
                   const std::variant<NamedConfig, std::string>& config) {
  const Problem problem = problem_of(argument);
  const auto* const name = std::get_if<std::string>(&config);
  const KernelConfig asked = name ? parse_kernel_to_run(*name).config : std::get<NamedConfig>(config).config;
  const nb::gil_scoped_release unlocked;
  return selector.verdict(problem, asked);
}

void bind_verdict(nb::module_& module) {
  nb::class_<Verdict> verdict(
      module, "Verdict",
      "What rules say about a config for a problem.\n\n"
      "    verdict = selector.verdict(problem, 'cublaslt_gemm_bf16_rcr_v130100__a66_64x64x64_st0_s9')\n"
      "    if verdict.status == 'refused' and verdict.since:    # known to compute wrong results\n"
      "        use_another_config(verdict.because)");
  verdict.def_prop_ro(
      "status", [](const Verdict& v) { return word(v.status); },
      "allowed; refused; unknown: the rules do not know this config or this release of its library.");
  verdict.def_prop_ro(
      "rule", [](const Verdict& v) { return text_or_none(v.rule); },
      "The rule that refuses; None unless refused.");
  verdict.def_prop_ro(
      "because", [](const Verdict& v) { return text_or_none(v.because); },
      "The rule's reason, or what is unknown; None when allowed.");
  verdict.def_prop_ro(
      "since", [](const Verdict& v) { return text_or_none(v.since); },
      "Library and release in which its wrong results were first found; None where none are known.");
  verdict.def("__repr__", [](const Verdict& v) {
    return "<Verdict " + std::string(word(v.status)) + (v.rule.empty() ? "" : " by " + v.rule) + ">";
  });
}

void bind_statistics(nb::module_& module) {
  nb::class_<CacheStatistics> statistics(module, "CacheStatistics",
                                         "Counts of a selector's decision cache since its creation.");
  statistics.def_ro("hits", &CacheStatistics::hits, "Answers that were there.");
  statistics.def_ro("misses", &CacheStatistics::misses, "Choices that were not in the cache.");
  statistics.def_ro("evictions", &CacheStatistics::evictions, "Decisions given up for room.");
  statistics.def("__repr__", [](const CacheStatistics& s) {
    return "<CacheStatistics hits=" + std::to_string(s.hits) + " misses=" + std::to_string(s.misses) +
           " evictions=" + std::to_string(s.evictions) + ">";
  });
}

}  // namespace

void bind_selector(nb::module_& module) {
  bind_choice(module);
  bind_statistics(module);
  bind_verdict(module);
  nb::class_<Selector> selector(
      module, "Selector",
      "Problem in, ranked configs out, without running any. Safe to share by threads.\n\n"
      "    selector = Selector.find('fp32')\n"
      "    choice = selector.select(Gemm(16, 4096, 4096))\n"
      "    choice.name, choice.time_us");
  selector.def_static(
      "load", &load, nb::arg("model"), nb::kw_only(), nb::arg("device") = nb::none(),
      nb::arg("rules") = nb::none(), nb::arg("devices") = "same_arch", nb::arg("db") = nb::none(),
      nb::arg("threads") = 0, nb::arg("calls") = 0,
      "From a model folder or `.ksf` file. `device`: without it the one that the model was trained on. "
      "`rules`: rule set for problems that the model does not cover; without it the model's own. `devices`: "
      "which other devices' models may be used, with a warning: exact (none), same_arch or any. `db`: file "
      "of decisions that were found by timing. `threads`: max threads of one kernel on the CPU (0: "
      "KSCOUT_THREADS, else, for this machine's CPU, the fewest of OMP_NUM_THREADS, the CPUs that the "
      "process may use and its CPU quota). `calls`: charges a config's set-up over this many calls (0: not "
      "at all).");
  selector.def_static(
      "find",
      [](std::string_view dtype, std::string_view word, const std::optional<std::string>& provider,
         const DeviceArgument& device, std::string rules, std::string_view devices, const FileArgument& db,
         int threads, std::int64_t calls) {
        return Selector::find(
            parse<Op>(word), parse<DType>(dtype),
            request_of(provider.value_or(""), device, std::move(rules), devices, db, threads, calls));
      },
      nb::arg("dtype") = "fp32", nb::kw_only(), nb::arg("op") = "gemm", nb::arg("provider") = nb::none(),
      nb::arg("device") = "auto", nb::arg("rules") = "default", nb::arg("devices") = "same_arch",
      nb::arg("db") = nb::none(), nb::arg("threads") = 0, nb::arg("calls") = 0,
      "The first model for the operation, type and device on the search path, analytic costs when there is "
      "none. `provider`: without it native, cublaslt or ck_tile by the device; ck_tile for convolutions on "
      "GPUs. "
      "`threads` and `calls` as "
      "for load.");
  selector.def_static(
      "analytic",
      [](const std::optional<std::string>& provider, const DeviceArgument& device, std::string rules,
         const FileArgument& db, int threads) {
        return Selector::analytic(
            request_of(provider.value_or(""), device, std::move(rules), "exact", db, threads, 0));
      },
      nb::kw_only(), nb::arg("provider") = nb::none(), nb::arg("device") = "auto",
      nb::arg("rules") = "default", nb::arg("db") = nb::none(), nb::arg("threads") = 0,
      "Without a model: analytic costs, then the rule set's default config.");
  selector.def("reload", &Selector::reload, nb::call_guard<nb::gil_scoped_release>(),
               "Reads model, environment and file of decisions again, looking for a model as find() did; "
               "threads that select meanwhile get choices of the old model or of the new one.");
  selector.def("refresh", &Selector::refresh, nb::call_guard<nb::gil_scoped_release>(),
               "Reads the file of decisions and the environment again, not the model.");
  selector.def("clear_cache", &Selector::clear_cache, "Empties the decision cache.");
  selector.def_prop_ro("cache_statistics", &Selector::cache_statistics,
                       "Hits, misses and evictions of the decision cache.");
  selector.def_prop_ro("warnings", &Selector::warnings,
                       "Warnings about the model, such as that it was trained on another device.");
  selector.def("select", &select, nb::arg("problem"), nb::arg("by") = "best", nb::kw_only(),
               nb::arg("workspace_limit") = nb::none(), nb::arg("deterministic") = false,
               nb::arg("batch_invariant") = false,
               "The config to run. `by`: best, tflops, latency or bandwidth, as the model was trained for. "
               "`workspace_limit`: bytes of workspace at most; `deterministic`: only configs that give equal "
               "bits in every run; `batch_invariant`: only configs of the weight's class in the file of "
               "KSCOUT_CLASSES or the user's, so that a row has equal bits whatever M is (kscout classes). A "
               "config of which that is not known is left out; Unsupported when none is left.");
  selector.def("rank", &rank, nb::arg("problem"), nb::arg("count") = 5, nb::arg("by") = "best", nb::kw_only(),
               nb::arg("workspace_limit") = nb::none(), nb::arg("deterministic") = false,
               nb::arg("batch_invariant") = false,
               "The best configs, best first; fewer than `count` when fewer apply to the problem. The limits "
               "are those of select().");
  selector.def("verdict", &verdict_of, nb::arg("problem"), nb::arg("config"),
               "Whether rules refuse a config (or its name) for a problem: of any source, also of configs "
               "that this selector never chooses. Runs nothing; takes microseconds.");
  selector.def_prop_ro(
      "model_path",
      [](const Selector& s) {
        const std::filesystem::path path = s.model_path();
        return path.empty() ? std::nullopt : std::optional(path);
      },
      "Where the model was read from; None without one.");
  selector.def_prop_ro(
      "device", [](const Selector& s) { return Device(s.device()); },
      "The device for which choices are made.");
}

}  // namespace kscout::python
