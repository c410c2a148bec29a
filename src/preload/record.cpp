#include "preload/record.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "op/problem_sets.h"
#include "op/problem_words.h"
#include "preload/apart.h"
#include "preload/say.h"

namespace kscout::preload {

namespace {

/// Returns false with errno.
bool write_at(int file, std::string_view text, std::int64_t at) {
  while (!text.empty()) {
    const ssize_t written = pwrite(file, text.data(), text.size(), at);
    if (written < 0 && errno == EINTR) continue;
    if (written == 0) errno = ENOSPC;
    if (written <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
    at += written;
  }
  return true;
}

/// The calls, and the time of all of them, of fixed width. The first call may load the kernel, and the GPU
/// may wait for the program during any: hence the median.
std::string numbers_of(const Record::Row& row) {
  constexpr int kWidth = 20;  // digits of the largest count
  if (row.times_us.empty()) return fmt::format("{:<{}},{:{}}", row.calls, kWidth, "", kWidth);
  std::vector<double> times = row.times_us;
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>((times.size() - 1) / 2);
  std::ranges::nth_element(times, middle);
  return fmt::format("{:<{}},{:<{}.1f}", row.calls, kWidth, *middle * static_cast<double>(row.calls), kWidth);
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

Record::Place Record::count(ProblemRef problem) {
  std::uint64_t rest = 0;
  const ProblemWords words = words_of_any(rest, problem, 0);
  Row*& row = rest == 0 ? by_words_[words] : large_[problem.value()];
  if (!row) row = &rows_.emplace_back(Row{.problem = print(problem), .kind = problem.kind()});
  ++row->calls;
  ++calls_;
  if (row->calls == 1 || std::has_single_bit(calls_) || calls_ % kWriteEvery == 0) write();
  if (file_.empty() || row->timed == kTimedCalls) return {};
  ++row->timed;
  return {row, process_};
}

std::size_t Record::problems(Op kind) const noexcept {
  return static_cast<std::size_t>(std::ranges::count(rows_, kind, &Row::kind));
}

void Record::add_time(const Place& place, double us) {
  if (place.process == process_) place.row->times_us.push_back(us);
}

void Record::forget() noexcept {
  by_words_.clear();
  large_.clear();
  rows_.clear();
  calls_ = 0;
  ++process_;
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
    for (Row& row : rows_) row.numbers_at = -1;
    device_ = found.st_dev;
    inode_ = found.st_ino;
  }
  if (end == 0) {
    const std::string header = std::string(kRecordHeader) + "\n";
    if (!write_at(file, header, 0)) return false;
    end = static_cast<std::int64_t>(header.size());
  }
  for (Row& row : rows_) {
    const std::string numbers = numbers_of(row);
    if (row.numbers_at < 0) {
      const std::string text = row.problem + ',' + numbers + '\n';
      if (!write_at(file, text, end)) return false;
      row.numbers_at = end + static_cast<std::int64_t>(row.problem.size()) + 1;
      end += static_cast<std::int64_t>(text.size());
    } else if (numbers != row.written && !write_at(file, numbers, row.numbers_at)) {
      return false;
    }
    row.written = numbers;
  }
  end_ = end;
  return true;
}

void Record::write() noexcept {
  if (file_.empty()) return;
  int error = ENOMEM;
  try {
    run_apart([&] {
      const int file = open(file_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0666);
      const bool written = file >= 0 && (!lock(file) || write_rows(file));  // without the lock: next time
      error = written ? 0 : errno;
      if (file >= 0) close(file);
    });
  } catch (...) {  // no memory
  }
  if (error == 0) return;
  kscout_say("%s: cannot be written, and is written no more: %s", file_.c_str(), std::strerror(error));
  file_.clear();
}

}  // namespace kscout::preload
