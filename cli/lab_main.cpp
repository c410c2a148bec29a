#include "explain.h"
#include "feature_matrix.h"
#include "measured.h"
#include "problems.h"
#include "train/train.h"
#include "verbs.h"

namespace kscout::cli {

// One line per verb, here and below, in the order of kVerbs.
void setup_tune(CLI::App& verb);
void setup_dataset(CLI::App& verb);
void setup_import(CLI::App& verb);
void setup_train(CLI::App& verb);
void setup_evaluate(CLI::App& verb);
void setup_report(CLI::App& verb);
void setup_validate(CLI::App& verb);
void setup_compare(CLI::App& verb);
void setup_sweep_ck_build(CLI::App& verb);
void setup_prune(CLI::App& verb);

namespace {

void setup_predict_with_data(CLI::App& verb) { setup_predict(verb, read_measured_rows); }
void setup_export_with_data(CLI::App& verb) { setup_export(verb, read_bests); }
void setup_db_with_data(CLI::App& verb) { setup_db(verb, read_bests); }

void setup_features_with_data(CLI::App& verb) { setup_features(verb, write_matrix); }

void setup_problems_with_data(CLI::App& verb) {
  setup_problems(verb, [](const std::string& file) { return oof_efficiencies(file); });
}

constexpr VerbSetup kSetups[] = {
    {"tune", setup_tune},
    {"import", setup_import},
    {"dataset", setup_dataset},
    {"sweep", setup_sweep_ck_build},
    {"train", setup_train},
    {"evaluate", setup_evaluate},
    {"report", setup_report},
    {"validate", setup_validate},
    {"compare", setup_compare},
    {"predict", setup_predict_with_data},
    {"export", setup_export_with_data},
    {"db", setup_db_with_data},
    {"problems", setup_problems_with_data},
    {"prune", setup_prune},
    {"features", setup_features_with_data},
};
}  // namespace

}  // namespace kscout::cli

int main(int argc, char** argv) {
  return kscout::cli::run_program(kscout::cli::Program::lab, kscout::cli::kSetups, argc, argv);
}
