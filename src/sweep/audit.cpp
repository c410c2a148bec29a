#include "sweep/audit.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include <fmt/format.h>

#include <kscout/error.h>
#include <kscout/provider.h>

#include "core/fail.h"
#include "op/operation.h"

namespace kscout {
namespace {

/// "13.1.0" of 130100 (cuBLASLt), "9.19.0" of 91900 (cuDNN).
std::string release_text(int version) {
  return fmt::format("{}.{}.{}", version / 10000, version % 10000 / 100, version % 100);
}

std::string library_name(std::string_view provider) {
  return provider == "cublaslt" ? "cuBLASLt" : provider == "cudnn" ? "cuDNN" : std::string(provider);
}

/// Whether PyTorch computes with these types by itself: 8-bit floats need scales.
bool has_torch_types(const Signature& s) {
  constexpr DType kTypes[] = {DType::bf16, DType::fp16, DType::fp32, DType::tf32};
  return std::ranges::find(kTypes, s.dtype_a) != std::end(kTypes) && s.dtype_c == s.dtype_a;
}

std::string torch_dtype(DType dtype) {
  switch (dtype) {
    case DType::bf16:
      return "torch.bfloat16";
    case DType::fp16:
      return "torch.float16";
    default:
      return "torch.float32";
  }
}

}  // namespace

Audit::Audit(Backend& backend, const AuditOptions& options) : backend_(backend), options_(options) {
  if (options_.suggestions == 0)
    fail(Errc::invalid_argument, "suggestions=0: an audit runs at least 1 per problem");
}

std::vector<SweepPlan> Audit::plans(const std::vector<Problem>& problems) {
  std::map<Op, SweepPlan> by_op;
  std::map<Op, std::unordered_map<KernelConfig, std::uint32_t>> positions;
  for (const Problem& problem : problems) {
    ++problems_;
    std::vector<KernelConfig> suggested = backend_.suggestions(problem, options_.suggestions);
    if (suggested.empty()) {
      ++not_taken_;
      continue;
    }
    SweepPlan& plan = by_op[problem.op()];
    std::vector<std::uint32_t> candidates;
    for (const KernelConfig& config : suggested) {
      const auto [at, is_new] = positions[problem.op()].emplace(config, plan.configs.size());
      if (is_new) plan.configs.push_back(config);
      candidates.push_back(at->second);
    }
    std::ranges::sort(candidates);
    candidates.erase(std::unique(candidates.begin(), candidates.end()), candidates.end());
    plan.problems.push_back(problem);
    plan.candidates.push_back(std::move(candidates));
    suggested_[problem.op()].push_back(std::move(suggested));
  }
  std::vector<SweepPlan> plans;
  for (auto& [op, plan] : by_op) {
    plan.provider = std::string(plan.configs.front().space->provider);
    plan.backend = backend_.name();
    plan.rules = fmt::format("{} suggestions", options_.suggestions);
    plan.op = op;
    plan.device = backend_.device();
    plan.protocol.contenders = 0;
    if (plan.device.kind == DeviceKind::gpu) plan.protocol.slack_us = 0;
    plan.provenance = host_provenance();
    plan.provenance.merge(backend_.versions());
    plans.push_back(std::move(plan));
  }
  return plans;
}

void Audit::add(const SweepState& state) {
  const SweepPlan& plan = state.plan;
  for (const JournalRow& row : state.rows) {
    const Problem& problem = plan.problems[row.key.problem];
    const KernelConfig& config = plan.configs[row.key.config];
    const Status status = row.measured.status;
    if (status == Status::unsupported || status == Status::left_out) {
      ++refused_;
      continue;
    }
    const bool right = status == Status::ok || status == Status::pruned_early;
    Verdict verdict = rule_verdict(problem, config, backend_.device());
    if (right && !verdict.since.empty()) ++right_[verdict.rule];
    ++run_;
    if (right || verdict.since.empty() || options_.with_known)
      audited_.push_back({problem, config, library(plan.op), right});
    if (right) continue;
    const auto& suggested = suggested_.at(plan.op)[row.key.problem];
    const auto place = std::ranges::find(suggested, config) - suggested.begin();
    wrong_.push_back({problem, config, static_cast<std::size_t>(place) + 1, status,
                      row.reason < 0 ? "" : state.reasons[static_cast<std::size_t>(row.reason)],
                      std::move(verdict)});
  }
}

std::string Audit::library(Op op) const {
  const std::string provider(backend_.provider_for(op));
  const auto versions = backend_.versions();
  const auto found = versions.find(provider + "_version");
  if (found == versions.end()) return library_name(provider);
  return fmt::format("{} {}", library_name(provider), release_text(std::stoi(found->second)));
}

std::vector<AuditRow> Audit::rows() const {
  std::map<std::string, std::pair<AuditRow, std::set<std::string>>> by_rule;
  for (const WrongSuggestion& one : wrong_) {
    const bool known = !one.verdict.since.empty();
    auto& [row, problems] = by_rule[known ? one.verdict.rule : ""];
    row.rule = known ? one.verdict.rule : "";
    row.since = known ? one.verdict.since : library(one.problem.op());
    ++row.wrong;
    row.problems += problems.insert(print(one.problem)).second ? 1 : 0;
    row.first_place += one.place == 1 ? 1 : 0;
    if (!row.example || std::pair(one.place, flop_count(one.problem)) <
                            std::pair(row.example->place, flop_count(row.example->problem)))
      row.example = &one;
  }
  std::vector<AuditRow> rows;
  for (auto& [rule, entry] : by_rule) rows.push_back(entry.first);
  std::ranges::stable_sort(rows, std::ranges::greater{}, &AuditRow::wrong);
  return rows;
}

std::vector<Erratum> Audit::errata() const { return errata_of(audited_); }

Reproduction reproduction(const WrongSuggestion& wrong) {
  const Signature signature = signature_of(wrong.problem);
  Reproduction of;
  of.cpp = fmt::format(
      "#include <cstdio>\n"
      "#include <kscout/provider.h>\n"
      "#include \"measure/problem_bench.h\"\n"
      "int main() {{\n"
      "  using namespace kscout;\n"
      "  Backend& gpu = backend(\"cuda\");\n"
      "  ProblemBench bench({{}}, 1, instruments_of(gpu));\n"
      "  bench.open(parse_any_problem(\"{}\"));\n"
      "  const KernelConfig config = parse_config_name(\n"
      "      \"{}\").config;\n"
      "  const Outcome outcome = bench.coarse({{&gpu, config}}, 1e9);\n"
      "  std::printf(\"%s: %s\\n\", word(outcome.measured.status).data(), outcome.reason.c_str());\n"
      "}}\n",
      print(wrong.problem), config_name(signature, wrong.config));
  const std::string call = operation(wrong.problem.kind()).pytorch(wrong.problem);
  if (call.empty() || !has_torch_types(signature)) return of;
  const bool single = signature.dtype_a == DType::fp32 || signature.dtype_a == DType::tf32;
  of.pytorch = fmt::format(
      "import torch\n"
      "torch.manual_seed(0)\n"
      "{}"
      "on = dict(device=\"cuda\", dtype={})\n"
      "{}"
      "print(torch.__version__, torch.cuda.get_device_name(), ((c - right).abs() / scale).max().item())\n",
      single ? fmt::format("torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = {}\n",
                           signature.dtype_a == DType::tf32 ? "True" : "False")
             : "",
      torch_dtype(signature.dtype_a), call);
  return of;
}

}  // namespace kscout
