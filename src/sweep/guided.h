#pragma once
/// \file
/// Lets a model and the analytic cost choose what a sweep measures: a table of few measurements instead of a
/// whole family, of all problems or of those that are dear.
///
///     request.narrow = guided_by({.model = "models/mine", .top = 8, .also = "c.tile_m == 64"}, request, device);
#include <string>
#include <vector>

#include "sweep/plan.h"

namespace kscout {

/// The fastest config of a problem that was measured.
struct Winner {
  Problem problem;
  KernelConfig config;
};

/// The configs of a problem that are measured.
struct GuidedBy {
  double above_us = 0;        ///< of problems of shorter calls (expected_call_us) every config is measured
  std::string model;          ///< model folder or .ksf file; empty: none
  std::size_t top = 8;        ///< those that the model expects to be the fastest
  std::size_t analytic = 0;   ///< those of the lowest analytic cost
  std::size_t drawn = 0;      ///< drawn by the seed, so that a model also learns what is slow
  bool with_default = false;  ///< and the family's default config
  std::vector<KernelConfig> always = {};
  std::string also;  ///< formula over `c. d. s.`: those for which it holds; empty: none
  /// The fastest configs of the problems that are most alike, among these.
  std::size_t of_similar = 4;
  std::vector<Winner> winners = {};
};

/// A few configs of problems of longer calls: those that the model of the device and the analytic cost expect
/// to be the fastest, some drawn ones, and the default.
GuidedBy few_above(double us, Op op, DType dtype, const std::string& provider, const Device& device);

/// For PlanRequest::narrow. Throws the errors of Selector::load, invalid_argument when the model is of
/// another provider than the request.
Narrow guided_by(const GuidedBy& by, const PlanRequest& request, const Device& device);

}  // namespace kscout
