/// \file
/// Implements `kscout report`, which writes one HTML page about a model, a dataset or a sweep.
#include "report/report.h"

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "core/fail.h"
#include "core/files.h"
#include "evaluate_report.h"
#include "outputs.h"
#include "sweep/journal.h"
#include "sweep/plan.h"
#include "verbs.h"

namespace kscout::cli {

namespace {

namespace fs = std::filesystem;

struct ReportOptions {
  std::string of, out;
  std::vector<std::string> data;
  bool in_sample = false;
};

enum class Subject { model, dataset, sweep };

Subject subject_of(const fs::path& path) {
  if (is_absent(path))
    fail(Errc::not_found, "there is no file or folder '{}': name a model, a dataset or a sweep",
         path.string());
  if (fs::is_directory(path)) {
    if (fs::exists(path / "model.ksf")) return Subject::model;
    if (fs::exists(path / kManifestName)) return Subject::sweep;
    fail(Errc::invalid_argument, "{} is neither a model's folder (it has no model.ksf) nor a sweep's (no {})",
         path.string(), kManifestName);
  }
  return path.extension() == ".ksf" ? Subject::model : Subject::dataset;
}

/// Reads datasets in Parquet: a roofline needs the facts of the device, which CSV lacks.
CompactTable read_parquet(const std::vector<std::string>& files) {
  for (const std::string& file : files) {
    if (file.ends_with(".csv"))
      fail(Errc::invalid_argument,
           "{}: CSV carries no facts of the device; make a dataset first: kscout dataset import {} --device "
           "NAME --out "
           "FILE.parquet",
           file, file);
  }
  return read_compact(files);
}

std::string report_of(const ReportOptions& options) {
  const Subject subject = subject_of(options.of);
  if (subject != Subject::model && (!options.data.empty() || options.in_sample))
    fail(Errc::invalid_argument, "{}: --{} is for the report of a model", options.of,
         options.data.empty() ? "in-sample" : "data");
  if (subject == Subject::sweep) return sweep_report(options.of);
  if (subject == Subject::dataset)
    return dataset_report(fs::path(options.of).filename().string(), read_parquet({options.of}));
  ModelEvaluationOptions how;
  how.in_sample = options.in_sample;
  const CompactTable data = options.data.empty() ? read_kept(options.of, how) : read_parquet(options.data);
  return model_report(options.of, data, how);
}

}  // namespace

void setup_report(CLI::App& verb) {
  const auto options = std::make_shared<ReportOptions>();
  reads_file(verb.add_option("of", options->of,
                             "a model (folder or .ksf file), a dataset in Parquet, or a sweep's folder"))
      ->required();
  reads_file(
      verb.add_option("--data", options->data,
                      "model: dataset to evaluate on; several are merged (default: what tune kept in the "
                      "model's folder)"));
  verb.add_flag("--in-sample", options->in_sample, "model: evaluate also sizes that it was trained on");
  add_out_option(verb, "--out", options->out, "the page to write, HTML")->required();
  verb.footer(
      "The page is one file: it opens in a browser without a network, and shows efficiency beside the "
      "baselines, a\n"
      "roofline, maps over sizes, calibration and the worst problems; of a sweep also its progress and "
      "failures.\n\n"
      "examples\n"
      "  kscout report data/gemm_fp32_zen3-2c.held_out.parquet --out report.html\n"
      "  kscout report models/gemm_fp32_any_cpu --data held_out.parquet --out report.html\n"
      "  kscout report runs/first --out report.html                     # after kscout sweep --out "
      "runs/first");
  verb.callback([options] { write_out(options->out, report_page(report_of(*options))); });
}

}  // namespace kscout::cli
