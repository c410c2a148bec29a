// `kscout export`: writes a model for programs that do not link the library.
#include <algorithm>
#include <filesystem>
#include <map>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <kscout/selector.h>

#include "core/fail.h"
#include "core/files.h"
#include "export/header.h"
#include "export/moe_json.h"
#include "export/tunableop.h"
#include "measured.h"
#include "op/gemm/tunableop.h"
#include "op/problem_sets.h"
#include "options.h"
#include "outputs.h"
#include "provider/ck_tile/export/ck_model.h"
#include "tuned.h"
#include "verbs.h"

namespace kscout::cli {

namespace {

/// The formats that can be written.
enum class ExportFormat : std::uint8_t {
  header,
  lightgbm,
  json,
  tunableop,
  hipblaslt,
  miopen_find_db,
  moe_json,
  ck_model
};

}  // namespace

}  // namespace kscout::cli

template <>
struct kscout::EnumWords<kscout::cli::ExportFormat> {
  static constexpr std::string_view what = "format";
  static constexpr std::array<std::string_view, 8> words = {
      "header", "lightgbm", "json", "tunableop", "hipblaslt", "miopen-find-db", "moe-json", "ck-model"};
};

namespace kscout::cli {

namespace {

struct ExportOptions {
  std::string model, shapes, measured, out, out_folder, target, name_space, validators;
  std::vector<std::string> tuned;
  ReadBests read = nullptr;
  FamilyOptions family;
  ExportFormat format = ExportFormat::header;
  MoeNaming moe;
};

std::optional<Target> asked_target(const ExportOptions& options) {
  if (options.target.empty()) return std::nullopt;
  return parse<Target>(options.target);
}

/// Selects for problems of any signatures. The choices may come from analytic costs, in which case there is
/// no model to name.
class AnySelector {
 public:
  explicit AnySelector(const ExportOptions& options) : options_(options) {}

  Choice select(const Problem& problem) {
    const Signature signature = signature_of(problem);
    const std::pair key(signature.op, signature.dtype_a);
    auto selector = selectors_.find(key);
    if (selector == selectors_.end()) {
      const FamilyRequest request = options_.family.request(signature);
      selector = selectors_
                     .emplace(key, selector_for(options_.model, request.signature,
                                                {request.provider, request.device, request.rules},
                                                options_.family.device != "auto"))
                     .first;
    }
    return selector->second.select(problem);
  }

 private:
  const ExportOptions& options_;
  std::map<std::pair<Op, DType>, Selector> selectors_;  // a model covers one operation and type
};

std::vector<Problem> problems_of(const ExportOptions& options) {
  return any_problems_of({options.shapes}, usual_dtype(options.model, options.family.device), {});
}

void refuse_target(const ExportOptions& options) {
  if (options.target.empty()) return;
  fail(Errc::invalid_argument,
       "--target: the lookup table holds what `kscout predict` chooses; leave it out");
}

std::string shapes_text(const ExportOptions& options) {
  if (options.format != ExportFormat::header) {
    fail(Errc::invalid_argument, "--shapes writes a lookup table, which is a header; --format {} has none",
         word(options.format));
  }
  refuse_target(options);
  AnySelector selector(options);
  std::vector<ShapeChoice> choices;
  for (const Problem& problem : problems_of(options)) choices.push_back({problem, selector.select(problem)});
  return shapes_header(std::move(choices), options.name_space);
}

/// "NAME,VALUE" of the lines of --validators; empty when the option is not given.
std::vector<std::string> validators_of(const ExportOptions& options) {
  if (options.validators.empty()) return {};
  auto validators = tunableop_validators(read_plain_text(options.validators));
  if (validators.empty())
    fail(Errc::invalid_argument, "--validators {}: has no line Validator,NAME,VALUE", options.validators);
  return validators;
}

/// Writes tables of other programs again.
std::string tuned_text(const ExportOptions& options) {
  for (const auto& [given, name] :
       {std::pair{!options.model.empty(), "--model"}, std::pair{!options.shapes.empty(), "--problems"},
        std::pair{!options.measured.empty(), "--measurements"},
        std::pair{!options.target.empty(), "--target"},
        std::pair{!options.name_space.empty(), "--namespace"}}) {
    if (given) fail(Errc::invalid_argument, "--tuned takes no {}; leave it out", name);
  }
  switch (options.format) {
    case ExportFormat::tunableop:
      return tuned_tunableop(options.tuned, validators_of(options));
    case ExportFormat::hipblaslt:
      return tuned_hipblaslt(options.tuned);
    case ExportFormat::miopen_find_db:
      return tuned_find_db(options.tuned);
    default:
      fail(Errc::invalid_argument,
           "--tuned: tables of tuned operators have --format tunableop, hipblaslt or miopen-find-db, not {}",
           word(options.format));
  }
}

/// Writes a file of tuned operators; a note on stderr counts what it does not hold.
std::string tunableop_text(const ExportOptions& options) {
  if (options.shapes.empty())
    fail(Errc::invalid_argument, "--format tunableop: which problems? give --problems FILE or a set");
  if (!options.measured.empty() || !options.name_space.empty())
    fail(Errc::invalid_argument, "--format tunableop takes no {}; leave it out",
         options.name_space.empty() ? "--measurements" : "--namespace");
  refuse_target(options);
  std::vector<std::string> validators = validators_of(options);
  if (validators.empty()) validators = {"PT_VERSION,2.14.0"};
  AnySelector selector(options);
  std::vector<ShapeChoice> choices;
  std::vector<SkippedLines> left_out;
  for (const Problem& problem : problems_of(options)) {
    try {
      choices.push_back({problem, selector.select(problem)});
    } catch (const Error& error) {
      if (error.code() != Errc::unsupported) throw;
      count_skipped(left_out, {.reason = "that no config applies to", .example = error.what()});
    }
  }
  TunableOpTable table = tunableop_table(choices, validators);
  left_out.insert(left_out.end(), table.left_out.begin(), table.left_out.end());
  if (table.solutions + table.defaults == 0)
    fail(Errc::unsupported, "no choice can be written for TunableOp; left out: {}",
         skipped_lines_text(left_out));
  fmt::print(stderr, "{} solutions of cuBLASLt {}, {} defaults; left out: {}\n", table.solutions,
             fmt::join(table.releases, ", "), table.defaults, skipped_lines_text(left_out));
  return std::move(table.text);
}

Choice measured_choice(const MeasuredBest& best) {
  Choice choice{.config = best.config, .time_us = best.time_us};
  choice.source = choice.decided_by = ChoiceSource::db;
  return choice;
}

/// Writes a table of the fastest measured configs: for all problems, or for those of --shapes.
std::string measured_text(const ExportOptions& options) {
  if (options.format != ExportFormat::header || !options.target.empty() || !options.model.empty()) {
    fail(Errc::invalid_argument,
         "--measurements writes a lookup table of the fastest configs, a header without a model; leave "
         "--model, --format and --target out");
  }
  if (!options.read) throw NeedsLab{};
  const MeasuredBests measured = options.read(options.measured);
  std::vector<ShapeChoice> choices;
  if (options.shapes.empty()) {
    for (const MeasuredBest& best : measured.best) choices.push_back({best.problem, measured_choice(best)});
    return shapes_header(std::move(choices), options.name_space);
  }
  for (const Problem& problem : any_problems_of({options.shapes}, DType::fp32, {})) {
    Problem wanted = problem;
    wanted.set_weight(1);
    const auto found = std::ranges::find_if(measured.best, [&](const MeasuredBest& best) {
      Problem of = best.problem;
      of.set_weight(1);
      return of == wanted;
    });
    if (found == measured.best.end()) {
      fail(Errc::invalid_argument,
           "--shapes {}: {} was not measured in {}; measure it, or leave --measurements out", options.shapes,
           print(problem), options.measured);
    }
    choices.push_back({problem, measured_choice(*found)});
  }
  return shapes_header(std::move(choices), options.name_space);
}

std::string model_text(const ExportOptions& options) {
  if (options.model.empty()) fail(Errc::invalid_argument, "which model? give --model FOLDER");
  const Model model = Model::load(options.model);
  switch (options.format) {
    case ExportFormat::header:
      return model_header(model, {options.name_space, asked_target(options)});
    case ExportFormat::lightgbm:
      return model_lightgbm(model, asked_target(options));
    case ExportFormat::json:
      return model_json(model);
    case ExportFormat::tunableop:
    case ExportFormat::hipblaslt:
    case ExportFormat::miopen_find_db:
    case ExportFormat::moe_json:
    case ExportFormat::ck_model:
      break;
  }
  return {};
}

/// The fastest measured configs of a layer's problems, or a model's choices for the problems of --shapes.
std::vector<ShapeChoice> moe_choices(const ExportOptions& options) {
  if (options.measured.empty() == options.shapes.empty())
    fail(Errc::invalid_argument,
         "--format moe-json: give --measurements of a layer, or --problems for which a model chooses");
  std::vector<ShapeChoice> choices;
  if (options.measured.empty()) {
    AnySelector selector(options);
    for (const Problem& problem : problems_of(options))
      choices.push_back({problem, selector.select(problem)});
    return choices;
  }
  if (!options.model.empty())
    fail(Errc::invalid_argument, "--measurements: the fastest configs need no --model; leave it out");
  if (!options.read) throw NeedsLab{};
  for (const MeasuredBest& best : options.read(options.measured).best)
    choices.push_back({best.problem, measured_choice(best)});
  return choices;
}

/// The table; written into the folder --out-folder, with that file's name instead.
std::string moe_text(const ExportOptions& options) {
  if (!options.name_space.empty())
    fail(Errc::invalid_argument, "--format moe-json takes no --namespace; leave it out");
  refuse_target(options);
  MoeTable table = moe_table(moe_choices(options), options.moe);
  if (options.out_folder.empty()) return std::move(table.text);
  std::error_code error;
  std::filesystem::create_directories(options.out_folder, error);
  if (error)
    fail(Errc::device_failure, "--out-folder {}: it cannot be made: {}", options.out_folder, error.message());
  const std::string file = (std::filesystem::path(options.out_folder) / table.name).string();
  write_out(file, table.text);
  return file + "\n";
}

/// Writes a folder for CK Tile's scripts.
void export_ck_model(const ExportOptions& options) {
  if (options.model.empty()) fail(Errc::invalid_argument, "which model? give --model FOLDER");
  if (options.out.empty() || options.out == "-")
    fail(Errc::invalid_argument, "--format ck-model writes a folder; give --out FOLDER");
  if (!options.shapes.empty() || !options.measured.empty() || !options.name_space.empty())
    fail(Errc::invalid_argument,
         "--format ck-model takes no --problems, --measurements and --namespace; leave them out");
  const std::filesystem::path manifest = std::filesystem::path(options.model) / "train_manifest.json";
  const auto files = ck_model_files(Model::load(options.model),
                                    {.target = asked_target(options),
                                     .manifest = is_absent(manifest) ? std::filesystem::path() : manifest});
  write_new_folder(options.out, files);
  fmt::print(stderr, "{}: {} files\n", options.out, files.size());
}

void export_verb(const ExportOptions& options) {
  if (!options.validators.empty() && options.format != ExportFormat::tunableop)
    fail(Errc::invalid_argument, "--validators is for --format tunableop; leave it out");
  if (options.tuned.empty() &&
      (options.format == ExportFormat::hipblaslt || options.format == ExportFormat::miopen_find_db))
    fail(Errc::invalid_argument, "--format {}: which tables? give --tuned FILE", word(options.format));
  const bool moe = options.format == ExportFormat::moe_json && options.tuned.empty();
  const bool of_moe = options.moe.top_k != 0 || !options.moe.device_name.empty() ||
                      !options.moe.block_shape.empty() || !options.out_folder.empty();
  if (!moe && of_moe)
    fail(Errc::invalid_argument,
         "--top-k, --device-name, --block-shape and --out-folder are for --format moe-json; leave them out");
  if (options.format == ExportFormat::ck_model && options.tuned.empty()) return export_ck_model(options);
  const std::string text = moe                                         ? moe_text(options)
                           : !options.tuned.empty()                    ? tuned_text(options)
                           : options.format == ExportFormat::tunableop ? tunableop_text(options)
                           : !options.measured.empty()                 ? measured_text(options)
                           : options.shapes.empty()                    ? model_text(options)
                                                                       : shapes_text(options);
  if (options.out.empty()) {
    fmt::print("{}", text);
    return;
  }
  write_out(options.out, text);
  fmt::print(stderr, "{}: {} bytes\n", options.out, text.size());
}

}  // namespace

void setup_export(CLI::App& verb, ReadBests read) {
  const auto options = std::make_shared<ExportOptions>();
  options->read = read;
  reads_file(verb.add_option("--model", options->model, "model folder or .ksf file"));
  add_word_option(verb, "--format", options->format, "what to write");
  CLI::Option* const shapes = reads_file(
      verb.add_option(
          "--shapes,--problems", options->shapes,
          "write a table for the problems of this file (lines gemm:MxNxK..., MxNxK or "
          "conv_fwd:NxCxHxW:KxYxX..., or CSV; one operation) or set instead of the model; without --model "
          "the one that `predict` would find"),
      problem_file);
  reads_file(
      verb.add_option("--measurements", options->measured,
                      "write a lookup table of the fastest measured configs: a dataset (.parquet) or the "
                      "folder of a sweep; with --shapes only for those problems"));
  check_words<Target>(
      verb.add_option("--target", options->target,
                      "this target's forest: tflops|latency|bandwidth|relative|rank (the model's default)"));
  verb.add_option("--namespace", options->name_space,
                  "namespace of the header (default: from op, type and device)");
  add_provider_option(verb, options->family.provider, "for --shapes without a model")->needs(shapes);
  verb.add_option("--rules", options->family.rules, "for --shapes without a model")
      ->capture_default_str()
      ->needs(shapes);
  verb.add_option("--device", options->family.device,
                  "for --shapes without --model: a preset's name, or auto")
      ->capture_default_str()
      ->needs(shapes);
  reads_file(verb.add_option(
      "--tuned", options->tuned,
      "tunableop, hipblaslt, miopen-find-db: write these tables of tuned operators again, merged; of GEMMs "
      "those of TunableOp and hipBLASLt, else find databases of MIOpen"));
  reads_file(verb.add_option(
      "--validators", options->validators,
      "tunableop: the Validator lines of this file, which PyTorch wrote (default: of PyTorch 2.14.0)"));
  verb.add_option("--top-k", options->moe.top_k, "moe-json: experts of each token");
  verb.add_option("--device-name", options->moe.device_name,
                  "moe-json: the GPU's name as torch.cuda.get_device_name() gives it");
  verb.add_option("--block-shape", options->moe.block_shape,
                  "moe-json: of quantised weights, such as 128,128");
  CLI::Option* const out = add_out_option(verb, "--out", options->out, "write to this file");
  verb.add_option("--out-folder", options->out_folder,
                  "moe-json: write into this folder, under the name for which engines look")
      ->excludes(out);
  verb.footer(
      "header    one C++17 header without any dependency: select(problem) gives the model's choice\n"
      "lightgbm  a target's forest as a LightGBM text model, for tools that read those\n"
      "json      everything that the model file holds\n"
      "tunableop tuned GEMMs for PyTorch's TunableOp, which reads cuBLASLt's algorithms\n"
      "hipblaslt tuned GEMMs of --tuned for HIPBLASLT_TUNING_OVERRIDE_FILE\n"
      "miopen-find-db  find databases of --tuned, *.ufdb.txt\n"
      "moe-json  the table of a mixture-of-experts layer that vLLM and SGLang read\n"
      "ck-model  a folder for CK Tile's scripts, of a model with a published schema (--out: a new folder)\n\n"
      "examples\n"
      "  kscout export --model models/gemm_fp32_any_cpu --out gemm_fp32.h\n"
      "  kscout export --model models/conv_fwd_bf16_gfx950 --out conv_fwd.h\n"
      "  kscout export --measurements runs/here --out best.h\n"
      "  kscout export --shapes shapes.txt --namespace my_shapes --out my_shapes.h\n"
      "  kscout export --model models/gemm_fp32_any_cpu --format lightgbm --out gemm_fp32.txt\n"
      "  kscout export --model models/gemm_bf16_h200 --format tunableop --problems llm --out tuned0.csv\n"
      "  kscout export --format moe-json --measurements layer.parquet --top-k 8 --device-name 'NVIDIA H200' "
      "--out "
      "tables\n"
      "  kscout export --model models/ck --format ck-model --out grouped_conv_forward_bf16_gfx950\n\n"
      "exit status: 0 done, 2 wrong arguments, 3 no config can take a problem, 4 file failure");
  verb.callback([options] { export_verb(*options); });
}

}  // namespace kscout::cli
