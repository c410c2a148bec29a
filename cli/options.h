#pragma once
/// \file
/// Defines the options that have the same meaning in every verb.
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>

#include <kscout/any_problem.h>
#include <kscout/family.h>
#include <kscout/registry.h>
#include <kscout/selector.h>

#include "manual.h"
#include "table.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace kscout::cli {

/// Adds --format text|json|csv. Pass csv = false for tables without a CSV form.
void add_format_option(CLI::App& verb, Format& format, bool csv = true);

/// Adds an option whose values are the words of an enum; an unknown word raises the library's error.
template <WordEnum E>
CLI::Option* add_word_option(CLI::App& verb, const std::string& flags, E& value, const std::string& help);
/// Adds an option that passes its text to `set`, which throws for a wrong value. add_word_option uses it.
CLI::Option* add_text_option(CLI::App& verb, const std::string& flags, const std::string& help,
                             const std::string& shown_default, std::function<void(const std::string&)> set);

/// Validators for CLI::Option::check: above_zero() requires a number above 0, not_negative() a number of at
/// least 0. Infinite and NaN values are rejected later.
std::function<std::string(const std::string&)> above_zero();
std::function<std::string(const std::string&)> not_negative();

/// Passes the value of an option to `check`, which throws invalid_argument for a wrong value.
CLI::Option* check_text(CLI::Option* option, std::function<void(const std::string&)> check);
/// For options that store the words of an enum as text: rejects unknown words before any work begins.
template <WordEnum E>
CLI::Option* check_words(CLI::Option* option) {
  offer_words(option, EnumWords<E>::words);
  return check_text(option, [](const std::string& text) { parse<E>(text); });
}

template <WordEnum E>
CLI::Option* add_word_option(CLI::App& verb, const std::string& flags, E& value, const std::string& help) {
  std::string words;
  for (const auto w : EnumWords<E>::words) words += (words.empty() ? "" : "|") + std::string(w);
  CLI::Option* const option = add_text_option(verb, flags, help + ": " + words, std::string(word(value)),
                                              [&value](const std::string& text) { value = parse<E>(text); });
  offer_words(option, EnumWords<E>::words);
  return option;
}

/// Adds a positional problem text (`gemm:MxNxK:...`, `conv_fwd:NxCxHxW:KxYxX:...`), --op, --dtype for all
/// operands, one flag per field of any operation's problems (--m, --stride-h, ...) and per general name
/// (--pad,
/// --stride, --dilation). Text and flags are fields of one problem (op/given_fields.h).
struct ProblemOptions {
  void add_to(CLI::App& verb);
  /// The requested problem: a convolution when --op or the problem text says so. `usual`: the default element
  /// type. Throws invalid_argument when sizes are missing or wrong, or a field is given twice.
  Problem any_problem(DType usual = DType::fp32) const;
  bool given() const;
  /// Throws invalid_argument when a problem, or a field of one, is given beside a list of problems; `file`:
  /// the value of --problems, may be empty.
  void refuse_beside_list(const std::string& file) const;

 private:
  CLI::Option* add_flag(CLI::App& verb, const std::string& name, const std::string& help);
  void check_sizes_given() const;

  std::string problem_text;
  std::vector<std::pair<std::string, std::string>> set_fields;  ///< field name, text
};

/// Adds --provider, --rules, --filter, --device, and the signature from --op, --dtype, --layout.
struct FamilyOptions {
  void add_to(CLI::App& verb, bool with_signature = true);
  /// Pass the problem's signature in verbs that take problems.
  FamilyRequest request(const Signature& signature) const;
  Signature signature() const;

  std::string provider;  ///< empty: default_provider of the op and the device
  std::string rules = "default", filter, device = "auto";
  Op op = Op::gemm;
  std::optional<DType> dtype;  ///< nothing: usual_dtype of the device
  std::string layout;          ///< a word; empty: the operation's default
  Epilogue epilogue = Epilogue::none;
};

/// find_device for a command line, where an unknown name is a wrong argument.
Device device_named(const std::string& name);

/// Throws invalid_argument for a formula of `flag` over the configs of a family that cannot be compiled. An
/// empty formula passes.
void check_formula(const std::string& provider, Op op, const std::string& flag, const std::string& formula);

/// Adds an option for several epilogues, comma-separated; `help` ends with their words.
CLI::Option* add_epilogues_option(CLI::App& verb, const std::string& flag, std::vector<Epilogue>& epilogues,
                                  const std::string& help);

/// Adds --layout: the layouts of the problems of sets and files, GEMMs or convolutions. `mode` begins the
/// help of an option that has an effect in one mode of the verb: "hardware: ".
CLI::Option* add_layouts_option(CLI::App& verb, std::vector<Layout>& layouts, const std::string& mode = "");

/// Adds --provider, with the same words in every verb.
CLI::Option* add_provider_option(CLI::App& verb, std::string& provider, const std::string& help);

/// The default element type of a device: fp32 on a CPU, bf16 on a GPU.
DType usual_dtype(const Device& device);
/// The default element type with a model: the model's type where --device is auto, else the device's.
DType usual_dtype(const std::string& model, const std::string& device);

/// Adds --threads: max threads of one kernel on the CPU.
CLI::Option* add_threads_option(CLI::App& verb, int& threads);

/// Adds --calls: charges the set-up of a config over that many calls.
CLI::Option* add_calls_option(CLI::App& verb, std::int64_t& calls);

/// Adds --workspace-limit, --deterministic and --policy.
void add_limits_options(CLI::App& verb, Limits& limits);
/// Adds --policy; `set` gets its word.
void add_policy_option(CLI::App& verb, std::function<void(const std::string&)> set);
/// Adds --classes: the file for --policy batch-invariant.
CLI::Option* add_classes_option(CLI::App& verb, std::string& file);
/// Throws invalid_argument for a file of classes without the policy.
void check_classes_option(const Limits& limits, const std::string& file);
/// Whether --policy asks for batch-invariant choices. Throws invalid_argument for an unknown policy.
bool is_batch_invariant(const std::string& policy);

/// The config that a kernel's name states. Throws invalid_argument for a kernel of another signature, which
/// would compute another result.
KernelConfig named_config(const std::string& name, ProblemRef problem);

/// Adds --library: kernel libraries in addition to those of KSCOUT_LIBRARY_PATH.
struct LibraryOptions {
  void add_to(CLI::App& verb);
  /// Registry::here() plus the named libraries.
  Registry registry() const;

  std::vector<std::string> indexes;
};

/// Options of `sweep --ck-build`. kscout passes the command on to kscout-lab, which writes the dataset.
struct CkBuildFlags {
  void add_to(CLI::App& verb);

  std::string folder, device;
  bool verify = false;
};

/// The file that a source of problems names: an existing file, or any text with a dot or a slash. Empty for
/// the name of a set, also where a file of that name exists (./smoke is the file).
std::string problem_file(const std::string& source);

/// Reads the problems of sets and files; a source is a set's name or a file. `dtype`: element type of sets,
/// and of a file's problems that state none. Without `layouts`: those of the sets and files.
std::vector<Problem> any_problems_of(const std::vector<std::string>& sources, DType dtype,
                                     const std::vector<Layout>& layouts);

/// The same for sources that hold several operations. The problems of a file get the layouts of their
/// operation among `layouts`, in the order in which operations appear.
std::vector<Problem> all_problems_of(const std::vector<std::string>& sources, DType dtype,
                                     const std::vector<Layout>& layouts);

/// Warns on stderr about missing folders in KSCOUT_MODEL_PATH, for verbs that search for models.
void warn_of_model_path();

/// Warns on stderr when a model was trained on a device that is not among `here`, the names of this machine's
/// devices.
void warn_of_absent_device(const Device& trained, std::vector<std::string> here);

/// Throws invalid_argument for an unknown rule set, naming the nearest one.
void check_rules(const std::string& provider, Op op, const std::string& rules);

/// Creates the selector of a verb: from `model` when given, else from the first model for (op, dtype, device)
/// on the search path, else from analytic costs over the rule set. An unknown rule set is an error even where
/// a model is found. `device_given`: selects for request.device; otherwise a given model selects for its own
/// device. Warns on stderr when the model was trained on neither that device nor this machine's. Throws
/// invalid_argument when request.threads limits the kernels of a GPU.
Selector selector_for(const std::string& model, const Signature& signature, SelectorRequest request,
                      bool device_given = true);

}  // namespace kscout::cli
