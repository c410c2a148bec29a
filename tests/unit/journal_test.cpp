#include "sweep/journal.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <kscout/error.h>

#include "core/files.h"
#include "core/json_fields.h"
#include "core/numbers.h"
#include "support/expect_error.h"
#include "support/temporary_folder.h"
#include "sweep/journal_file.h"
#include "sweep/plan.h"
#include "sweep/queue.h"

namespace kscout {
namespace {

constexpr JournalLimits kLimits{10, 100, CacheState::warm};
constexpr const char* kHash = "0123456789abcdef";

std::string join(const std::vector<std::string>& payloads) {
  std::string text;
  for (const auto& payload : payloads) text += journal_line(payload);
  return text;
}

/// A plan of a small GEMM, and of one above 2 GFLOP.
SweepPlan preset_plan(const PlanRequest& request, bool large = true) {
  std::vector<Problem> problems = {make_gemm(16, 64, 32)};
  if (large) problems.emplace_back(make_gemm(1100, 1100, 1100));
  return make_plan(problems, request, device_preset("epyc-7763"), {});
}

const std::vector<std::string> kSession = {"K1 0123456789abcdef",
                                           "S1700000000 boot-1",
                                           "Pa3.1:0-4",
                                           "a0o12.5,13,5,2,,870",
                                           "a2r99,,1",
                                           "Tsignal 11",
                                           "Da1",
                                           "Pa3.1:1",
                                           "a1c,,,,0",
                                           "Pa3.1:3-4",
                                           "a4O7,20,9"};

JournalContents parse(std::string_view text, const std::string& boot = "boot-1") {
  return parse_journal(text, "journal.log", kHash, kLimits, boot);
}

void expect_corrupt(std::string_view text, std::string_view part) {
  try {
    parse(text);
    ADD_FAILURE() << "accepted; expected: " << part;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::corrupt_data);
    EXPECT_NE(std::string_view(error.what()).find(part), std::string_view::npos) << error.what();
  }
}

TEST(Journal, RowsReadBack) {
  const auto contents = parse(join(kSession));
  ASSERT_EQ(contents.rows.size(), 4u);
  EXPECT_EQ(contents.rows[0].key, (SweepKey{3, 0, 1}));
  const Measurement& m = contents.rows[0].measured;
  EXPECT_EQ(m.time_us, 12.5);
  EXPECT_DOUBLE_EQ(m.spread, 0.013);
  EXPECT_EQ(m.repeats, 5);
  EXPECT_DOUBLE_EQ(m.error, 0.02);
  EXPECT_EQ(m.setup_us, 870);
  EXPECT_FALSE(m.noisy);
  EXPECT_EQ(contents.rows[1].measured.status, Status::pruned_early);
  EXPECT_TRUE(std::isnan(contents.rows[1].measured.spread));
  EXPECT_TRUE(std::isnan(contents.rows[1].measured.setup_us));
  EXPECT_EQ(contents.reasons.at(static_cast<std::size_t>(contents.rows[2].reason)), "signal 11");
  EXPECT_TRUE(contents.rows[3].measured.noisy);
  EXPECT_EQ(contents.crashes, (std::map<SweepKey, int>{{{3, 1, 1}, 1}}));
  EXPECT_EQ(contents.last_end, "");
}

TEST(Journal, ClocksOfTheDeviceReadBack) {
  std::vector<std::string> session = kSession;
  session.insert(session.end(), {"Ca1980", "Ca1755"});
  const auto contents = parse(join(session));
  EXPECT_EQ(contents.clocks_mhz, (std::vector<double>{1980, 1755}));
  EXPECT_EQ(contents.rows.size(), 4u);
}

TEST(Journal, EveryCutOfTheTailKeepsTheLinesBefore) {
  const std::string text = join(kSession);
  for (std::size_t bytes = 0; bytes <= text.size(); ++bytes) {
    const auto contents = parse(text.substr(0, bytes));
    const std::size_t whole = text.rfind('\n', bytes == 0 ? std::string::npos : bytes - 1);
    EXPECT_EQ(contents.good_bytes, bytes == 0 || whole == std::string::npos || whole >= bytes ? 0 : whole + 1)
        << bytes;
  }
}

TEST(Journal, EveryFlippedByteIsATornTailOrACorruptLine) {
  const std::string text = join(kSession);
  std::vector<std::size_t> begins = {0};
  for (std::size_t at = text.find('\n'); at + 1 < text.size(); at = text.find('\n', at + 1))
    begins.push_back(at + 1);
  ASSERT_EQ(begins.size(), kSession.size());
  for (std::size_t at = 0; at < text.size(); ++at) {
    for (const char flip : {'\1', '\n', '\x40'}) {
      std::string damaged = text;
      damaged[at] = static_cast<char>(damaged[at] ^ flip);
      if (damaged[at] == text[at]) continue;
      const auto line =
          static_cast<std::size_t>(std::upper_bound(begins.begin(), begins.end(), at) - begins.begin());
      // Without its line break the last line but one swallows the last: nothing whole stands behind.
      const bool tail = line == begins.size() || (line + 1 == begins.size() && text[at] == '\n');
      if (tail) {
        EXPECT_EQ(parse(damaged).good_bytes, begins[line - 1]) << at;
      } else {
        expect_corrupt(damaged, fmt::format("line {} is damaged", line));
      }
    }
  }
}

TEST(Journal, GarbageBehindTheEndIsCut) {
  const std::string text = join(kSession);
  for (const std::string& garbage : {std::string(4096, '\0'), std::string("half a li"), std::string("\n\n\n"),
                                     std::string("abc\ndef\n")}) {
    EXPECT_EQ(parse(text + garbage).good_bytes, text.size());
  }
}

/// A copy by way of Windows or an editor adds carriage returns.
TEST(Journal, LinesMayEndWithACarriageReturn) {
  std::string text;
  for (const char c : join(kSession)) text += c == '\n' ? "\r\n" : std::string(1, c);
  const JournalContents read = parse(text), plain = parse(join(kSession));
  EXPECT_EQ(read.good_bytes, text.size());
  EXPECT_EQ(read.lines, plain.lines);
  ASSERT_EQ(read.rows.size(), plain.rows.size());
  EXPECT_EQ(read.reasons, plain.reasons);
  EXPECT_EQ(parse(text + journal_line("Pa3.1:6")).lines, plain.lines + 1);
}

TEST(Journal, OneWithoutItsFirstLineIsRefused) {
  expect_corrupt("no journal\n", "its first line is not that of a journal");
  EXPECT_EQ(parse("no line break").lines, 0u);  // a torn write
}

TEST(Journal, LinesThatCannotBeAreNamed) {
  const auto with = [&](const std::string& line) {
    auto lines = kSession;
    lines.push_back(line);
    return join(lines);
  };
  expect_corrupt(with("a0o5"), "line 12: problem 3, config 0, pass 1 is there twice");
  expect_corrupt(with("a100o5"), "config 100: the manifest has 100");
  expect_corrupt(with("b0o5"), "no intent of slot 'b' before this line");
  expect_corrupt(with("a3x5"), "'x' is no status");
  expect_corrupt(with("a3o5,,,,7"), "reason 7 is not known");
  expect_corrupt(with("a3o5,1,1,1,0,9,9"), "behind the last field");
  expect_corrupt(with("a3o5,1,-1"), "-1 repeats");
  expect_corrupt(with("a3o5,1,1,1,0,-2"), "-2 us to set up");
  expect_corrupt(with("Pa10.1:0"), "problem 10: the manifest has 10");
  expect_corrupt(with("Pa1.3:0"), "pass 3");
  expect_corrupt(with("Pa1.1:4-2"), "ascend");
  expect_corrupt(with("Pa1.1:0-323456789"), "323456789 is not below 100");
  expect_corrupt(with("Z"), "no intent of slot 'Z' before this line");
  expect_corrupt(join({"K1 another"}), "line 1: belongs to another manifest");
  expect_corrupt(join({"K2 0123456789abcdef"}), "not the beginning of a journal");
}

TEST(Journal, WhatWasOpenWhenTheMachineRestartedCountsAsADeath) {
  const std::string text = join(kSession);
  EXPECT_EQ(parse(text, "boot-1").crashes.count({3, 3, 1}), 0u)
      << "same boot: the sweep was killed, not the machine";
  EXPECT_EQ(parse(text, "boot-2").crashes.at({3, 3, 1}), 1);
  EXPECT_EQ(parse(text, "boot-2").crashes.count({3, 4, 1}), 0u) << "answered";
  const std::string again = text + join({"S1700000100 boot-2", "Pa3.1:3"});
  EXPECT_EQ(parse(again, "boot-2").crashes.at({3, 3, 1}), 1);
  EXPECT_EQ(parse(again, "boot-3").crashes.at({3, 3, 1}), 2) << "twice: it will be recorded as crashed";
  EXPECT_EQ(parse(text + join({"Ebudget"}), "boot-2").crashes.count({3, 3, 1}), 0u) << "ended in order";
  EXPECT_EQ(parse(text + join({"Ebudget"})).last_end, "budget");
}

TEST(Journal, SessionsWithATimeOfTheirEndHaveRowsAndSeconds) {
  const std::string text = join(kSession);
  EXPECT_TRUE(parse(text).sessions.empty()) << "it goes on";
  EXPECT_TRUE(parse(text + join({"Ebudget"})).sessions.empty()) << "an older journal";
  const JournalContents two = parse(
      text + join({"Ebudget 1700000100", "S1700000200 boot-1", "Pa3.1:3-4", "a3o5", "Edone 1700000203"}));
  EXPECT_EQ(two.last_end, "done");
  ASSERT_EQ(two.sessions.size(), 2U);
  EXPECT_EQ(two.sessions[0].rows, parse(text).rows.size());
  EXPECT_EQ(two.sessions[0].seconds, 100);
  EXPECT_EQ(two.sessions[1].rows, 1U);
  EXPECT_EQ(two.sessions[1].seconds, 3);
}

constexpr Axis kNumberAxes[] = {{"number", "1", "a number"}};
constexpr ConfigSpace kNumberSpace{"toy", Op::gemm, kNumberAxes};

SweepPlan toy_plan(int configs) {
  SweepPlan plan;
  plan.problems = {make_gemm(1, 1, 1), make_gemm(2, 2, 2)};
  std::vector<std::uint32_t> all;
  for (int c = 0; c < configs; ++c) {
    KernelConfig config(kNumberSpace);
    config.set("number", c);
    plan.configs.push_back(config);
    all.push_back(static_cast<std::uint32_t>(c));
  }
  plan.candidates = {all, all};
  return plan;
}

Measurement timed(double us, Status status = Status::ok) {
  Measurement m;
  m.status = status;
  m.time_us = us;
  return m;
}

TEST(Provenance, SystemIsAReleaseThatOthersKnow) {
  const std::string system = host_provenance().at("system");
  EXPECT_EQ(std::ranges::count(system, ' '), 2) << system;
  EXPECT_EQ(system.find('-'), std::string::npos) << system;
}

/// Only rows that are ok count as noisy, each in its own pass; the same row in the journal of another shard
/// does not count again.
TEST(SweepStatus, ReasonsLeaveOutTheProblem) {
  const std::string reason = "unsupported: rule 'x' refuses it: y";
  EXPECT_EQ(general_reason(Status::unsupported, "gemm:1x2x3:fp32:rcr: rule 'x' refuses it: y"), reason);
  EXPECT_EQ(general_reason(Status::unsupported, "conv_fwd:1x2x3x4:5x1x1:bf16:nhwgc: rule 'x' refuses it: y"),
            reason);
  EXPECT_EQ(general_reason(Status::unsupported, "conv_bwd_weight:1x2x3x4:5x1x1: rule 'x' refuses it: y"),
            reason);
  EXPECT_EQ(general_reason(Status::unsupported, "rule 'x' refuses it: y"), reason);
}

TEST(SweepPlan, WhatIsLeftOutIsCounted) {
  const std::vector<Problem> problems = {make_gemm(16, 64, 32), make_gemm(1100, 1100, 1100),
                                         make_gemm(64, 64, 64), make_gemm(1200, 1200, 1200),
                                         make_gemm(8, 8, 8)};
  const Device device = device_preset("epyc-7763");
  EXPECT_TRUE(make_plan(problems, {.rules = "tiny"}, device, {}).left_out.empty());
  const SweepPlan plan = make_plan(
      problems,
      {.rules = "tiny", .max_problems = 2, .max_gflop = 2, .left_out = {{"problems above --max-gflop 2", 4}}},
      device, {});
  EXPECT_EQ(plan.problems.size(), 2u);
  EXPECT_EQ(plan.left_out,
            (LeftOutCounts{{"problems above --max-gflop 2", 6}, {"problems beyond --max-problems 2", 1}}));
  EXPECT_EQ(left_out_text(plan.left_out),
            "problems above --max-gflop 2: 6; problems beyond --max-problems 2: 1");
  test::expect_error(Errc::not_found, {"no problem is left", "problems above --max-gflop 1e-09: 5"},
                     [&] { make_plan(problems, {.rules = "tiny", .max_gflop = 1e-9}, device, {}); });
}

TEST(SweepPlan, ProblemsToWhichNoConfigAppliesAreCounted) {
  const SweepPlan plan =
      make_plan({parse_conv_problem("conv_fwd:1x16x14x14:24x5x5:pad=2"),
                 parse_conv_problem("conv_fwd:1x16x14x14:24x3x3:pad=1")},
                {.rules = "default", .filter = "c.kind == 'wino'"}, device_preset("epyc-7763"), {});
  EXPECT_EQ(plan.candidates.at(0).size(), 0u);
  EXPECT_GT(plan.candidates.at(1).size(), 0u);
  EXPECT_EQ(plan.left_out, (LeftOutCounts{{"problems to which no config applies", 1}}));
}

TEST(SweepStatus, ManifestKeepsWhatIsLeftOut) {
  const test::TemporaryFolder folder;
  SweepPlan plan = preset_plan({.rules = "tiny", .max_gflop = 2});
  const std::string hash = write_manifest(folder.path(), plan);
  const LeftOutCounts expected = {{"problems above --max-gflop 2", 1}};
  EXPECT_EQ(sweep_status(folder.path()).plan_left_out, expected);
  // A list without the problem is the same sweep. Older manifests lack the count.
  EXPECT_EQ(write_manifest(folder.path(), preset_plan({.rules = "tiny"}, /*large=*/false)), hash);
  Json manifest = Json::parse(read_file(folder / kManifestName));
  manifest.erase("left_out");
  write_file_atomically(folder / kManifestName, manifest.dump());
  EXPECT_TRUE(sweep_status(folder.path()).plan_left_out.empty());
  EXPECT_EQ(write_manifest(folder.path(), plan), hash);
}

TEST(SweepFolder, OtherFilesAreRefusedBeforeTheFirstSweepOnly) {
  const test::TemporaryFolder folder;
  const SweepPlan plan = preset_plan({.rules = "tiny"}, /*large=*/false);
  write_file_atomically(folder / "notes.txt", "mine");
  test::expect_error(Errc::invalid_argument, {"holds notes.txt and no sweep"},
                     [&] { write_manifest(folder.path(), plan); });
  EXPECT_FALSE(std::filesystem::exists(folder / kManifestName));
  std::filesystem::remove(folder / "notes.txt");
  write_file_atomically(folder / "manifest.json.4711.part", "of a killed sweep");
  const std::string hash = write_manifest(folder.path(), plan);
  write_file_atomically(folder / "notes.txt", "mine");
  EXPECT_EQ(write_manifest(folder.path(), plan), hash) << "a sweep's own folder may hold other files";
}

TEST(SweepStatus, NoisyRowsAreCountedByPass) {
  const test::TemporaryFolder folder;
  const SweepPlan plan = make_plan({make_gemm(16, 64, 32), make_gemm(64, 64, 64)}, {.rules = "tiny"},
                                   device_preset("epyc-7763"), Protocol{});
  ASSERT_GE(plan.configs.size(), 5u);
  const std::string hash = write_manifest(folder.path(), plan);
  const JournalLimits limits{plan.problems.size(), plan.configs.size(), plan.protocol.cache};
  const auto noisy = [](Measurement m) {
    m.noisy = true;
    return m;
  };
  for (const char* const name : {"journal.log", "journal-2.log"}) {
    JournalWriter journal(folder / name, hash, limits);
    journal.intent('a', 0, 1, {0, 1, 2, 3, 4});
    journal.row('a', 0, noisy(timed(3)), "");
    journal.row('a', 1, timed(4), "");
    journal.row('a', 2, noisy(timed(30, Status::pruned_early)), "");
    journal.row('a', 3, noisy(timed(5)), "");
    journal.row('a', 4, noisy(timed(6)), "");
    journal.intent('a', 0, 2, {0, 1});
    journal.row('a', 0, noisy(timed(2)), "");
    journal.row('a', 1, timed(3), "");
    journal.flush();
  }
  const SweepStatus status = sweep_status(folder.path());
  EXPECT_EQ(status.rows, 5u);
  EXPECT_EQ(status.count(Status::ok), 4u);
  EXPECT_EQ(status.noisy, 3u);
  EXPECT_EQ(status.contender_rows, 2u);
  EXPECT_EQ(status.noisy_contenders, 1u);
}

TEST(WorkQueue, AllThenContendersThenNothing) {
  auto plan = toy_plan(4);
  plan.protocol.prune_factor = 1.1;
  WorkQueue queue(plan, {1, 0}, {}, {});
  EXPECT_EQ(queue.take_problem(), 1u);
  auto batch = queue.next_batch(1);
  ASSERT_TRUE(batch);
  EXPECT_EQ(batch->pass, 1);
  EXPECT_EQ(std::set(batch->configs.begin(), batch->configs.end()), (std::set<std::uint32_t>{0, 1, 2, 3}));
  queue.answered({1, 0, 1}, timed(10));
  queue.answered({1, 1, 1}, timed(1, Status::wrong));
  queue.answered({1, 2, 1}, timed(10.9));
  queue.answered({1, 3, 1}, timed(6000));
  EXPECT_EQ(queue.best_us(1), 10);
  batch = queue.next_batch(1);
  ASSERT_TRUE(batch);
  EXPECT_EQ(batch->pass, 2);
  EXPECT_EQ(batch->configs, (std::vector<std::uint32_t>{0, 2}));
  queue.split_contenders(1);
  EXPECT_EQ(queue.next_batch(1)->configs, (std::vector<std::uint32_t>{0}));
  queue.answered({1, 0, 2}, timed(10));
  EXPECT_EQ(queue.next_batch(1)->configs, (std::vector<std::uint32_t>{2}));
  queue.answered({1, 2, 2}, timed(11));
  EXPECT_FALSE(queue.next_batch(1));
  queue.finished(1);
  EXPECT_EQ(queue.problems_done(), 1u);
  EXPECT_EQ(queue.take_problem(), 0u);
  EXPECT_EQ(queue.take_problem(), std::nullopt);
}

TEST(WorkQueue, SuspectsGoAloneAndWhatCrashedTwiceIsListed) {
  const auto plan = toy_plan(4);
  WorkQueue queue(plan, {0}, {}, {{{0, 1, 1}, 1}, {{0, 2, 1}, 2}});
  EXPECT_EQ(queue.take_problem(), 0u);
  EXPECT_EQ(queue.crashed_twice(0), (std::vector<SweepKey>{{0, 2, 1}}));
  const auto first = queue.next_batch(0);
  EXPECT_EQ(std::set(first->configs.begin(), first->configs.end()), (std::set<std::uint32_t>{0, 3}));
  queue.answered({0, 0, 1}, timed(10));
  queue.answered({0, 3, 1}, timed(10));
  EXPECT_EQ(queue.next_batch(0)->configs, (std::vector<std::uint32_t>{1}));
  queue.worker_crashed({0, 1, 1});
  EXPECT_EQ(queue.crashed_twice(0), (std::vector<SweepKey>{{0, 1, 1}, {0, 2, 1}}));
}

TEST(WorkQueue, ContendersAreTheSameAfterAResume) {
  auto plan = toy_plan(3);
  std::vector<JournalRow> rows;
  WorkQueue live(plan, {0}, {}, {});
  for (std::uint32_t c = 0; c < 3; ++c) {
    const auto measured = timed(c == 0 ? 10.0 : 10.99999949 + c * 1e-7);
    live.answered({0, c, 1}, measured);
    auto stored = measured;
    stored.time_us = with_digits(measured.time_us, kTimeDigits);
    rows.push_back({{0, c, 1}, stored});
  }
  const WorkQueue resumed(plan, {0}, rows, {});
  EXPECT_EQ(live.next_batch(0)->configs, resumed.next_batch(0)->configs);
}

}  // namespace
}  // namespace kscout
