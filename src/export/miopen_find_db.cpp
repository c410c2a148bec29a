#include "export/miopen_find_db.h"

#include <algorithm>
#include <optional>

#include "core/fail.h"
#include "core/numbers.h"
#include "core/problem_text.h"

namespace kscout {

namespace {

/// A time of an entry: a number that is not negative.
std::optional<double> milliseconds(std::string_view cell) {
  const auto value = number_in<double>(cell);
  return value && *value >= 0 ? value : std::nullopt;
}

}  // namespace

std::size_t FindDb::merge(const FindDb& other) {
  std::size_t changed = 0;
  for (const Record& record : other.records_) {
    const auto [place, is_new] = places_.try_emplace(record.problem, records_.size());
    if (is_new) {
      records_.push_back(record);
      changed += record.entries.size();
      continue;
    }
    std::vector<Entry>& own = records_[place->second].entries;
    for (const Entry& entry : record.entries) {
      const auto known = std::ranges::find(own, entry.id, &Entry::id);
      if (known == own.end()) {
        own.push_back(entry);
      } else if (entry.ms < known->ms) {
        *known = entry;
      } else {
        continue;
      }
      ++changed;
    }
  }
  return changed;
}

std::string FindDb::text() const {
  std::string text;
  for (const Record& record : records_) {
    text += record.problem;
    for (const Entry& entry : record.entries)
      text += fmt::format("{}{}:{}", &entry == record.entries.data() ? '=' : ';', entry.id, entry.values);
    text += '\n';
  }
  return text;
}

std::size_t FindDb::entries() const noexcept {
  std::size_t count = 0;
  for (const Record& record : records_) count += record.entries.size();
  return count;
}

FindDb read_find_db(std::string_view text, std::string_view source) {
  FindDb db;
  if (text.empty()) return db;
  std::size_t number = 0;
  const auto wrong = [&](std::string_view why) {
    fail(Errc::corrupt_data, "{}:{}: {}; a line is PROBLEM=SOLVER:milliseconds,workspace,algorithm;...",
         source, number, why);
  };
  const bool whole = text.ends_with('\n');
  for (const std::string_view line : split(text.substr(0, text.size() - (whole ? 1 : 0)), '\n')) {
    ++number;
    if (!whole && line.data() + line.size() == text.data() + text.size())
      wrong("the last line has no line end, so it may be cut short; restore the file, or remove that line");
    const std::size_t equals = line.find('=');
    if (equals == std::string_view::npos || equals == 0) wrong("no problem before '='");
    FindDb::Record record{std::string(line.substr(0, equals)), {}};
    for (const std::string_view one : split(line.substr(equals + 1), ';')) {
      const std::size_t colon = one.find(':');
      if (colon == std::string_view::npos || colon == 0)
        wrong(fmt::format("'{}' has no solver before ':'", one));
      FindDb::Entry entry{std::string(one.substr(0, colon)), std::string(one.substr(colon + 1)), 0};
      const auto cells = split(entry.values, ',');
      // Old releases have the solver before the time.
      auto time = milliseconds(cells[0]);
      if (!time && cells.size() > 3) time = milliseconds(cells[1]);
      if (!time || cells.size() < 3) wrong(fmt::format("'{}' has no time", one));
      entry.ms = *time;
      if (std::ranges::find(record.entries, entry.id, &FindDb::Entry::id) != record.entries.end())
        wrong(fmt::format("'{}' is given twice", entry.id));
      record.entries.push_back(std::move(entry));
    }
    if (!db.places_.emplace(record.problem, db.records_.size()).second)
      wrong(fmt::format("problem {} is given twice", record.problem));
    db.records_.push_back(std::move(record));
  }
  return db;
}

}  // namespace kscout
