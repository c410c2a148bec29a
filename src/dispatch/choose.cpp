#include "dispatch/choose.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include <kscout/provider.h>

#include "core/fail.h"
#include "dispatch/padding.h"
#include "op/operation.h"

namespace kscout {

namespace {

/// Whether the choice of one backend is preferred to that of another.
bool is_better(const Choice& a, const Choice& b) {
  const auto key = [](const Choice& choice) {
    const bool timed = !std::isnan(choice.time_us);
    return std::tuple(uncertainty(choice), timed ? choice.time_us : std::numeric_limits<double>::infinity());
  };
  return key(a) < key(b);
}

/// "fp64 (float64)": the name that arrays of other packages use, too.
std::string type_with_float_name(DType dtype) {
  const std::string_view name = word(dtype);
  if (name.starts_with("bf16")) return "bf16 (bfloat16)";
  return name.starts_with("fp") ? fmt::format("{} (float{})", name, name.substr(2)) : std::string(name);
}

void check_reachable(const Registry& registry, const MemorySpace& space) {
  std::string reached;
  for (const auto& backend : registry.backends()) {
    if (backend->space() == space) return;
    reached +=
        fmt::format("{}{} reaches {}", reached.empty() ? "" : ", ", backend->name(), print(backend->space()));
  }
  fail(Errc::invalid_argument,
       "the operands are in memory {}, which no backend here reaches ({}); copy them, or register a backend "
       "or a kernel library that does (buffers say in `space` where they are)",
       print(space), reached.empty() ? "there is no backend" : reached);
}

/// Whether the config stands for what a library suggests for a problem, and so for another kernel under
/// another problem.
bool is_suggestion(const Offer& offer, ProblemRef problem) {
  const KernelConfig& config = offer.choice.config;
  const Traits traits =
      provider(config.space->provider).traits(signature_of(problem), config, offer.backend->device());
  return traits.suggestion > 0;
}

/// One choice: the backends' offers for a problem in its forms.
class Choosing {
 public:
  Choosing(Offers& offers, ProblemRef problem, const ChooseRequest& request)
      : offers_(offers), problem_(problem), asked_(request), form_(direct_form(problem)) {}

  /// The problem itself, or else its cheapest form that a config takes.
  Solution answer() {
    std::string why;
    best_ = best_offer(problem_, false, asked_.limits, asked_.refused, why);
    if (asked_.limits.batch_invariant) {
      // Any other form, and so any other order of sums, would depend on M.
      if (!best_) fail(Errc::unsupported, "{}", why);
    } else if (best_) {
      prefer_aligned();
    } else {
      take_padded(why);
    }
    if (!best_) {
      fail(Errc::unsupported, "{}: no kernel here takes it, padded or not{}: {}", print(problem_),
           asked_.limits.any() ? fmt::format(", within the limits {}", print(asked_.limits)) : type_remedy(),
           why);
    }
    return {best_->choice,       best_->backend,  form_,
            best_->model_config, best_->agreeing, predicted_copies_us(form_, best_->backend->device())};
  }

 private:
  /// The best offer of all backends that reach the memory; with `applicable_only`, of backends with a config
  /// whose applicability rules admit the problem.
  std::optional<Offer> best_offer(ProblemRef problem, bool applicable_only, const Limits& limits,
                                  std::span<const Refused> refused, std::string& why) {
    std::optional<Offer> best;
    for (const auto& backend : offers_.registry().backends()) {
      if (backend->space() != asked_.space) continue;
      if (applicable_only && !offers_.has_applicable(*backend, problem)) continue;
      const auto offer = offers_.of(*backend, problem, limits, refused, why);
      if (offer && (!best || is_better(offer->choice, best->choice))) best = offer;
    }
    return best;
  }

  ExecutionForm packed_as_asked(const ExecutionForm& form) const {
    return asked_.packable == Packable::packed_once ? with_packed_operand(problem_, form) : form;
  }

  /// The cheapest form that a config takes.
  void take_padded(std::string& why) {
    const Problem direct = form_.problem;
    for (const ExecutionForm& other : padded_forms(problem_, asked_.space.kind)) {
      form_ = packed_as_asked(other);
      const auto left = within_form(problem_, form_, asked_.limits);
      if (!left) continue;
      best_ = best_offer(form_.problem, form_.problem != direct, *left, asked_.refused, why);
      if (best_) return;
    }
  }

  /// Of lines that are not aligned: replaces the choice by a kernel that takes them, or by the choice for a
  /// form with aligned lines, where the kernel, or the form and its copies, are predicted to take clearly
  /// less time. Only in a GPU's memory.
  void prefer_aligned() {
    // Predictions of two forms have errors of up to a seventh.
    constexpr double kClearly = 0.85;
    if (asked_.space.kind == MemoryKind::host) return;
    const auto forms = aligned_forms(problem_);
    if (forms.empty()) return;
    const bool timed = uncertainty(best_->choice) == 0;
    const double at_least_us = best_->backend->min_us(problem_, best_->choice.config);
    double least_us = kClearly * (timed ? std::max(best_->choice.time_us, at_least_us) : at_least_us);
    if (auto own =
            Offers::at_any_address(*best_->backend, problem_, asked_.limits, asked_.refused, least_us)) {
      best_ = std::move(own);
      least_us = best_->choice.time_us;
    }
    if (!timed) return;
    for (const AlignedForm& aligned : forms) {
      const ExecutionForm form = packed_as_asked(aligned.form);
      const auto offer = offer_for(aligned.chosen_for, form);
      if (!offer) continue;
      const double us = offer->choice.time_us + predicted_copies_us(form, offer->backend->device());
      if (!(us < least_us)) continue;
      best_ = offer;
      form_ = form;
      least_us = us;
    }
  }

  /// The offer for `chosen_for` that computes a form with aligned lines, if its time is known.
  std::optional<Offer> offer_for(const Problem& chosen_for, const ExecutionForm& form) {
    const auto left = within_form(problem_, form, asked_.limits);
    if (!left || copies_bytes(problem_, form) > offers_.policy().copies_bytes) return std::nullopt;
    std::string ignored;
    auto offer = best_offer(chosen_for, true, *left, asked_.refused, ignored);
    if (form.problem != chosen_for) {
      // A suggestion is for the problem of which the library is asked, here the one with gaps.
      std::vector<Refused> also(asked_.refused.begin(), asked_.refused.end());
      while (offer && is_suggestion(*offer, chosen_for)) {
        also.push_back({offer->backend, chosen_for, offer->choice.config, "suggested for another problem"});
        offer = best_offer(chosen_for, true, *left, also, ignored);
      }
    }
    if (!offer || uncertainty(offer->choice) > 0) return std::nullopt;
    if (form.problem != chosen_for && !computes(*offer, form.problem)) return std::nullopt;
    return offer;
  }

  bool computes(const Offer& offer, const Problem& other) const {
    const KernelConfig& config = offer.choice.config;
    return !find_refused(asked_.refused, *offer.backend, config, other) &&
           offer.backend->refusal(other, config).empty() &&
           rule_verdict(other, config, offer.backend->device()).status != VerdictStatus::refused;
  }

  /// What to do about the type of a problem that nothing takes: "; ... convert to float32" where kernels take
  /// the same problem in fp32, else empty.
  std::string type_remedy() {
    constexpr GivenField kSingle[] = {{"dtype", word(DType::fp32)}};
    const Problem single = operation(problem_.kind()).with_fields(problem_.value(), kSingle);
    const Signature signature = signature_of(problem_);
    if (signature_of(single) == signature) return {};
    const auto is_taken = [&](ProblemRef form) {
      std::string ignored;
      return best_offer(form, true, {}, {}, ignored).has_value();
    };
    const auto forms = padded_forms(single, asked_.space.kind);
    if (!is_taken(single) && !std::ranges::any_of(forms, is_taken, &ExecutionForm::problem)) return {};
    DType other = signature.dtype_c;
    for (const DType dtype : {signature.dtype_b, signature.dtype_a}) {
      if (dtype != DType::fp32) other = dtype;
    }
    return fmt::format("; kernels here take fp32, not {}: convert to float32", type_with_float_name(other));
  }

  Offers& offers_;
  ProblemRef problem_;
  const ChooseRequest& asked_;
  std::optional<Offer> best_;
  ExecutionForm form_;
};

}  // namespace

Solution choose(Offers& offers, ProblemRef problem, const ChooseRequest& request) {
  check(problem);
  check_reachable(offers.registry(), request.space);
  return Choosing(offers, problem, request).answer();
}

std::optional<Limits> within_form(ProblemRef problem, const ExecutionForm& form, Limits limits) {
  if (limits.workspace_bytes < 0) return limits;
  limits.workspace_bytes -= static_cast<std::int64_t>(copies_bytes(problem, form));
  return limits.workspace_bytes < 0 ? std::nullopt : std::optional(limits);
}

}  // namespace kscout
