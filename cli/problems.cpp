// `kscout problems`: lists, generates, reads and describes problem sets.
#include "problems.h"

#include <algorithm>
#include <map>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/fail.h"
#include "core/field_text.h"
#include "core/files.h"
#include "logs/call_log.h"
#include "op/conv/conv_kind.h"
#include "op/conv/conv_sets.h"
#include "op/gemm/gemm_sets.h"
#include "op/gemm/tunableop.h"
#include "op/problem_sets.h"
#include "options.h"
#include "verbs.h"

namespace kscout::cli {

namespace {

struct ProblemsOptions {
  ProblemSetRequest request;
  std::string set, part = "all";
  double held_out = 0.2;
  SplitBy by = SplitBy::sizes;
  bool describe = false, uncovered = false;
  bool dtype_given = false;
  std::string op, packing;                ///< of convolutions; empty: the set's
  std::string miopen, tunableop, top_up;  ///< files
  std::vector<std::string> logs;          ///< files
  std::vector<std::string> merge, exclude;
  TopUpRequest wanted;
  double below = 90;
  std::uint64_t seed = 42;  ///< for sets of convolutions
  FamilyOptions family;
  Format format = Format::text;
};

void list_sets(Format format) {
  Table table({"set", "sizes", "summary"});
  for (const Operation* const one : operations()) {
    const DType dtype = one == &operation(Op::gemm) ? DType::fp32 : DType::bf16;
    for (const auto& set : one->sets()) {
      const auto problems = one->named_set(set.name, dtype, {});
      table.add_row({text(set.name), number(static_cast<std::int64_t>(problems.size())), text(set.summary)});
    }
  }
  table.print(format);
}

/// Text: problem texts, which every verb and read_problems accept. JSON and CSV: one column per field.
template <class P>
void print_problems(const std::vector<P>& problems, Format format) {
  if (format == Format::text) {
    for (const auto& problem : problems) fmt::print("{}\n", print(problem));
    return;
  }
  const auto names = field_names<P>();
  Table table({names.begin(), names.end()});
  for (const auto& problem : problems) table.add_row(field_cells(problem));
  table.print(format);
}

/// Adds minimum, median and maximum of a quantity.
void add_spread(Table& table, std::string_view name, std::vector<double> values) {
  std::ranges::sort(values);
  table.add_row(
      {text(name), number(values.front()), number(values[values.size() / 2]), number(values.back())});
}

/// Counts the problems per value of `of`, in ascending order of the values.
template <class P, class F>
void add_counts(Table& table, std::string_view slice, const std::vector<P>& problems, F&& of) {
  std::map<std::invoke_result_t<F, const P&>, std::int64_t> counts;
  for (const P& problem : problems) ++counts[of(problem)];
  for (const auto& [value, count] : counts) {
    if constexpr (WordEnum<std::remove_cvref_t<decltype(value)>>) {
      table.add_row({text(slice), text(word(value)), number(count)});
    } else {
      table.add_row({text(slice), text(value), number(count)});
    }
  }
}

/// The contents of --describe for one kind of problems: quantities, and the slices to count.
struct Description {
  Table spread{{"quantity", "min", "median", "max"}};
  Table counts{{"slice", "value", "problems"}};

  template <class P, class F>
  void add(std::string_view quantity, const std::vector<P>& problems, F&& of) {
    std::vector<double> values;
    for (const P& problem : problems) values.push_back(static_cast<double>(of(problem)));
    add_spread(spread, quantity, std::move(values));
  }
  template <class P>
  void add_costs(const std::vector<P>& problems) {
    add("flops", problems, [](const P& p) { return flop_count(p); });
    add("bytes", problems, [](const P& p) { return min_bytes(p); });
    add("weight", problems, [](const P& p) { return p.weight; });
  }
};

Description description_of(const std::vector<GemmProblem>& problems) {
  using P = GemmProblem;
  Description about;
  about.add("m", problems, [](const P& p) { return p.m; });
  about.add("n", problems, [](const P& p) { return p.n; });
  about.add("k", problems, [](const P& p) { return p.k; });
  about.add_costs(problems);
  add_counts(about.counts, "shape family", problems, [](const P& p) { return shape_family(p); });
  add_counts(about.counts, "depth regime", problems, [](const P& p) { return depth_regime(p); });
  add_counts(about.counts, "outline", problems, [](const P& p) { return outline(p); });
  add_counts(about.counts, "layout", problems, [](const P& p) { return p.layout; });
  add_counts(about.counts, "dtype", problems, [](const P& p) { return p.dtype_a; });
  return about;
}

Description description_of(const std::vector<ConvProblem>& problems) {
  using P = ConvProblem;
  Description about;
  for_each_field<P>([&](const auto& field) {
    using V = std::remove_cvref_t<decltype(problems.front().*field.member)>;
    if constexpr (std::is_same_v<V, std::int64_t>)
      about.add(field.name, problems, [&](const P& p) { return p.*field.member; });
  });
  about.add("gemm m", problems, [](const P& p) { return implicit_gemm(p).m; });
  about.add("gemm n", problems, [](const P& p) { return implicit_gemm(p).n; });
  about.add("gemm k", problems, [](const P& p) { return implicit_gemm(p).k; });
  about.add_costs(problems);
  add_counts(about.counts, "op", problems, [](const P& p) { return p.op; });
  add_counts(about.counts, "convolution", problems, conv_kind);
  add_counts(about.counts, "filter", problems,
             [](const P& p) { return fmt::format("{}x{}x{}", p.z, p.y, p.x); });
  add_counts(about.counts, "layout", problems, [](const P& p) { return p.layout; });
  add_counts(about.counts, "dtype", problems, [](const P& p) { return p.dtype_in; });
  return about;
}

template <class P>
void describe_problems(const std::vector<P>& problems, Format format) {
  if (problems.empty())
    fail(Errc::invalid_argument, "no problem is left to describe; raise --max-gflop or --max-bytes");
  const Description about = description_of(problems);
  if (format == Format::json) {
    fmt::print("{{\"problems\": {},\n\"spread\": {},\"counts\": {}}}\n", problems.size(),
               about.spread.to_string(format), about.counts.to_string(format));
    return;
  }
  if (format == Format::text) fmt::print("{} problems\n\n", problems.size());
  about.spread.print(format);
  fmt::print("\n");
  about.counts.print(format);
}

/// Checks whether any config of the provider applies to a problem, and returns the reason when none does.
/// Families are cached by signature.
class ApplicabilityCheck {
 public:
  ApplicabilityCheck(const FamilyOptions& options, const Signature& signature) : options_(options) {
    check_formula(options.request(signature).provider, signature.op, "--filter", options.filter);
  }

  std::string refusal(ProblemRef problem) {
    const Entry& entry = entry_of(signature_of(problem));
    if (!entry.refusal.empty()) return entry.refusal;
    std::vector<std::uint8_t> applicable;
    applicable_configs(entry.family, problem, applicable);
    if (std::ranges::find(applicable, 1) != applicable.end()) return {};
    return fmt::format("applicability rules keep all {} configs from it", applicable.size());
  }

 private:
  struct Entry {
    Signature signature;
    Family family;
    std::string refusal;
  };
  const Entry& entry_of(const Signature& signature) {
    const auto known = std::ranges::find(entries_, signature, &Entry::signature);
    if (known != entries_.end()) return *known;
    Entry entry{.signature = signature, .family = {}, .refusal = {}};
    try {
      entry.family = enumerate(options_.request(signature));
    } catch (const Error& error) {
      if (error.code() == Errc::invalid_argument) throw;  // the request is wrong, not the problem
      entry.refusal = error.what();
    }
    return entries_.emplace_back(std::move(entry));
  }

  FamilyOptions options_;
  std::vector<Entry> entries_;
};

/// Prints the problems to which no config applies; the check fails when there are any.
template <class P>
void print_uncovered(const std::vector<P>& problems, const ProblemsOptions& options) {
  if (problems.empty()) fail(Errc::invalid_argument, "no problem is left; raise --max-gflop or --max-bytes");
  const Signature first = signature_of(problems.front());
  ApplicabilityCheck check(options.family, first);
  Table table({"problem", "because"});
  for (const auto& problem : problems) {
    if (const std::string why = check.refusal(problem); !why.empty())
      table.add_row({text(print(problem)), text(why)});
  }
  if (options.format != Format::text || table.size() != 0) table.print(options.format);
  fmt::print(stderr, "{} of {} problems are covered by no config of {} ({})\n", table.size(), problems.size(),
             options.family.request(first).provider, options.family.rules);
  if (table.size() != 0) throw CheckFailed{};
}

/// Reads a set or a file of problems of one operation.
std::vector<Problem> source_like(const Problem& kind, const std::string& source, DType dtype) {
  const Operation& of = operation(kind.kind());
  return operation_of_set(source) == &of ? of.named_set(source, dtype, {})
                                         : of.listed(read_problem_text(source), source, dtype, /*wanted=*/{});
}
template <ProblemStruct P>
std::vector<P> source_like(const P& kind, const std::string& source, DType dtype) {
  return structs_of<P>(source_like(Problem(kind), source, dtype));
}

/// Removes the groups of --exclude, then chooses the part.
template <class P>
std::vector<P> choose_part(std::vector<P> problems, const ProblemsOptions& options, std::uint64_t seed) {
  for (const std::string& source : options.exclude)
    if (!problems.empty())
      leave_out_groups(problems, source_like(problems.front(), source, options.request.dtype), options.by);
  constexpr std::string_view kParts[] = {"all", "train", "held_out"};
  const std::size_t part = index_of_word("part", options.part, kParts);
  if (part == 0) return problems;
  auto parts = split_problems(problems, options.held_out, seed, options.by);
  return part == 1 ? parts.first : parts.second;
}

/// Chooses the part before drawing, so that --count is the number of sizes in the part.
std::vector<GemmProblem> chosen_problems(const ProblemsOptions& options) {
  ProblemSetRequest request = options.request;
  if ((options.part != "all" || !options.exclude.empty()) && request.set != "random") request.count = 0;
  std::vector<GemmProblem> problems = choose_part(make_problem_set(request), options, request.seed);
  if (request.count != options.request.count) sample_sizes(problems, options.request.count, request.seed);
  return problems;
}

Op direction_of(const ProblemsOptions& options) {
  const Op op = options.op.empty() ? Op::conv_fwd : parse<Op>(options.op);
  if (!is_direction(op))
    fail(Errc::invalid_argument, "--op {}: is no direction of a convolution", options.op);
  return op;
}

std::vector<ConvProblem> convolutions_of(const ProblemsOptions& options, ReadEfficiencies read) {
  const ProblemSetRequest& request = options.request;
  if (!options.miopen.empty()) {
    MiopenProblems log =
        miopen_problems(read_plain_text(options.miopen),
                        {.op = direction_of(options),
                         .dtype = options.dtype_given ? std::optional(request.dtype) : std::nullopt,
                         .count = request.count == 0 ? 300 : request.count,
                         .seed = options.seed});
    fmt::print(stderr, "{}: {} lines, {} problems; left out: {}\n", options.miopen, log.lines,
               log.problems.size(), skipped_lines_text(log.left_out));
    return std::move(log.problems);
  }
  if (!options.top_up.empty()) {
    TopUpRequest wanted = options.wanted;
    wanted.below = options.below / 100;
    if (request.count != 0) wanted.count = request.count;
    return top_up(read(options.top_up), wanted);
  }
  std::vector<ConvProblem> problems;
  if (options.merge.empty()) {
    problems = request.text
                   ? parse_problems_of<ConvProblem>(*request.text, request.file.string(), request.dtype)
                   : make_conv_set({.name = request.set,
                                    .dtype = request.dtype,
                                    .networks = request.models,
                                    .count = request.count,
                                    .seed = options.seed,
                                    .max_gflop = request.max_gflop,
                                    .max_bytes = request.max_bytes});
  }
  for (const std::string& source : options.merge) {
    const auto more = source_like(ConvProblem{}, source, request.dtype);
    problems.insert(problems.end(), more.begin(), more.end());
  }
  if (!options.op.empty()) {
    const Op op = direction_of(options);
    for (ConvProblem& problem : problems) problem = in_direction(problem, op);
  }
  if (!options.packing.empty()) problems = with_packing(problems, parse<Packing>(options.packing));
  return merge_equal(problems);
}

/// Handles convolutions of a file or a set.
void run_convolutions(const ProblemsOptions& options, ReadEfficiencies read) {
  const ProblemSetRequest& request = options.request;
  auto problems = in_layouts(convolutions_of(options, read), request.layouts);
  std::erase_if(problems, [&](const ConvProblem& p) {
    return flop_count(p) > 1e9 * request.max_gflop || min_bytes(p) > request.max_bytes;
  });
  problems = choose_part(std::move(problems), options, options.seed);
  const bool drawn = !options.miopen.empty() || !options.top_up.empty() || request.set == "conv_random";
  if (request.count != 0 && !drawn) problems = stratified(problems, request.count, options.seed);
  if (options.uncovered) return print_uncovered(problems, options);
  if (options.describe) return describe_problems(problems, options.format);
  print_problems(problems, options.format);
}

/// Handles problems of an operation other than GEMMs and convolutions.
void run_others(const ProblemsOptions& options, const Operation& of) {
  const ProblemSetRequest& request = options.request;
  auto problems = merge_equal(
      request.text ? of.listed(*request.text, request.file.string(), request.dtype, request.layouts)
                   : of.named_set(request.set, request.dtype, request.layouts));
  std::erase_if(problems, [&](const Problem& p) {
    return flop_count(p) > 1e9 * request.max_gflop || min_bytes(p) > request.max_bytes;
  });
  problems = choose_part(std::move(problems), options, request.seed);
  if (request.count != 0 && request.count < problems.size()) {
    // A seed of its own, so that the draw does not depend on the part.
    const auto place = [&](const Problem& p) { return group_fraction(p, mix_hash(request.seed, 1)); };
    std::vector<double> places;
    for (const Problem& problem : problems) places.push_back(place(problem));
    std::ranges::nth_element(places, places.begin() + static_cast<std::ptrdiff_t>(request.count));
    std::erase_if(problems, [&](const Problem& p) { return place(p) >= places[request.count]; });
  }
  if (options.uncovered) return print_uncovered(problems, options);
  if (options.describe || options.format != Format::text) {
    fail(Errc::unsupported, "--describe and --format json or csv: not for {}; leave them out", of.plural);
  }
  for (const Problem& problem : problems) fmt::print("{}\n", print(problem));
}

/// The GEMMs of a file of PyTorch's TunableOp, as a text of problems.
std::string tunableop_text(const std::string& source) {
  const TunableOpFile file = read_tunableop(read_problem_text(source), source);
  fmt::print(stderr, "{}: {} lines, {} problems; left out: {}\n", source, file.lines, file.problems.size(),
             skipped_lines_text(file.left_out));
  std::string text;
  for (const GemmProblem& problem : file.problems) text += print(problem) + '\n';
  return text;
}

/// The problems of all logs as a text of problems, whose weights are the calls: the GEMMs first.
std::string text_of_logs(const std::vector<std::string>& files) {
  CallLog all;
  for (const std::string& file : files) {
    const CallLog log = read_call_log_file(file);
    fmt::print(stderr, "{}: {}\n", file, log.summary());
    for (const Problem& problem : log.problems) all.add(problem, problem.weight());
  }
  std::string text;
  for (const Operation* const one : operations()) {
    for (const Problem& problem : all.problems)
      if (&operation(problem.op()) == one) text += print(problem) + '\n';
  }
  return text;
}

void run(ProblemsOptions& options, ReadEfficiencies read);

/// Handles a file with problems of several operations: one after the other, each as a file of its own.
void run_each(const ProblemsOptions& options, ReadEfficiencies read,
              const std::vector<std::pair<const Operation*, std::string>>& texts) {
  const bool differs = !options.op.empty() || !options.packing.empty() ||
                       !options.request.epilogues.empty() || !options.request.layouts.empty() ||
                       options.request.count != 0;
  const std::string file = options.request.file.string();
  if (differs || options.format != Format::text)
    fail(Errc::invalid_argument,
         "{} holds {} and {}: each may be chosen and printed on its own; select the lines of one operation, "
         "as in kscout problems {} {} | grep '^gemm' > gemms.txt",
         file, texts[0].first->plural, texts[1].first->plural, options.logs.empty() ? "--file" : "--from-log",
         file);
  for (const auto& [operation, text] : texts) {
    ProblemsOptions own = options;
    own.request.text = text;
    run(own, read);
  }
}

void run(ProblemsOptions& options, ReadEfficiencies read) {
  if (!options.top_up.empty() && !read) throw NeedsLab{};
  const auto gemms_only = [&] {
    if (!options.request.epilogues.empty())
      fail(Errc::invalid_argument, "--epilogue: is of GEMMs; other problems have none, so leave it out");
  };
  const auto run_of_convolutions = [&] {
    gemms_only();
    run_convolutions(options, read);
  };
  if (!options.top_up.empty() || !options.miopen.empty() || !options.merge.empty())
    return run_of_convolutions();
  if (options.set.empty() && options.request.file.empty() && options.tunableop.empty() &&
      options.logs.empty())
    return list_sets(options.format);
  if (!options.set.empty() && !options.request.file.empty() && options.set != "file") {
    fail(Errc::invalid_argument, "give a set ('{}') or --file, not both", options.set);
  }
  if (!options.tunableop.empty()) {
    options.request.file = options.tunableop;
    options.request.text = tunableop_text(options.tunableop);
  }
  if (!options.logs.empty() && !options.request.text) {
    options.request.file = fmt::format("{}", fmt::join(options.logs, " "));
    options.request.text = text_of_logs(options.logs);
  }
  options.request.set = options.request.file.empty() ? options.set : "file";
  if (options.request.set == "file" && options.request.file.empty())
    fail(Errc::invalid_argument, "which file? name it with --file");
  if (options.request.set == "file" && !options.request.text)
    options.request.text = read_problem_text(options.request.file);
  if (options.request.text) {
    const auto texts = texts_by_operation(*options.request.text);
    if (texts.size() > 1) return run_each(options, read, texts);
  }
  if (options.request.text &&
      same_operation(operation_of_text(*options.request.text).ops.front(), Op::conv_fwd))
    return run_of_convolutions();
  if (is_conv_set(options.request.set)) return run_of_convolutions();
  const Operation* const found = options.request.text ? &operation_of_text(*options.request.text)
                                                      : operation_of_set(options.request.set);
  const Operation& of = found ? *found : operation(Op::gemm);
  if (!options.op.empty())
    fail(Errc::invalid_argument, "--op {}: the problems are {}; leave it out", options.op, of.plural);
  if (&of != &operation(Op::gemm)) {
    gemms_only();
    return run_others(options, of);
  }
  const auto problems = chosen_problems(options);
  if (options.uncovered) return print_uncovered(problems, options);
  if (options.describe) return describe_problems(problems, options.format);
  print_problems(problems, options.format);
}

}  // namespace

void setup_problems(CLI::App& verb, ReadEfficiencies read) {
  auto options = std::make_shared<ProblemsOptions>();
  ProblemSetRequest& request = options->request;
  auto* const set =
      verb.add_option("set", options->set, "the set to generate; without one, the sets are listed");
  auto* const file = verb.add_option(
      "--file", request.file,
      "problems from a file: one-line forms of GEMMs or convolutions, MxNxK or m,n,k lines, or CSV");
  auto* const dtype = add_word_option(
      verb, "--dtype", request.dtype,
      "element type of a generated set, and of a file's problems without one; --from-miopen: of all problems "
      "(without it, each line's)");
  add_layouts_option(verb, request.layouts);
  add_epilogues_option(verb, "--epilogue", request.epilogues,
                       "GEMMs: epilogues of each problem, comma-separated (none, of a file as stated)");
  verb.add_option("--model-name", request.models,
                  "of sets llm, llm_2025 and conv_networks: only this model's layers; may be repeated");
  verb.add_option("--max-gflop", request.max_gflop, "leave out problems with more operations")
      ->check(not_negative(), "NONNEGATIVE");
  verb.add_option("--max-bytes", request.max_bytes, "leave out problems whose operands are larger in total")
      ->check(not_negative(), "NONNEGATIVE");
  verb.add_option("--count", request.count,
                  "number of sizes to keep, drawn by --seed (random, conv_random: number to make, 200)");
  const auto* const seed =
      verb.add_option("--seed", request.seed, "seed of random, conv_random, --count and --part")
          ->default_str("1; of convolutions 42");
  check_words<Op>(verb.add_option("--op", options->op, "convolutions: direction that replaces the set's"));
  auto* const packing = verb.add_option(
      "--packing", options->packing,
      "convolutions: filters that are packed 'once' for many calls (inference) or 'per_call' (training), or "
      "each problem in 'both' forms, with half of the calls each; default: the set's");
  check_words<Packing>(packing);
  auto* const miopen = verb.add_option(
      "--from-miopen", options->miopen,
      "convolutions of a log with MIOpenDriver's command lines, long or short flags, in direction --op "
      "(conv_fwd): at most two of a kind, 300 or --count in all; what is left out is counted by reason");
  auto* const tunableop = verb.add_option(
      "--from-tunableop", options->tunableop,
      "GEMMs of a file of PyTorch's TunableOp, untuned or tuned; what is left out is counted by reason");
  auto* const logs = verb.add_option("--from-log", options->logs,
                                     "what applications ran, with the number of calls as weights: a record "
                                     "of kscout exec, a trace of PyTorch's "
                                     "profiler (record_shapes), logs of KSCOUT_LOG, cuBLASLt, hipBLASLt, "
                                     "cuDNN, oneDNN, MIOpen, TunableOp; also "
                                     "several files, .gz too");
  auto* const merge = verb.add_option("--merge", options->merge,
                                      "join sets or files of convolutions, equal problems once; with "
                                      "--count, that many, each kind in proportion");
  auto* const top_up = verb.add_option(
      "--top-up", options->top_up,
      "oof_predictions.parquet of a model: more problems of the kinds that it chose badly for");
  verb.add_option("--below", options->below, "--top-up: of kinds with a mean efficiency below this, %")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 100.0))
      ->needs(top_up);
  verb.add_option("--also", options->wanted.also, "--top-up: of these kinds too, e.g. n=2,grouped")
      ->needs(top_up);
  verb.add_option("--density", options->wanted.density, "--top-up: 2 for a finer grid")
      ->capture_default_str()
      ->check(CLI::Range(1, 2))
      ->needs(top_up);
  for (CLI::Option* const one : {miopen, merge, top_up, tunableop, logs}) one->excludes(set)->excludes(file);
  tunableop->excludes(miopen)->excludes(merge)->excludes(top_up);
  for (CLI::Option* const one : {miopen, merge, top_up, tunableop, dtype}) logs->excludes(one);
  miopen->excludes(merge)->excludes(top_up);
  merge->excludes(top_up);
  packing->excludes(miopen)->excludes(top_up);
  const auto* const least =
      verb.add_option("--min-size", request.min_size, "smallest m, n, k of random")->capture_default_str();
  const auto* const largest =
      verb.add_option("--max-size", request.max_size, "largest m, n, k of random")->capture_default_str();
  auto* const part =
      verb.add_option("--part", options->part, "all|train|held_out: parts never share a group of --by")
          ->capture_default_str();
  verb.add_option("--held-out", options->held_out, "share of groups that are held out")
      ->capture_default_str()
      ->check(CLI::Range(0.01, 0.99))
      ->needs(part);
  add_word_option(
      verb, "--by", options->by,
      "what a group has in common. sizes: every size; weights: n, k of a GEMM, the channels, groups and "
      "filter of a convolution, whatever its stride and dilation; geometry: n, k of a GEMM, every size of a "
      "convolution but the number of images");
  verb.add_option("--exclude", options->exclude,
                  "leave out problems whose group of --by is in this file or set; may be repeated");
  verb.add_flag("--describe", options->describe, "print counts and ranges instead of the problems");
  auto* const uncovered =
      verb.add_flag("--uncovered", options->uncovered,
                    "print the problems that no config of a family applies to; exit 1 if any");
  add_format_option(verb, options->format);
  options->family.add_to(verb, false);
  for (const char* name : {"--provider", "--rules", "--filter", "--device"})
    verb.get_option(name)->needs(uncovered);
  verb.footer(
      "Example: kscout problems llm --max-gflop 10 --layout rcr,rrr --describe\n"
      "         kscout problems --from-miopen driver.log --dtype bf16 > shapes.txt\n"
      "         kscout problems --from-log trace.json > shapes.txt\n"
      "         kscout problems --from-tunableop tunableop_untuned0.csv > shapes.txt\n"
      "         kscout problems --top-up models/mine/oof_predictions.parquet --count 200\n"
      "         kscout problems --file mine.csv --uncovered --provider ck_tile --device gfx950\n"
      "--provider, --rules, --filter and --device are those of --uncovered.");
  verb.callback([options, read, seed, dtype, least, largest] {
    if (seed->count() != 0) options->seed = options->request.seed;
    options->dtype_given = dtype->count() != 0;
    for (const CLI::Option* size : {least, largest}) {
      if (size->count() != 0 && options->set != "random")
        fail(Errc::invalid_argument, "{}: sizes are drawn for set 'random' only; leave it out",
             size->get_name());
    }
    run(*options, read);
  });
}

void setup_problems(CLI::App& verb) { setup_problems(verb, nullptr); }

}  // namespace kscout::cli
