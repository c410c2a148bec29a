#include "exec.h"
#include "explain.h"
#include "measured.h"
#include "verbs.h"

namespace kscout::cli {

// One line per verb, here and below, in the order of kVerbs.
void setup_kernels(CLI::App& verb);
void setup_audit(CLI::App& verb);
void setup_classes(CLI::App& verb);
void setup_problems(CLI::App& verb);
void setup_sweep(CLI::App& verb);
void setup_features(CLI::App& verb);
void setup_check(CLI::App& verb);
void setup_search(CLI::App& verb);
void setup_run(CLI::App& verb);
void setup_generate(CLI::App& verb);
void setup_hardware(CLI::App& verb);

namespace {

void setup_predict_without_data(CLI::App& verb) { setup_predict(verb, nullptr); }
void setup_export_without_data(CLI::App& verb) { setup_export(verb, nullptr); }
void setup_db_without_data(CLI::App& verb) { setup_db(verb, nullptr); }

// One verb a line keeps changes apart.
// clang-format off
constexpr VerbSetup kSetups[] = {
    {"kernels", setup_kernels},
    {"audit", setup_audit},
    {"problems", setup_problems},
    {"sweep", setup_sweep},
    {"features", setup_features},
    {"check", setup_check},
    {"predict", setup_predict_without_data},
    {"search", setup_search},
    {"classes", setup_classes},
    {"run", setup_run},
    {"exec", setup_exec},
    {"generate", setup_generate},
    {"export", setup_export_without_data},
    {"db", setup_db_without_data},
    {"hardware", setup_hardware},
};
// clang-format on
}  // namespace

}  // namespace kscout::cli

int main(int argc, char** argv) {
  argc = kscout::cli::take_program_arguments(argc, argv);
  return kscout::cli::run_program(kscout::cli::Program::kscout, kscout::cli::kSetups, argc, argv);
}
