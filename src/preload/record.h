#pragma once
/// \file
/// Counts the calls of each problem, adds up their times, and keeps both in a CSV file that several processes
/// share.
///
///     Record record("/home/me/shapes.csv");
///     const Record::Place place = record.count(problem);
///     if (place) record.add_time(place, us);      // perhaps much later
///     record.write();                             // before the process ends
///
/// Each process appends a row at the first call of a problem, with spaces behind its numbers, and later
/// overwrites its own numbers. The file therefore stays readable at any time, and lacks at most the last
/// kWriteEvery calls of a process that was killed. It is opened for each write only, so neither a fork nor a
/// program that closes all descriptors does harm. Not safe with threads: the caller locks.
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <unordered_map>
#include <vector>

#include <kscout/any_problem.h>

#include "core/hash.h"
#include "op/packed_words.h"

namespace kscout::preload {

class Record {
 public:
  static constexpr std::uint64_t kWriteEvery = 4096;
  /// So many calls of a problem are timed: all calls together take their median for each call.
  static constexpr unsigned kTimedCalls = 32;

  /// `file` is an absolute path; empty: only counts.
  explicit Record(std::string file) : file_(std::move(file)) {}

  struct Row;
  /// A row to which the time of a call belongs; false where the call need not be timed.
  struct Place {
    Row* row = nullptr;
    unsigned process = 0;
    explicit operator bool() const noexcept { return row != nullptr; }
  };

  Place count(ProblemRef problem);
  /// Does nothing for a place from before forget().
  void add_time(const Place& place, double us);
  /// Writes the numbers that changed. The first failure is reported on stderr, and ends all writing.
  void write() noexcept;
  /// Forgets all counts: a child process has rows of its own.
  void forget() noexcept;

  /// How many problems of an operation were counted; `kind` is ProblemRef::kind().
  std::size_t problems(Op kind) const noexcept;

  struct Row {
    std::string problem;
    Op kind = Op::gemm;
    std::uint64_t calls = 0;
    unsigned timed = 0;                 ///< how many calls count() gave a place
    std::vector<double> times_us = {};  ///< of those that are known
    std::string written = {};           ///< the numbers in the file
    std::int64_t numbers_at = -1;       ///< their position there; -1: none
  };

 private:
  struct Hash {
    std::size_t operator()(const ProblemWords& words) const noexcept { return words_hash(words); }
  };
  bool write_rows(int file);

  std::string file_;
  std::deque<Row> rows_;
  std::unordered_map<ProblemWords, Row*, Hash> by_words_;  ///< std::hash of all fields takes longer
  std::unordered_map<Problem, Row*> large_;                ///< of numbers that the words have no room for
  std::uint64_t calls_ = 0;
  unsigned process_ = 0;  ///< counts forget()
  // The file that holds the rows, and its size then: it only grows.
  std::uint64_t device_ = 0, inode_ = 0;
  std::int64_t end_ = 0;
};

}  // namespace kscout::preload
