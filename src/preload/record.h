#pragma once
/// \file
/// Counts the calls of each problem and keeps the counts in a CSV file that several processes share.
///
///     Record record("/home/me/shapes.csv");
///     record.count(problem);
///     record.write();      // before the process ends
///
/// Each process appends a row at the first call of a problem, with spaces behind its weight (the calls), and
/// later overwrites its own weights. The file therefore stays readable at any time, and lacks at most the
/// last kWriteEvery calls of a process that was killed. It is opened for each write only, so neither a fork
/// nor a program that closes all descriptors does harm. Not safe with threads: the caller locks.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include <kscout/problem.h>

#include "preload/read_calls.h"

namespace kscout::preload {

/// The first line of the file.
inline constexpr std::string_view kRecordHeader =
    "m,n,k,batch,lda,ldb,ldc,dtype_a,dtype_b,dtype_c,dtype_acc,layout,epilogue,accumulate,weight\n";

class Record {
 public:
  static constexpr std::uint64_t kWriteEvery = 4096;

  /// `file` is an absolute path; empty: only counts.
  explicit Record(std::string file) : file_(std::move(file)) {}

  void count(const GemmProblem& problem);
  /// Writes the counts that changed. The first failure is reported on stderr, and ends all writing.
  void write() noexcept;
  /// Forgets all counts: a child process has rows of its own.
  void forget() noexcept;

  std::size_t problems() const noexcept { return rows_.size(); }

 private:
  struct Row {
    std::uint64_t calls = 0, written = 0;
    std::int64_t weight_at = -1;  ///< position in the file; -1: not there
  };
  struct Hash {
    std::size_t operator()(const GemmProblem& problem) const noexcept { return quick_hash(problem); }
  };
  bool write_rows(int file);

  std::string file_;
  std::unordered_map<GemmProblem, Row, Hash> rows_;
  std::uint64_t calls_ = 0;
  // The file that holds the rows, and its size then: it only grows.
  std::uint64_t device_ = 0, inode_ = 0;
  std::int64_t end_ = 0;
};

}  // namespace kscout::preload
