#pragma once
/// \file
/// Options that mean the same in every verb.
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

/// --format text|json|csv; tables that have no CSV form pass csv = false.
void add_format_option(CLI::App& verb, Format& format, bool csv = true);

/// Gives an enum option its words, with the library's message for unknown ones.
template <WordEnum E>
CLI::Option* add_word_option(CLI::App& verb, const std::string& flags, E& value, const std::string& help);
/// Same for any setter of text: what add_word_option is made of.
CLI::Option* add_text_option(CLI::App& verb, const std::string& flags, const std::string& help,
                             const std::string& shown_default, std::function<void(const std::string&)> set);

/// For CLI::Option::check: a number above 0, or of at least 0. What is not finite is refused later.
std::function<std::string(const std::string&)> above_zero();
std::function<std::string(const std::string&)> not_negative();

/// Passes what an option is given to `check`, which throws invalid_argument for a wrong value.
CLI::Option* check_text(CLI::Option* option, std::function<void(const std::string&)> check);
/// For options that keep the words of an enum as text: unknown ones are wrong arguments before any work
/// begins.
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

/// One flag per field of GemmProblem (--m, --n, --k, --batch, ..., --dtype for all operands, --layout) and a
/// positional one-line form `gemm:MxNxK:...`; flags say what the one-line form leaves open.
struct ProblemOptions {
  void add_to(CLI::App& verb);
  /// Also --op, the fields of ConvProblem and its shorthands (--pad, --stride, --dilation).
  void add_all_to(CLI::App& verb);
  /// The problem asked for; throws invalid_argument when sizes are missing or wrong.
  GemmProblem problem() const;
  /// A convolution when --op or the one-line form says so. `usual`: the element type when nobody says one.
  Problem any_problem(DType usual = DType::fp32) const;
  bool given() const;

  std::string problem_text, op;
  std::vector<std::pair<std::string, std::string>> set_fields;  ///< field name, text
  std::string dtype;

 private:
  bool names_dtype() const;
  void add_flag(CLI::App& verb, const std::string& name, const std::string& help);
  /// Throws invalid_argument for a flag that says again what the one-line form says.
  void refuse_repeated() const;
  ConvProblem conv_problem(Op op) const;
};

/// --provider, --rules, --filter, --device, and the signature from --op, --dtype, --layout.
struct FamilyOptions {
  void add_to(CLI::App& verb, bool with_signature = true);
  /// `signature` of the problem when the verb takes problems.
  FamilyRequest request(const Signature& signature) const;
  Signature signature() const;

  std::string provider;  ///< empty: default_provider of the operation and the device
  std::string rules = "default", filter, device = "auto";
  Op op = Op::gemm;
  std::optional<DType> dtype;  ///< nothing: usual_dtype of the device
  std::string layout;          ///< a word; empty: rcr of a GEMM, nhwgc of a convolution
};

/// --provider, with the same words in every verb.
CLI::Option* add_provider_option(CLI::App& verb, std::string& provider, const std::string& help);
inline constexpr const char* kUsualProvider =
    "by the device: native, cublaslt or ck_tile; ck_tile for convolutions";

/// The element type that is meant for a device when nobody says one: fp32 on a CPU, bf16 on a GPU.
DType usual_dtype(const Device& device);
/// The same with a model: its own type where --device is left at auto.
DType usual_dtype(const std::string& model, const std::string& device);

/// --threads: most threads of one kernel on the CPU.
CLI::Option* add_threads_option(CLI::App& verb, int& threads);

/// The config behind a kernel's name; throws invalid_argument for a kernel of another signature, which would
/// compute something else.
KernelConfig named_config(const std::string& name, ProblemRef problem);

/// --library: kernel libraries beside those of KSCOUT_LIBRARY_PATH.
struct LibraryOptions {
  void add_to(CLI::App& verb);
  /// Registry::here() and the named libraries.
  Registry registry() const;

  std::vector<std::string> indexes;
};

/// The problems of a file, GEMMs or convolutions, as written; `usual`: the type of those that say none.
std::vector<Problem> any_problems_of(const std::filesystem::path& file, DType usual = DType::fp32);

/// What `sweep --ck-build` is told; kscout hands the command on to kscout-lab, which writes the dataset.
struct CkBuildFlags {
  void add_to(CLI::App& verb);

  std::string folder, device;
  bool verify = false;
};

/// The file that a source of problems names: one that exists, or any text with a dot or a slash. Empty for
/// the name of a set, also beside a file of that name (./smoke is the file).
std::string problem_file(const std::string& source);

/// The problems of sets and files, as written: a source is a set's name or a file. `dtype`: of sets, and of a
/// file's problems that say none. Without layouts: rcr for sets, for files what stands there.
std::vector<GemmProblem> problems_of(const std::vector<std::string>& sources, DType dtype,
                                     const std::vector<Layout>& layouts);

/// The same where sets and files may also be of convolutions (layouts are for GEMMs).
std::vector<Problem> any_problems_of(const std::vector<std::string>& sources, DType dtype,
                                     const std::vector<Layout>& layouts);

/// Warns on stderr of folders on KSCOUT_MODEL_PATH that are not there, for verbs that look for models.
void warn_of_model_path();

/// Warns on stderr of a model of a device that is none of `here`, which names this machine's.
void warn_of_absent_device(const Device& trained, std::vector<std::string> here);

/// Throws invalid_argument naming the nearest rule set.
void check_rules(const std::string& provider, Op op, const std::string& rules);

/// The selector that a verb uses: `model` when it is given, else the first model for (op, dtype, device) on
/// the search path, else analytic costs over the rule set. An unknown rule set is an error also where a model
/// answers. `device_given`: choices are for request.device; else a model that is given answers for its own.
/// Warns on stderr when the model was trained on another device than that or this machine's. Throws
/// invalid_argument when request.threads limits the kernels of a GPU.
Selector selector_for(const std::string& model, const Signature& signature, SelectorRequest request,
                      bool device_given = true);

}  // namespace kscout::cli
