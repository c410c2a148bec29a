#include "preload/decide.h"

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string_view>

#include <kscout/error.h>
#include <kscout/selector.h>

#include "core/owners.h"
#include "core/split.h"
#include "preload/say.h"

namespace kscout::preload {

namespace {

double number_setting(const char* name, double otherwise, std::string& wrong) {
  const char* const value = std::getenv(name);
  if (!value || !*value) return otherwise;
  double number = 0;
  const char* const end = value + std::strlen(value);
  const auto [stop, error] = std::from_chars(value, end, number);
  if (error == std::errc() && stop == end && number >= 0 && std::isfinite(number)) return number;
  wrong = std::string(name) + "=" + value + " is no number of at least 0";
  return otherwise;
}

bool switch_setting(const char* name, std::string& wrong) {
  const char* const value = std::getenv(name);
  if (!value || !*value || std::string_view(value) == "0") return false;
  if (std::string_view(value) != "1") wrong = std::string(name) + "=" + value + " is neither 0 nor 1";
  return true;
}

/// Whether KSCOUT_PRELOAD_POLICY names batch-invariant.
bool policy_setting(std::string& wrong) {
  const char* const value = std::getenv("KSCOUT_PRELOAD_POLICY");
  if (!value || !*value || std::string_view(value) == "best") return false;
  if (std::string_view(value) != "batch-invariant")
    wrong = std::string("KSCOUT_PRELOAD_POLICY=") + value + " is neither best nor batch-invariant";
  return true;
}

/// KSCOUT_DB, or the default file; empty without a home.
std::filesystem::path decision_file(std::string& wrong) {
  const char* const named = std::getenv("KSCOUT_DB");
  const std::filesystem::path file = named && *named ? named : default_decision_db();
  if (std::string why = why_others_write(file); !why.empty()) wrong = std::move(why);
  std::error_code error;
  auto absolute = std::filesystem::absolute(file, error);  // programs change their folder
  return error ? file : absolute;
}

}  // namespace

ServeSettings ServeSettings::from_environment(std::string& wrong) {
  ServeSettings settings;
  settings.min_gain = number_setting("KSCOUT_PRELOAD_MIN_GAIN", 100 * settings.min_gain, wrong) / 100;
  settings.min_saved_us = number_setting("KSCOUT_PRELOAD_MIN_SAVED_US", settings.min_saved_us, wrong);
  settings.check_results =
      static_cast<std::uint64_t>(std::min(number_setting("KSCOUT_PRELOAD_CHECK_RESULTS", 0, wrong), 1e18));
  settings.refine = switch_setting("KSCOUT_PRELOAD_REFINE", wrong);
  if (const char* const config = std::getenv("CUBLAS_WORKSPACE_CONFIG");
      settings.refine && config && *config) {
    settings.refine = false;
    kscout_say("CUBLAS_WORKSPACE_CONFIG asks for equal results in every run: --refine times nothing");
  }
  settings.convolutions = switch_setting("KSCOUT_PRELOAD_CONVOLUTIONS", wrong);
  settings.batch_invariant = policy_setting(wrong);
  settings.db = decision_file(wrong);
  return settings;
}

bool are_timings_disabled() {
  if (const char* const forced = std::getenv("KSCOUT_FORCE"); forced && *forced) return true;
  const char* const disabled = std::getenv("KSCOUT_DISABLE");
  if (!disabled) return false;
  const auto names = split(disabled, ',');
  return std::ranges::find(names, word(ChoiceSource::db)) != names.end();
}

void report_without_class(const char* why) noexcept {
  static std::atomic<bool> reported = false;
  if (!reported.exchange(true)) kscout_say("%s (--report counts such calls)", why);
}

void Tally::forget() noexcept {
  for (auto& count : outcomes) count = 0;
  saved_ns = wrong_suggestions = contests = refined = library_kept = 0;
}

Outcome outcome_of_failure(const ServeSettings& settings) noexcept {
  try {
    throw;
  } catch (const Error& error) {
    if (settings.batch_invariant) {
      report_without_class(error.what());
      return Outcome::classes;
    }
    return error.code() == Errc::unsupported ? Outcome::kernel : Outcome::failed;
  } catch (...) {
    return Outcome::failed;
  }
}

void keep(const std::function<void()>& store) noexcept {
  static std::atomic<bool> reported = false;
  try {
    run_apart(store);
  } catch (const std::exception& error) {
    if (!reported.exchange(true)) kscout_say("what --refine timed is not stored: %s", error.what());
  }
}

}  // namespace kscout::preload
