#include "family/serve_rules.h"

#include "core/fail.h"
#include "family/family_file.h"

namespace kscout {
namespace {

expr::Program compile_rules(std::span<const Rule> rules, const ConfigSpace& space) {
  std::vector<expr::Formula> admits;
  for (const Rule& rule : rules) admits.push_back({"rule " + rule.name, rule.admits});
  return expr::Program::compile(admits, family_scope(space, {}, true));
}

}  // namespace

ServeRules::ServeRules(std::span<const Rule> rules, const ConfigTable& configs,
                       std::span<const Traits> traits, const Device& device)
    : program_(compile_rules(rules, configs.space())), inputs_(program_), configs_(configs.size()) {
  if (traits.size() != configs.size()) {
    fail(Errc::invalid_argument, "serve rules: traits of {} configs for {}", traits.size(), configs.size());
  }
  inputs_.set_rows("c", configs);
  inputs_.set_rows("t", traits);
  inputs_.set("d", device);
  answers_.resize(program_.size() * configs_);
}

void ServeRules::ask(const GemmProblem& problem, std::span<std::uint8_t> serves) {
  if (serves.size() != configs_) {
    fail(Errc::invalid_argument, "serve rules: room for {} answers, {} configs", serves.size(), configs_);
  }
  inputs_.set("p", problem);
  inputs_.set("s", signature_of(problem));
  program_.evaluate(inputs_.columns(), configs_, answers_, scratch_);
  for (std::size_t config = 0; config < configs_; ++config) {
    bool all = true;
    for (std::size_t rule = 0; rule < program_.size(); ++rule) {
      const double answer = answers_[rule * configs_ + config];
      all = all && answer != 0 && answer == answer;
    }
    serves[config] = all;
  }
}

}  // namespace kscout
