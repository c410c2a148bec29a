// Tests decisions found by timing: stored in a file, shared by processes, returned by a selector.
#include "select/decision_db.h"

#include <functional>

#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/wait.h>

#include <kscout/error.h>
#include <kscout/provider.h>
#include <kscout/selector.h>
#include <kscout/version.h>

#include "support/models_folder.h"

namespace kscout {
namespace {

namespace fs = std::filesystem;

using DecisionDbTest = toy::ModelsFolder;

Errc error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.code();
  }
  ADD_FAILURE() << "no error";
  return Errc::not_found;
}

StoredDecision decision(const GemmProblem& problem, std::size_t config, double time_us = 10) {
  return {.problem = print(problem),
          .config = toy::family().name(config),
          .device = device_identity(toy::device()),
          .driver = "",
          .version = KSCOUT_VERSION,
          .time_us = time_us,
          .next_us = 1.25 * time_us,
          .timed = 3,
          .at = 1'700'000'000};
}

TEST_F(DecisionDbTest, KeepsOneDecisionPerProblemAndOrigin) {
  const DecisionDb db(folder_ / "new" / "folder" / "decisions.sqlite");
  EXPECT_TRUE(db.read().empty()) << "an absent file holds none";
  const GemmProblem p = make_gemm(1, 2, 3), q = make_gemm(4, 5, 6);
  StoredDecision other_driver = decision(p, 3);
  other_driver.driver = "560.1";
  other_driver.next_us = std::nan("");
  db.put(std::array{decision(q, 1), decision(p, 2), other_driver});
  db.put(decision(p, 4, 5));
  const auto all = db.read();
  ASSERT_EQ(all.size(), 3u);
  EXPECT_TRUE(fields_equal(all[0], decision(p, 4, 5))) << "replaced";
  EXPECT_TRUE(fields_equal(all[1], other_driver));
  EXPECT_TRUE(fields_equal(all[2], decision(q, 1)));
  EXPECT_EQ(db.read(decision(p, 0).origin()).size(), 2u);
}

TEST_F(DecisionDbTest, BackendsOfOneDeviceKeepTheirOwn) {
  const DecisionDb db(folder_ / "decisions.sqlite");
  const GemmProblem p = make_gemm(96, 128, 256);
  StoredDecision slow = decision(p, 1, 20), fast = decision(p, 2, 10);
  slow.backend = "cpu";
  fast.backend = "a_library";
  db.put(std::array{slow, fast});
  EXPECT_EQ(db.read().size(), 2u);
  const auto of_cpu = db.read(slow.origin());
  ASSERT_EQ(of_cpu.size(), 1u);
  EXPECT_TRUE(fields_equal(of_cpu[0], slow));

  const auto chosen = [&](std::string backend) {
    SelectorRequest request{.device = toy::device(), .rules = "tiny"};
    request.db = db.file();
    request.backend = std::move(backend);
    return Selector::load(folder_ / "model", request).select(p).time_us;
  };
  EXPECT_EQ(chosen("cpu"), 20);
  EXPECT_EQ(chosen("a_library"), 10);
  EXPECT_EQ(chosen(""), 10) << "of any backend the fastest";
  EXPECT_FALSE(chosen("another") == 10 || chosen("another") == 20);
}

/// A file as version 1 had it.
void write_version_1(const fs::path& file, const StoredDecision& one) {
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open(file.c_str(), &db), SQLITE_OK);
  const std::string sql = fmt::format(
      "CREATE TABLE decision (problem TEXT NOT NULL, config TEXT NOT NULL, device TEXT NOT NULL, "
      "driver TEXT NOT NULL, version TEXT NOT NULL, time_us REAL NOT NULL, next_us REAL, timed INTEGER NOT "
      "NULL, at INTEGER NOT NULL, PRIMARY KEY (problem, device, driver, version)) WITHOUT ROWID;"
      "INSERT INTO decision VALUES ('{}', '{}', '{}', '{}', '{}', {}, {}, {}, {});"
      "PRAGMA user_version = 1;",
      one.problem, one.config, one.device, one.driver, one.version, one.time_us, one.next_us, one.timed,
      one.at);
  EXPECT_EQ(sqlite3_exec(db, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(db);
}

TEST_F(DecisionDbTest, FilesOfVersion1AreReadAndBroughtUpToDate) {
  const DecisionDb db(folder_ / "decisions.sqlite");
  const StoredDecision old = decision(make_gemm(1, 2, 3), 1);
  write_version_1(db.file(), old);
  DecisionOrigin cpu = old.origin();
  cpu.backend = "cpu";
  const auto before = db.read(cpu);
  ASSERT_EQ(before.size(), 1u) << "found on a backend that nobody knows: holds for each";
  EXPECT_TRUE(fields_equal(before[0], old));

  StoredDecision added = decision(make_gemm(1, 2, 3), 2, 5);
  added.backend = "cpu";
  db.put(added);
  const auto after = db.read();
  ASSERT_EQ(after.size(), 2u);
  EXPECT_TRUE(fields_equal(after[0], old));
  EXPECT_TRUE(fields_equal(after[1], added));
}

TEST_F(DecisionDbTest, FilesOfVersion2HaveNoLimits) {
  const DecisionDb db(folder_ / "decisions.sqlite");
  StoredDecision old = decision(make_gemm(1, 2, 3), 1);
  old.backend = "cpu";
  sqlite3* file = nullptr;
  ASSERT_EQ(sqlite3_open(db.file().c_str(), &file), SQLITE_OK);
  const std::string sql = fmt::format(
      "CREATE TABLE decision (problem TEXT NOT NULL, config TEXT NOT NULL, device TEXT NOT NULL, driver TEXT "
      "NOT NULL, version TEXT NOT NULL, backend TEXT NOT NULL, time_us REAL NOT NULL, next_us REAL, timed "
      "INTEGER NOT NULL, at INTEGER NOT NULL, PRIMARY KEY (problem, device, driver, version, backend)) "
      "WITHOUT ROWID; INSERT INTO decision VALUES ('{}', '{}', '{}', '{}', '{}', 'cpu', {}, {}, {}, {});"
      "PRAGMA user_version = 2;",
      old.problem, old.config, old.device, old.driver, old.version, old.time_us, old.next_us, old.timed,
      old.at);
  EXPECT_EQ(sqlite3_exec(file, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(file);
  ASSERT_EQ(db.read().size(), 1U);
  EXPECT_TRUE(fields_equal(db.read()[0], old));
  StoredDecision limited = old;
  limited.limits = "deterministic";
  db.put(limited);
  const auto both = db.read();
  ASSERT_EQ(both.size(), 2U) << "limits are part of the key";
  EXPECT_TRUE(fields_equal(both[0], old));
  EXPECT_TRUE(fields_equal(both[1], limited));
}

StoredTiming timing(const GemmProblem& problem, std::size_t config, double time_us) {
  return {.problem = print(problem),
          .config = toy::family().name(config),
          .device = device_identity(toy::device()),
          .driver = "",
          .version = KSCOUT_VERSION,
          .backend = "cpu",
          .time_us = time_us,
          .at = 1'700'000'000};
}

TEST_F(DecisionDbTest, KeepsEveryTimedConfig) {
  const DecisionDb db(folder_ / "decisions.sqlite");
  EXPECT_TRUE(db.timings().empty()) << "an absent file holds none";
  const GemmProblem p = make_gemm(1, 2, 3);
  const StoredDecision fastest = decision(p, 2);
  db.put(std::span(&fastest, 1), std::array{timing(p, 1, 30), timing(p, 2, 10)});
  db.put({}, std::array{timing(p, 1, 20)});
  const auto all = db.timings();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_TRUE(fields_equal(all[0], timing(p, 1, 20))) << "replaced";
  EXPECT_TRUE(fields_equal(all[1], timing(p, 2, 10)));
  EXPECT_EQ(db.read().size(), 1u);
  EXPECT_EQ(db.prune(fastest.origin(), 1'800'000'000), 1u);
  EXPECT_TRUE(db.timings().empty()) << "as old as the decision";
}

TEST_F(DecisionDbTest, FilesOfVersion3HaveNoTimings) {
  const DecisionDb db(folder_ / "decisions.sqlite");
  const GemmProblem p = make_gemm(1, 2, 3);
  db.put(decision(p, 1));
  sqlite3* file = nullptr;
  ASSERT_EQ(sqlite3_open(db.file().c_str(), &file), SQLITE_OK);
  EXPECT_EQ(sqlite3_exec(file, "DROP TABLE timing; PRAGMA user_version = 3;", nullptr, nullptr, nullptr),
            SQLITE_OK);
  sqlite3_close(file);
  EXPECT_TRUE(db.timings().empty());
  db.put({}, std::array{timing(p, 1, 20)});
  EXPECT_EQ(db.timings().size(), 1u);
  EXPECT_TRUE(fields_equal(db.read().at(0), decision(p, 1)));
}

TEST_F(DecisionDbTest, KeepsOneVerdictPerCallDeviceAndLibrary) {
  const DecisionDb db(folder_ / "decisions.sqlite");
  const StoredVerdict right{.call = "gemm:1x2x3 by f",
                            .device = "GPU",
                            .library = "cublasLt 130100",
                            .verdict = "right",
                            .algorithm = {},
                            .at = 1'700'000'000};
  StoredVerdict other = right, later = right;
  other.library = "cublasLt 130200";
  later.verdict = "replaced";
  later.algorithm = "0a";
  EXPECT_TRUE(db.verdicts().empty()) << "an absent file holds none";
  db.put(decision(make_gemm(1, 2, 3), 1));
  sqlite3* file = nullptr;
  ASSERT_EQ(sqlite3_open(db.file().c_str(), &file), SQLITE_OK);
  EXPECT_EQ(sqlite3_exec(file, "DROP TABLE verdict; PRAGMA user_version = 4;", nullptr, nullptr, nullptr),
            SQLITE_OK);
  sqlite3_close(file);
  EXPECT_TRUE(db.verdicts().empty()) << "files of version 4 have none";
  db.put(std::array{right, other});
  db.put(std::array{later});
  const auto all = db.verdicts();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_TRUE(fields_equal(all[0], later)) << "replaced";
  EXPECT_TRUE(fields_equal(all[1], other));
  EXPECT_EQ(db.read().size(), 1u);
  db.prune(decision(make_gemm(1, 2, 3), 1).origin(), 1'800'000'000);
  EXPECT_TRUE(db.verdicts().empty());
}

TEST_F(DecisionDbTest, PruneRemovesWhatIsStale) {
  const DecisionDb db(folder_ / "decisions.sqlite");
  const GemmProblem p = make_gemm(1, 2, 3);
  StoredDecision old_version = decision(p, 1), old_driver = decision(p, 1), elsewhere = decision(p, 1);
  old_version.version = "0.0.1";
  old_driver.driver = "1";
  elsewhere.device = "h200/01234567";
  elsewhere.driver = "1";
  StoredDecision old = decision(make_gemm(7, 7, 7), 1);
  old.at = 1;
  const DecisionOrigin now = decision(p, 1).origin();
  db.put(std::array{decision(p, 1), old_version, old_driver, elsewhere, old});
  EXPECT_EQ(db.prune(now, 0), 2u);
  EXPECT_EQ(db.prune(now, 1'000'000), 1u);
  const auto left = db.read();
  ASSERT_EQ(left.size(), 2u);
  EXPECT_EQ(left[1].device, elsewhere.device) << "whether its driver is stale only that device knows";
}

TEST_F(DecisionDbTest, BadFilesAreErrors) {
  write_file_atomically(folder_ / "text", std::string(5000, 'x'));
  EXPECT_EQ(error_of([&] { DecisionDb(folder_ / "text").read(); }), Errc::corrupt_data);
  EXPECT_EQ(error_of([&] { DecisionDb(folder_ / "text").put(decision(make_gemm(1, 1, 1), 0)); }),
            Errc::corrupt_data);
  EXPECT_EQ(error_of([&] { DecisionDb(folder_ / "text" / "below").put(decision(make_gemm(1, 1, 1), 0)); }),
            Errc::device_failure);
}

TEST_F(DecisionDbTest, ProcessesMayWriteAtOnce) {
  const DecisionDb db(folder_ / "decisions.sqlite");
  constexpr int kProcesses = 4, kEach = 8;
  std::vector<pid_t> children;
  for (int process = 0; process < kProcesses; ++process) {
    const pid_t child = fork();
    if (child == 0) {
      bool right = true;
      try {
        for (int i = 0; i < kEach; ++i) db.put(decision(make_gemm(process + 1, i + 1, 1), 0));
      } catch (...) {
        right = false;
      }
      _exit(right ? 0 : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(db.read().size(), std::size_t{kProcesses} * kEach);
}

TEST_F(DecisionDbTest, SelectorsAnswerWithWhatHoldsHere) {
  const fs::path file = folder_ / "decisions.sqlite";
  const DecisionDb db(file);
  const GemmProblem p = make_gemm(96, 128, 256), q = make_gemm(97, 128, 256), r = make_gemm(98, 128, 256);
  const auto plain = Selector::load(folder_ / "model").rank(p, 12);
  const KernelConfig last = plain.back().config;
  StoredDecision timed = decision(p, 0), stale = decision(q, 0), unknown = decision(r, 0);
  timed.config = config_name(signature_of(p), last);
  stale.version = "0.0.1";
  unknown.config = "native_gemm_of_a_later_time";
  db.put(std::array{timed, stale, unknown});

  SelectorRequest request{.device = toy::device(), .rules = "tiny"};
  request.db = file;
  Selector selector = Selector::load(folder_ / "model", request);
  const Choice choice = selector.select(p);
  EXPECT_EQ(choice.source, ChoiceSource::db);
  EXPECT_EQ(choice.config, last);
  EXPECT_EQ(choice.time_us, 10);
  EXPECT_EQ(choice.tflops, flop_count(p) / 10 * 1e-6);
  EXPECT_DOUBLE_EQ(choice.margin, 0.25);
  EXPECT_EQ(selector.select(p).decided_by, ChoiceSource::db);
  EXPECT_EQ(selector.select(p).source, ChoiceSource::cache);
  EXPECT_EQ(selector.select(p, By::tflops).decided_by, ChoiceSource::db);
  EXPECT_EQ(selector.select(q).source, ChoiceSource::model);
  EXPECT_EQ(selector.select(r).source, ChoiceSource::model);
  const auto ranked = selector.rank(p, 12);
  ASSERT_EQ(ranked.size(), plain.size());
  EXPECT_EQ(ranked[0].config, last);
  for (std::size_t i = 1; i < ranked.size(); ++i) EXPECT_EQ(ranked[i].config, plain[i - 1].config);

  db.put(decision(q, 5));
  EXPECT_EQ(selector.select(q).decided_by, ChoiceSource::model) << "the file is read at start and on refresh";
  selector.refresh();
  EXPECT_EQ(selector.select(q).source, ChoiceSource::db);
  EXPECT_EQ(selector.select(q).config, toy::family().configs[5]);
  EXPECT_EQ(selector.select(r).source, ChoiceSource::model);

  setenv("KSCOUT_DISABLE", "db", 1);
  selector.refresh();
  EXPECT_EQ(selector.select(q).source, ChoiceSource::model);
  unsetenv("KSCOUT_DISABLE");
  setenv("KSCOUT_DB", file.c_str(), 1);
  EXPECT_EQ(Selector::load(folder_ / "model").select(q).source, ChoiceSource::db);
  unsetenv("KSCOUT_DB");

  Device other = toy::device();
  other.max_clock_mhz += 1;
  request.device = other;
  EXPECT_EQ(Selector::load(folder_ / "model", request).select(p).source, ChoiceSource::model)
      << "a device of the same name with other facts";
}

}  // namespace
}  // namespace kscout
