#include "select/decision_db.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include <sqlite3.h>
#include <unistd.h>

#include <kscout/error.h>
#include <kscout/selector.h>

#include "core/fail.h"
#include "core/field_text.h"
#include "core/files.h"
#include "core/hash.h"
#include "core/owners.h"
#include "select/switches.h"

namespace kscout {
namespace {

constexpr int kVersion = 5, kBusyMs = 2000;
/// Files of version 1 do not state the backend of a decision, those of version 2 no limits; those of version
/// 3 have no timings, those of version 4 no verdicts.
constexpr int kWithoutBackend = 1, kWithoutLimits = 2, kWithoutTimings = 3, kWithoutVerdicts = 4;

constexpr const char* kCreate =
    "CREATE TABLE IF NOT EXISTS decision ("
    "problem TEXT NOT NULL, config TEXT NOT NULL, device TEXT NOT NULL, driver TEXT NOT NULL, "
    "version TEXT NOT NULL, backend TEXT NOT NULL, limits TEXT NOT NULL, time_us REAL NOT NULL, next_us "
    "REAL, "
    "timed INTEGER NOT NULL, at INTEGER NOT NULL, "
    "PRIMARY KEY (problem, device, driver, version, backend, limits)) WITHOUT ROWID";

constexpr const char* kCreateTimings =
    "CREATE TABLE IF NOT EXISTS timing ("
    "problem TEXT NOT NULL, config TEXT NOT NULL, device TEXT NOT NULL, driver TEXT NOT NULL, "
    "version TEXT NOT NULL, backend TEXT NOT NULL, time_us REAL NOT NULL, at INTEGER NOT NULL, "
    "PRIMARY KEY (problem, config, device, driver, version, backend)) WITHOUT ROWID";

constexpr const char* kCreateVerdicts =
    "CREATE TABLE IF NOT EXISTS verdict ("
    "call TEXT NOT NULL, device TEXT NOT NULL, library TEXT NOT NULL, verdict TEXT NOT NULL, "
    "algorithm TEXT NOT NULL, at INTEGER NOT NULL, PRIMARY KEY (call, device, library)) WITHOUT ROWID";

enum class Access { read, write };

/// One connection; it prepares, binds, steps and finalises statements.
class Connection {
 public:
  Connection(const std::filesystem::path& file, Access access) : file_(file.string()) {
    if (std::error_code ignored; std::filesystem::is_directory(file, ignored))
      fail(Errc::invalid_argument, "decisions {}: is a folder; name a file", file_);
    const int flags =
        access == Access::read ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
    sqlite3* opened = nullptr;
    const int result = sqlite3_open_v2(file_.c_str(), &opened, flags | SQLITE_OPEN_NOMUTEX, nullptr);
    db_.reset(opened);
    expect(result);
    sqlite3_busy_timeout(db_.get(), kBusyMs);
  }

  void run(const std::string& sql) {
    expect(sqlite3_exec(db_.get(), sql.c_str(), nullptr, nullptr, nullptr));
  }

  std::int64_t number(const char* sql) {
    std::int64_t value = 0;
    rows(
        sql, [](sqlite3_stmt*) {}, [&](sqlite3_stmt* row) { value = sqlite3_column_int64(row, 0); });
    return value;
  }

  /// Runs a statement whose parameters `bind` sets; calls `each` for every row.
  template <class Bind, class Each>
  void rows(const char* sql, Bind&& bind, Each&& each) {
    sqlite3_stmt* prepared = nullptr;
    expect(sqlite3_prepare_v2(db_.get(), sql, -1, &prepared, nullptr));
    const std::unique_ptr<sqlite3_stmt, int (*)(sqlite3_stmt*)> statement(prepared, sqlite3_finalize);
    bind(prepared);
    int step = sqlite3_step(prepared);
    for (; step == SQLITE_ROW; step = sqlite3_step(prepared)) each(prepared);
    if (step != SQLITE_DONE) expect(step);
  }

  std::size_t changes() { return static_cast<std::size_t>(sqlite3_changes(db_.get())); }

 private:
  void expect(int result) {
    if (result == SQLITE_OK) return;
    const char* const because = db_ ? sqlite3_errmsg(db_.get()) : sqlite3_errstr(result);
    const int kind = result & 0xff;
    const bool damaged = kind == SQLITE_NOTADB || kind == SQLITE_CORRUPT;
    fail(damaged ? Errc::corrupt_data : Errc::device_failure, "decisions {}: {}", file_, because);
  }

  struct Close {
    void operator()(sqlite3* db) const noexcept { sqlite3_close(db); }
  };
  std::string file_;
  std::unique_ptr<sqlite3, Close> db_;
};

std::int64_t checked_version(Connection& db, const std::filesystem::path& file) {
  const std::int64_t version = db.number("PRAGMA user_version");
  if (version <= kVersion) return version;
  fail(Errc::unsupported, "decisions {}: version {}, this library reads up to {}", file.string(), version,
       kVersion);
}

/// The column names in the order of the fields, or as a file of `version` has them.
std::string columns(std::int64_t version = kVersion) {
  std::vector<std::string> all;
  for (const std::string_view name : field_names<StoredDecision>()) {
    const bool absent =
        (version <= kWithoutBackend && name == "backend") || (version <= kWithoutLimits && name == "limits");
    all.push_back(absent ? fmt::format("'' AS {}", name) : std::string(name));
  }
  return fmt::format("{}", fmt::join(all, ", "));
}

/// Runs in a transaction. A primary key cannot be extended in place.
void bring_up_to_date(Connection& db, std::int64_t version) {
  const bool older = version == kWithoutBackend || version == kWithoutLimits;
  if (older) db.run("ALTER TABLE decision RENAME TO older");
  db.run(kCreate);
  db.run(kCreateTimings);
  db.run(kCreateVerdicts);
  if (older) {
    db.run(fmt::format("INSERT INTO decision ({}) SELECT {} FROM older", columns(), columns(version)));
    db.run("DROP TABLE older");
  }
  db.run(fmt::format("PRAGMA user_version = {}", kVersion));
}

Connection open_to_write(const std::filesystem::path& file) {
  if (file.empty())
    fail(Errc::invalid_argument, "decisions: {}; set HOME, or name the file with KSCOUT_DB or --db",
         no_user_folder("XDG_DATA_HOME"));
  make_own_folders(file.parent_path());
  Connection db(file, Access::write);
  // Before the first read: two writers then wait for each other instead of failing.
  db.run("BEGIN IMMEDIATE");
  const std::int64_t version = checked_version(db, file);
  if (version < kVersion) bring_up_to_date(db, version);
  return db;
}

/// Binds a value to the next parameter.
class Binder {
 public:
  explicit Binder(sqlite3_stmt* statement) : statement_(statement) {}
  Binder& operator()(const std::string& text) {
    sqlite3_bind_text(statement_, ++position_, text.data(), static_cast<int>(text.size()), SQLITE_STATIC);
    return *this;
  }
  Binder& operator()(double value) {
    value == value ? sqlite3_bind_double(statement_, ++position_, value)
                   : sqlite3_bind_null(statement_, ++position_);
    return *this;
  }
  Binder& operator()(std::int64_t value) {
    sqlite3_bind_int64(statement_, ++position_, value);
    return *this;
  }

 private:
  sqlite3_stmt* statement_;
  int position_ = 0;
};

void read_column(sqlite3_stmt* row, int column, std::string& to) {
  const auto* const text = sqlite3_column_text(row, column);
  const auto size = static_cast<std::size_t>(sqlite3_column_bytes(row, column));
  to.assign(reinterpret_cast<const char*>(text), text ? size : 0);
}
void read_column(sqlite3_stmt* row, int column, double& to) {
  const bool known = sqlite3_column_type(row, column) != SQLITE_NULL;
  to = known ? sqlite3_column_double(row, column) : std::numeric_limits<double>::quiet_NaN();
}
void read_column(sqlite3_stmt* row, int column, std::int64_t& to) { to = sqlite3_column_int64(row, column); }

/// Adds records, whose fields are the columns.
template <class Record>
void insert(Connection& db, std::string_view table, std::span<const Record> records) {
  const auto names = field_names<Record>();
  const std::string sql =
      fmt::format("INSERT OR REPLACE INTO {} ({}) VALUES ({})", table, fmt::join(names, ", "),
                  fmt::join(std::vector<std::string>(names.size(), "?"), ", "));
  for (const Record& one : records) {
    db.rows(
        sql.c_str(),
        [&](sqlite3_stmt* statement) {
          Binder bind(statement);
          for_each_field<Record>([&](const auto& field) { bind(one.*field.member); });
        },
        [](sqlite3_stmt*) {});
  }
}

template <class Record>
Record read_record(sqlite3_stmt* row) {
  Record one;
  int column = 0;
  for_each_field<Record>([&](const auto& field) { read_column(row, column++, one.*field.member); });
  return one;
}

/// Those of a table; none in files up to a version, which lack it.
template <class Record>
std::vector<Record> all_rows(const std::filesystem::path& file, int lacked_until, std::string_view table,
                             std::string_view order) {
  std::vector<Record> found;
  if (is_absent(file)) return found;
  Connection db(file, Access::read);
  if (checked_version(db, file) <= lacked_until) return found;
  const std::string sql =
      fmt::format("SELECT {} FROM {} ORDER BY {}", fmt::join(field_names<Record>(), ", "), table, order);
  db.rows(
      sql.c_str(), [](sqlite3_stmt*) {},
      [&](sqlite3_stmt* row) { found.push_back(read_record<Record>(row)); });
  return found;
}

}  // namespace

void DecisionDb::put(std::span<const StoredDecision> decisions, std::span<const StoredTiming> timings) const {
  Connection db = open_to_write(file_);
  insert(db, "decision", decisions);
  insert(db, "timing", timings);
  db.run("COMMIT");
}

void DecisionDb::put(std::span<const StoredVerdict> verdicts) const {
  Connection db = open_to_write(file_);
  insert(db, "verdict", verdicts);
  db.run("COMMIT");
}

void DecisionDb::check_writable() const {
  if (file_.empty() || !is_absent(file_)) {
    open_to_write(file_).run("COMMIT");
    return;
  }
  std::filesystem::path folder = file_.parent_path();
  while (!folder.empty() && is_absent(folder)) folder = folder.parent_path();
  if (!folder.empty() && (!std::filesystem::is_directory(folder) || access(folder.c_str(), W_OK | X_OK) != 0))
    fail(Errc::device_failure, "decisions {}: cannot be created in {}: {}", file_.string(), folder.string(),
         std::filesystem::is_directory(folder) ? std::strerror(errno) : "it is no folder");
}

std::vector<StoredDecision> DecisionDb::read(const std::optional<DecisionOrigin>& of) const {
  std::vector<StoredDecision> found;
  if (is_absent(file_)) return found;
  Connection db(file_, Access::read);
  const std::int64_t version = checked_version(db, file_);
  if (db.number("SELECT count(*) FROM sqlite_master WHERE name = 'decision'") == 0) return found;
  const std::string sql =
      fmt::format("SELECT {} FROM decision {} ORDER BY problem, device, driver, version, {}",
                  columns(version), of ? "WHERE device = ? AND driver = ? AND version = ?" : "",
                  version <= kWithoutLimits ? "backend" : "backend, limits");
  db.rows(
      sql.c_str(),
      [&](sqlite3_stmt* statement) {
        Binder bind(statement);
        if (of) bind(of->device)(of->driver)(of->version);
      },
      [&](sqlite3_stmt* row) {
        found.push_back(read_record<StoredDecision>(row));
        if (of && !found.back().holds(*of)) found.pop_back();
      });
  return found;
}

std::vector<StoredTiming> DecisionDb::timings() const {
  return all_rows<StoredTiming>(file_, kWithoutTimings, "timing",
                                "problem, config, device, driver, version, backend");
}

std::vector<StoredVerdict> DecisionDb::verdicts() const {
  return all_rows<StoredVerdict>(file_, kWithoutVerdicts, "verdict", "call, device, library");
}

std::size_t DecisionDb::prune(const DecisionOrigin& now, std::int64_t before) const {
  if (is_absent(file_)) return 0;
  Connection db = open_to_write(file_);
  const auto prune_table = [&](const char* table) {
    db.rows(
        fmt::format("DELETE FROM {} WHERE version <> ? OR (device = ? AND driver <> ?) OR at < ?", table)
            .c_str(),
        [&](sqlite3_stmt* statement) {
          Binder bind(statement);
          bind(now.version)(now.device)(now.driver)(before);
        },
        [](sqlite3_stmt*) {});
    return db.changes();
  };
  prune_table("timing");
  db.rows(
      "DELETE FROM verdict WHERE at < ?", [&](sqlite3_stmt* statement) { Binder{statement}(before); },
      [](sqlite3_stmt*) {});
  const std::size_t removed = prune_table("decision");
  db.run("COMMIT");
  return removed;
}

std::string device_identity(const Device& device) {
  std::string facts;
  for_each_field<Device>([&](const auto& field) {
    facts += fmt::format("{}={}\n", field.name, field_text(device.*field.member));
  });
  return fmt::format("{}/{}", device.name, hash_digits(text_hash(facts)).substr(0, 8));
}

std::filesystem::path default_decision_db() {
  const std::filesystem::path folder = user_folder("XDG_DATA_HOME", ".local/share");
  return folder.empty() ? folder : folder / "decisions.sqlite";
}

Choice timed_choice(ProblemRef problem, const KernelConfig& config, double time_us, double next_us) {
  Choice choice;
  choice.config = config;
  choice.time_us = time_us;
  choice.tflops = flop_count(problem) / time_us * 1e-6;
  choice.gb_s = min_bytes(problem) / time_us * 1e-3;
  choice.margin = next_us / time_us - 1;
  choice.source = choice.decided_by = ChoiceSource::db;
  return choice;
}

DecisionTable::DecisionTable(std::span<const StoredDecision> decisions, std::string_view of_provider,
                             std::span<const NamedConfig> disabled, const ThreadLimit& limit) {
  for (const StoredDecision& stored : decisions) {
    try {
      const Problem problem = parse_any_problem(stored.problem);
      NamedConfig named = parse_kernel_to_run(stored.config);
      const auto own = of_provider.empty() ? named.config : provider(of_provider).own(named.config);
      if (own) named.config = *own;
      const bool ours =
          own && same_but_accumulate(named.signature, signature_of(problem)) && stored.time_us > 0;
      const bool excluded = std::ranges::any_of(disabled, [&](const NamedConfig& one) {
        return one.config == named.config && same_but_accumulate(one.signature, named.signature);
      });
      if (ours && !excluded && limit.admits(host_threads(named.config))) {
        const Choice choice = timed_choice(problem, named.config, stored.time_us, stored.next_us);
        auto& choices = stored.limits.empty() ? choices_ : limited_[stored.limits];
        const auto [known, added] = choices.try_emplace(problem, choice);
        if (!added && choice.time_us < known->second.time_us) known->second = choice;
        continue;
      }
    } catch (const Error&) {  // written by a program with other names
    }
    ++skipped_;
  }
}

const Choice* DecisionTable::find(ProblemRef problem) const noexcept {
  if (choices_.empty()) return nullptr;
  const auto found = choices_.find(problem.value());
  return found == choices_.end() ? nullptr : &found->second;
}

const Choice* DecisionTable::find(ProblemRef problem, const Limits& limits) const {
  if (limited_.empty()) return nullptr;
  const auto known = limited_.find(print(limits));
  if (known == limited_.end()) return nullptr;
  const auto found = known->second.find(problem.value());
  return found == known->second.end() ? nullptr : &found->second;
}

}  // namespace kscout
