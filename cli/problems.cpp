// `kscout problems`: lists, generates, reads and describes problem sets.
#include "problems.h"

#include <algorithm>
#include <map>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "core/fail.h"
#include "core/names.h"
#include "options.h"
#include "verbs.h"

namespace kscout::cli {

namespace {

struct ProblemsOptions {
  ProblemSetRequest request{.set = ""};
  std::string file, part = "all";
  double held_out = 0.2;
  SplitBy by = SplitBy::sizes;
  bool describe = false, uncovered = false;
  std::vector<std::string> exclude;
  ProblemSources sources;
  FamilyOptions family;
  Format format = Format::text;
};

void list_sets(Format format) {
  Table table({"set", "sizes", "summary"});
  for (const Operation* const one : operations()) {
    for (const auto& set : one->sets()) {
      const auto problems = one->named_set(set.name, DType::fp32, {});
      table.add_row({text(set.name), number(static_cast<std::int64_t>(problems.size())), text(set.summary)});
    }
  }
  table.print(format);
}

Cell field_cell(const Problem& problem, std::size_t at) {
  const ProblemField& field = problem.space().fields[at];
  if (field.type == FieldType::flag) return flag(problem[at] != 0);
  if (field.type == FieldType::whole) return number(problem[at]);
  if (field.type == FieldType::real) return number(number_of(field, problem[at]));
  return text(value_text(problem, at));
}

/// Text: problem texts, which every verb and read_any_problems accept. JSON and CSV: one column per field.
void print_problems(const Operation& of, const std::vector<Problem>& problems, Format format) {
  if (format == Format::text) {
    for (const Problem& problem : problems) fmt::print("{}\n", print(problem));
    return;
  }
  std::vector<std::string> names;
  for (const ProblemField& field : of.space.fields) names.emplace_back(field.name);
  Table table(std::move(names));
  for (const Problem& problem : problems) {
    std::vector<Cell> cells;
    for (std::size_t at = 0; at < of.space.fields.size(); ++at) cells.push_back(field_cell(problem, at));
    table.add_row(std::move(cells));
  }
  table.print(format);
}

/// Prints the spread of each quantity, and counts the problems per value of each slice.
void describe_problems(const Operation& of, const std::vector<Problem>& problems, Format format) {
  if (problems.empty())
    fail(Errc::invalid_argument, "no problem is left to describe; raise --max-gflop or --max-bytes");
  std::vector<ProblemDescription> all;
  for (const Problem& problem : problems) {
    auto& quantities = all.emplace_back(of.describe(problem)).quantities;
    quantities.insert(
        quantities.end(),
        {{"flops", flop_count(problem)}, {"bytes", min_bytes(problem)}, {"weight", problem.weight()}});
  }
  const ProblemDescription& first = all.front();
  Table spread({"quantity", "min", "median", "max"});
  for (std::size_t at = 0; at < first.quantities.size(); ++at) {
    std::vector<double> values;
    for (const ProblemDescription& one : all) values.push_back(one.quantities[at].second);
    std::ranges::sort(values);
    spread.add_row({text(first.quantities[at].first), number(values.front()),
                    number(values[values.size() / 2]), number(values.back())});
  }
  Table counts({"slice", "value", "problems"});
  for (std::size_t at = 0; at < first.slices.size(); ++at) {
    std::map<std::pair<std::int64_t, std::string>, std::int64_t> found;  // by place and value
    for (const ProblemDescription& one : all) ++found[{one.slices[at].place, one.slices[at].value}];
    for (const auto& [value, count] : found)
      counts.add_row({text(first.slices[at].name), text(value.second), number(count)});
  }
  if (format == Format::json) {
    fmt::print("{{\"problems\": {},\n\"spread\": {},\"counts\": {}}}\n", problems.size(),
               spread.to_string(format), counts.to_string(format));
    return;
  }
  if (format == Format::text) fmt::print("{} problems\n\n", problems.size());
  spread.print(format);
  fmt::print("\n");
  counts.print(format);
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
    Entry& entry = entries_.emplace_back(Entry{.signature = signature, .family = {}, .refusal = {}});
    try {
      entry.family = enumerate(options_.request(signature));
    } catch (const Error& error) {
      if (error.code() == Errc::invalid_argument) throw;  // the request is wrong, not the problem
      entry.refusal = error.what();
    }
    return entry;
  }

  FamilyOptions options_;
  std::vector<Entry> entries_;
};

/// Prints the problems to which no config applies; the check fails when there are any.
void print_uncovered(const std::vector<Problem>& problems, const ProblemsOptions& options) {
  if (problems.empty()) fail(Errc::invalid_argument, "no problem is left; raise --max-gflop or --max-bytes");
  const Signature first = signature_of(problems.front());
  ApplicabilityCheck check(options.family, first);
  Table table({"problem", "because"});
  for (const Problem& problem : problems) {
    if (const std::string why = check.refusal(problem); !why.empty())
      table.add_row({text(print(problem)), text(why)});
  }
  if (options.format != Format::text || table.size() != 0) table.print(options.format);
  fmt::print(stderr, "{} of {} problems are covered by no config of {} ({})\n", table.size(), problems.size(),
             options.family.request(first).provider, options.family.rules);
  if (table.size() != 0) throw CheckFailed{};
}

/// Removes the groups of --exclude, then chooses the part.
std::vector<Problem> choose_part(const Operation& of, std::vector<Problem> problems,
                                 const ProblemsOptions& options) {
  for (const std::string& source : options.exclude) {
    if (!problems.empty())
      leave_out_groups(problems, problems_of_source(of, source, options.request.dtype), options.by);
  }
  constexpr std::string_view kParts[] = {"all", "train", "held_out"};
  const std::size_t part = index_of_word("part", options.part, kParts);
  if (part == 0) return problems;
  auto parts = split_problems(problems, options.held_out, options.request.seed_of(of.ops[0]), options.by);
  return part == 1 ? parts.first : parts.second;
}

/// Makes the requested problems of one operation, chooses among them and prints them. `makes_count`: as many
/// are made as --count says.
void run_request(const ProblemsOptions& options, const Operation& of, ProblemSetRequest request,
                 bool makes_count) {
  check_op(of, request.op);
  if (!request.epilogues.empty() && !of.has_epilogues)
    fail(Errc::invalid_argument, "--epilogue: is of GEMMs; other problems have none, so leave it out");
  if (!request.packing.empty() && std::ranges::count(of.space.fields, "prepacked", &ProblemField::name) == 0)
    fail(Errc::invalid_argument, "--packing {}: the problems are {}, which have no filter; leave it out",
         request.packing, of.plural);
  if (!request.models.empty() && request.listed)
    fail(Errc::invalid_argument, "--model-name {}: chooses from a set, not from a list; leave it out",
         request.models.front());
  const std::size_t count = makes_count ? 0 : request.count;
  // The part is chosen before drawing, so that --count is the number of sizes in the part.
  if (!makes_count && (options.part != "all" || !options.exclude.empty())) request.count = 0;
  auto problems = choose_part(of, of.requested(request), options);
  if (count != 0) problems = of.drawn(std::move(problems), count, request.seed_of(of.ops[0]));
  if (options.uncovered) return print_uncovered(problems, options);
  if (options.describe) return describe_problems(of, problems, options.format);
  print_problems(of, problems, options.format);
}

/// Handles the operations of a list one after the other, each as a list of its own.
void run_list(const ProblemsOptions& options, const ProblemList& list) {
  const ProblemSetRequest& asked = options.request;
  const bool differs = asked.op || !asked.packing.empty() || !asked.epilogues.empty() ||
                       !asked.layouts.empty() || asked.count != 0;
  if (list.problems.size() > 1 && (differs || options.format != Format::text))
    fail(Errc::invalid_argument,
         "{} holds {} and {}: each may be chosen and printed on its own; select the lines of one operation, "
         "as in kscout problems {} {} | grep '^gemm' > gemms.txt",
         list.source, list.problems[0].first->plural, list.problems[1].first->plural, list.option,
         list.source);
  for (const auto& [of, problems] : list.problems) {
    ProblemSetRequest request = asked;
    request.listed = problems;
    if (list.complete) request.op.reset();
    run_request(options, *of, std::move(request), list.complete);
  }
}

void run(const ProblemsOptions& options, ReadEfficiencies read) {
  const ProblemSetRequest& request = options.request;
  const std::string &set = request.set, &file = options.file;
  if (const auto list = options.sources.list(request, read)) return run_list(options, *list);
  if (set.empty() && file.empty()) return list_sets(options.format);
  if (!set.empty() && !file.empty() && set != "file")
    fail(Errc::invalid_argument, "give a set ('{}') or --file, not both", set);
  if (!file.empty())
    return run_list(options, {"--file", file, by_operation(read_any_problems(file, request.dtype))});
  if (set == "file") fail(Errc::invalid_argument, "which file? name it with --file");
  const Operation* const known = operation_of_set(set);
  const Operation& of = known ? *known : *operations().front();  // whose error names the nearest set
  const auto info = std::ranges::find(of.sets(), set, &ProblemSetInfo::name);
  run_request(options, of, request, info != of.sets().end() && info->makes_count);
}

}  // namespace

void setup_problems(CLI::App& verb, ReadEfficiencies read) {
  auto options = std::make_shared<ProblemsOptions>();
  ProblemSetRequest& request = options->request;
  auto* const set =
      verb.add_option("set", request.set, "the set to generate; without one, the sets are listed");
  auto* const file =
      verb.add_option("--file", options->file,
                      "problems from a file: one-line forms of any operations, MxNxK or m,n,k lines, or CSV");
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
  verb.add_option("--seed", request.seed, "seed of random, conv_random, --count and --part")
      ->default_str("1; of convolutions 42");
  options->sources.add_to(verb, request, set, file, dtype);
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
  verb.callback([options, read, least, largest] {
    for (const CLI::Option* size : {least, largest}) {
      if (size->count() != 0 && options->request.set != "random")
        fail(Errc::invalid_argument, "{}: sizes are drawn for set 'random' only; leave it out",
             size->get_name());
    }
    run(*options, read);
  });
}

void setup_problems(CLI::App& verb) { setup_problems(verb, nullptr); }

}  // namespace kscout::cli
