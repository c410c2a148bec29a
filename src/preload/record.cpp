#include "preload/record.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace kscout::preload {

namespace {

/// Digits of the largest count.
constexpr int kWeightWidth = 20;

bool write_at(int file, std::string_view text, std::int64_t at) {
  return pwrite(file, text.data(), text.size(), at) == static_cast<ssize_t>(text.size());
}

std::string weight_text(std::uint64_t calls) {
  std::string text = std::to_string(calls);
  text.resize(kWeightWidth, ' ');
  return text;
}

/// All of a row up to its weight.
std::string row_text(const GemmProblem& p) {
  std::string row;
  for (const std::int64_t size : {p.m, p.n, p.k, p.batch, p.lda, p.ldb, p.ldc})
    row += std::to_string(size) + ",";
  for (const DType type : {p.dtype_a, p.dtype_b, p.dtype_c, p.dtype_acc})
    row += std::string(word(type)) + ",";
  row += std::string(word(p.layout)) + "," + std::string(word(p.epilogue));
  return row + (p.accumulate ? ",true," : ",false,");
}

/// Locks the file against other processes. A process that was stopped while it held the lock is waited for
/// briefly only. A file system without locks needs none of us.
bool lock(int file) noexcept {
  constexpr int kTries = 50, kWaitUs = 2000;
  for (int i = 0; i < kTries; ++i) {
    if (flock(file, LOCK_EX | LOCK_NB) == 0 || (errno != EWOULDBLOCK && errno != EINTR)) return true;
    usleep(kWaitUs);
  }
  return false;
}

}  // namespace

void Record::count(const GemmProblem& problem) {
  Row& row = rows_[problem];
  ++row.calls;
  ++calls_;
  if (row.calls == 1 || std::has_single_bit(calls_) || calls_ % kWriteEvery == 0) write();
}

void Record::forget() noexcept {
  rows_.clear();
  calls_ = 0;
}

bool Record::write_rows(int file) {
  struct stat found {};
  if (fstat(file, &found) != 0) return false;
  if (!S_ISREG(found.st_mode)) {
    errno = EINVAL;
    return false;
  }
  std::int64_t end = found.st_size;
  // The first write; or somebody replaced the file, or truncated it.
  if (found.st_dev != device_ || found.st_ino != inode_ || end < end_) {
    for (auto& [problem, row] : rows_) row = {row.calls};
    device_ = found.st_dev;
    inode_ = found.st_ino;
  }
  if (end == 0) {
    if (!write_at(file, kRecordHeader, 0)) return false;
    end = static_cast<std::int64_t>(kRecordHeader.size());
  }
  for (auto& [problem, row] : rows_) {
    if (row.written == row.calls) continue;
    const std::string weight = weight_text(row.calls);
    if (row.weight_at >= 0) {
      if (!write_at(file, weight, row.weight_at)) return false;
    } else {
      const std::string text = row_text(problem);
      if (!write_at(file, text + weight + "\n", end)) return false;
      row.weight_at = end + static_cast<std::int64_t>(text.size());
      end = row.weight_at + kWeightWidth + 1;
    }
    row.written = row.calls;
  }
  end_ = end;
  return true;
}

void Record::write() noexcept {
  if (file_.empty()) return;
  const int file = open(file_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  bool written = false;
  try {
    written = file >= 0 && (!lock(file) || write_rows(file));  // without the lock: next time
  } catch (...) {
    errno = ENOMEM;
  }
  if (!written) {
    std::fprintf(stderr, "kscout exec: %s: cannot be written, and is written no more: %s\n", file_.c_str(),
                 std::strerror(errno));
    file_.clear();
  }
  if (file >= 0) close(file);
}

}  // namespace kscout::preload
