#include "sweep/audit.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include <kscout/error.h>
#include <kscout/provider.h>

#include "core/fail.h"

namespace kscout {
namespace {

/// "13.1.0" of 130100 (cuBLASLt), "9.19.0" of 91900 (cuDNN).
std::string release_text(int version) {
  return fmt::format("{}.{}.{}", version / 10000, version % 10000 / 100, version % 100);
}

std::string library_name(std::string_view provider) {
  return provider == "cublaslt" ? "cuBLASLt" : provider == "cudnn" ? "cuDNN" : std::string(provider);
}

/// "c.algorithm == 66 and c.tile_m == 64": all axes of a config but the release, which another condition
/// names.
std::string config_condition(const KernelConfig& config) {
  std::string text;
  for (std::size_t i = 0; i < config.space->axes.size(); ++i) {
    const Axis& axis = config.space->axes[i];
    if (config[i] == KernelConfig::unknown || axis.name == "suggestion") continue;
    text += fmt::format("{}c.{} == {}", text.empty() ? "" : " and ", axis.name,
                        axis.words.empty() ? axis_value_text(axis, config[i])
                                           : fmt::format("'{}'", axis_value_text(axis, config[i])));
  }
  return text;
}

/// The types, layout and sizes of a problem, as a formula.
std::string problem_condition(const Problem& problem) {
  const Signature s = signature_of(problem);
  std::string text = fmt::format(
      "s.op == '{}' and s.dtype_a == '{}' and s.dtype_b == '{}' and s.dtype_c == '{}' and "
      "s.layout == '{}'",
      word(s.op), word(s.dtype_a), word(s.dtype_b), word(s.dtype_c), word(s.layout));
  const auto fields = problem.space().fields;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (fields[i].type == FieldType::whole && fields[i].role == FieldRole::identity)
      text += fmt::format(" and p.{} == {}", fields[i].name, problem[i]);
  }
  return text;
}

std::string toml_text(std::string text) {
  for (char& c : text) {
    if (c == '"' || c == '\\' || c == '\n') c = '\'';
  }
  return text;
}

/// Whether PyTorch's own call computes such a problem: 8-bit floats need scales, and its convolutions pad
/// both ends alike.
bool has_torch_call(const Problem& problem) {
  constexpr DType kTypes[] = {DType::bf16, DType::fp16, DType::fp32, DType::tf32};
  const Signature s = signature_of(problem);
  if (std::ranges::find(kTypes, s.dtype_a) == std::end(kTypes) || s.dtype_c != s.dtype_a) return false;
  if (problem.is<GemmProblem>()) return s.epilogue == Epilogue::none && !s.accumulate;
  const auto& p = problem.as<ConvProblem>();
  return p.left_pad_d == p.right_pad_d && p.left_pad_h == p.right_pad_h && p.left_pad_w == p.right_pad_w;
}

std::string torch_dtype(DType dtype) {
  switch (dtype) {
    case DType::bf16:
      return "torch.bfloat16";
    case DType::fp16:
      return "torch.float16";
    case DType::fp64:
      return "torch.float64";
    default:
      return "torch.float32";
  }
}

/// An operand whose elements lie as in the problem: `row_major` or transposed.
std::string torch_matrix(std::int64_t batch, std::int64_t rows, std::int64_t columns, bool row_major) {
  const std::string items = batch > 1 ? fmt::format("{}, ", batch) : "";
  return row_major ? fmt::format("torch.randn({}{}, {}, **on)", items, rows, columns)
                   : fmt::format("torch.randn({}{}, {}, **on).mT", items, columns, rows);
}

std::string torch_gemm(const GemmProblem& p) {
  const bool a_rows = p.layout == Layout::rcr || p.layout == Layout::rrr;
  const bool b_rows = p.layout == Layout::rrr || p.layout == Layout::crr;
  return fmt::format(
      "a = {}\nb = {}\n"
      "a[..., -8:] *= 40; b[..., -8:, :] *= 40  # the last elements of K count\n"
      "c = (a @ b).double()\n"
      "right, scale = a.double() @ b.double(), a.double().abs() @ b.double().abs()\n",
      torch_matrix(p.batch, p.m, p.k, a_rows), torch_matrix(p.batch, p.k, p.n, b_rows));
}

std::string torch_conv(const ConvProblem& p) {
  const bool deep = p.layout == Layout::ndhwgc || p.layout == Layout::ngcdhw;
  const bool last = p.layout == Layout::nhwgc || p.layout == Layout::ndhwgc;
  const auto axes = [&](std::int64_t d, std::int64_t h, std::int64_t w) {
    return deep ? fmt::format("{}, {}, {}", d, h, w) : fmt::format("{}, {}", h, w);
  };
  const std::string format = !last  ? "torch.contiguous_format"
                             : deep ? "torch.channels_last_3d"
                                    : "torch.channels_last";
  const std::string name = fmt::format("conv{}d", deep ? 3 : 2);
  std::string text = fmt::format(
      "x = torch.randn({}, {}, {}, **on).to(memory_format={})\n"
      "w = torch.randn({}, {}, {}, **on).to(memory_format={})\n"
      "how = dict(stride=({}), padding=({}), dilation=({}), groups={})\n"
      "def conv(x, w): return torch.nn.functional.{}(x, w, **how)\n",
      p.n, p.c, axes(p.d, p.h, p.w), format, p.k, p.c / p.g, axes(p.z, p.y, p.x), format,
      axes(p.stride_d, p.stride_h, p.stride_w), axes(p.left_pad_d, p.left_pad_h, p.left_pad_w),
      axes(p.dilation_d, p.dilation_h, p.dilation_w), p.g, name);
  if (p.op == Op::conv_fwd)
    return text +
           "c, right = conv(x, w).double(), conv(x.double(), w.double())\n"
           "scale = conv(x.double().abs(), w.double().abs())\n";
  const char* const of = p.op == Op::conv_bwd_data ? "x" : "w";
  return text + fmt::format(
                    "g = torch.randn_like(conv(x, w))\n"
                    "def gradient(x, w, g): return torch.autograd.grad(conv(x.requires_grad_(), "
                    "w.requires_grad_()), {}, g)[0]\n"
                    "c, wide = gradient(x, w, g).double(), [t.detach().double() for t in (x, w, g)]\n"
                    "right, scale = gradient(*wide), gradient(*[t.detach().abs() for t in wide])\n",
                    of);
}

}  // namespace

Audit::Audit(Backend& backend, const AuditOptions& options) : backend_(backend), options_(options) {
  if (options_.suggestions == 0)
    fail(Errc::invalid_argument, "suggestions=0: an audit runs at least 1 per problem");
}

void Audit::add(const Problem& problem, const Measure& measure) {
  ++problems_;
  const std::vector<KernelConfig> suggested = backend_.suggestions(problem, options_.suggestions);
  if (suggested.empty()) {
    ++not_taken_;
    return;
  }
  const std::vector<Outcome> outcomes = measure(problem, suggested);
  for (std::size_t i = 0; i < suggested.size(); ++i) {
    const Status status = outcomes[i].measured.status;
    if (status == Status::unsupported || status == Status::left_out) {
      ++refused_;
      continue;
    }
    ++runs_;
    Verdict verdict = rule_verdict(problem, suggested[i], backend_.device());
    if (status == Status::ok || status == Status::pruned_early) {
      if (!verdict.since.empty()) ++right_[verdict.rule];
      continue;
    }
    wrong_.push_back({problem, suggested[i], i + 1, status, outcomes[i].reason, std::move(verdict)});
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

std::string Audit::errata_toml() const {
  std::vector<std::pair<std::string, std::vector<const WrongSuggestion*>>> by_config;
  for (const WrongSuggestion& one : wrong_) {
    if (!one.verdict.since.empty()) continue;
    const std::string name = config_name(signature_of(one.problem), one.config);
    const auto same = std::ranges::find(by_config, name, [](const auto& entry) { return entry.first; });
    if (same == by_config.end()) {
      by_config.push_back({name, {&one}});
    } else {
      same->second.push_back(&one);
    }
  }
  std::string toml;
  for (const auto& [name, all] : by_config) {
    std::string problems;
    for (const WrongSuggestion* one : all)
      problems += fmt::format("{}({})", problems.empty() ? "" : " or ", problem_condition(one->problem));
    const WrongSuggestion& first = *all.front();
    toml += fmt::format(
        "[[rule]]\n"
        "name = \"wrong {}\"\n"
        "kind = \"applicability\"\n"
        "suggested = true\n"
        "since = \"{}\"\n"
        "admits = \"not ({} and ({}))\"\n"
        "because = \"{} on {} for {}{} ({})\"\n\n",
        name, library(first.problem.op()), config_condition(first.config), problems, word(first.status),
        backend_.device().name, print(first.problem),
        all.size() > 1 ? fmt::format(" and {} other problems", all.size() - 1) : "", toml_text(first.reason));
  }
  return toml;
}

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
  if (!has_torch_call(wrong.problem)) return of;
  const bool single = signature.dtype_a == DType::fp32 || signature.dtype_a == DType::tf32;
  of.pytorch = fmt::format(
      "import torch\n"
      "torch.manual_seed(0)\n"
      "{}"
      "on = dict(device=\"cuda\", dtype={})\n",
      single ? fmt::format("torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = {}\n",
                           signature.dtype_a == DType::tf32 ? "True" : "False")
             : "",
      torch_dtype(signature.dtype_a));
  of.pytorch += wrong.problem.is<GemmProblem>() ? torch_gemm(wrong.problem.as<GemmProblem>())
                                                : torch_conv(wrong.problem.as<ConvProblem>());
  of.pytorch +=
      "print(torch.__version__, torch.cuda.get_device_name(), ((c - right).abs() / scale).max().item())\n";
  return of;
}

}  // namespace kscout
