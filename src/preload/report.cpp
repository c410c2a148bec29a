#include "preload/report.h"

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>

#include <unistd.h>

#include "preload/calls.h"
#include "preload/say.h"

namespace kscout::preload {

namespace {

unsigned long long whole(std::uint64_t count) noexcept { return count; }

}  // namespace

Report::Report(pid_t process) noexcept {
  line("kscout exec: process %d (%s)\n", static_cast<int>(process), program_invocation_short_name);
}

void Report::line(const char* format, ...) noexcept {
  std::va_list values;
  va_start(values, format);
  const int added = std::vsnprintf(bytes_.data() + size_, bytes_.size() - size_, format, values);
  va_end(values);
  if (added > 0) size_ = std::min(size_ + static_cast<std::size_t>(added), bytes_.size() - 1);
}

bool Report::add_calls(std::span<const std::uint64_t> calls) noexcept {
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (!calls[i]) continue;
    const auto entry = static_cast<kscout_entry>(i);
    line("  %-32s %12llu calls\n", entry_name(entry), whole(calls[i]));
    (is_on_cpu(entry) ? any_of_cpu_ : any_of_gpu_) = true;
  }
  return any_of_gpu_ || any_of_cpu_;
}

void Report::add_problems(std::uint64_t calls, const char* what, std::size_t problems) noexcept {
  line("  %llu %s of %zu problems\n", whole(calls), what, problems);
}

void Report::add_unread(std::span<const std::uint64_t> unread) noexcept {
  for (std::size_t i = 0; i < unread.size(); ++i) {
    if (unread[i]) line("  %llu not read: %s\n", whole(unread[i]), kUnreadWords[i].data());
  }
}

void Report::add(const GpuSession& session) noexcept {
  if (*session.off_reason()) line("  serving is off: %s\n", session.off_reason());
  if (const std::uint64_t times = session.given_back())
    line("  workspaces were given back %llu times, because the program needed memory\n", whole(times));
}

void Report::add(const GpuServer& server) noexcept {
  const Tally& tally = server.tally();
  if (const std::int32_t release = server.release())
    line("  cuBLASLt %d.%d.%d\n", release / 10000, release / 100 % 100, release % 100);
  if (*server.restriction())
    line("  only copies and kernels that need no cuBLASLt are served: %s\n", server.restriction());
  line("  %llu served; expected saving %.3f ms of GPU time\n", whole(tally.served()),
       static_cast<double>(tally.saved_ns) / 1e6);
  if (tally.wrong_suggestions)
    line("  %llu wrong suggestions of cuBLASLt avoided\n", whole(tally.wrong_suggestions));
  add(tally, "");
}

void Report::add_convolutions(const Tally& tally) noexcept {
  line("  %llu convolutions served; expected saving %.3f ms of GPU time\n", whole(tally.served()),
       static_cast<double>(tally.saved_ns) / 1e6);
  add(tally, "convolutions ");
}

void Report::add(const CpuServer& server) noexcept {
  line("  %llu served on the CPU\n", whole(server.tally().served()));
  add(server.tally(), "");
}

void Report::add(const Guard::Counts& counts, std::uint64_t wrong_convolutions) noexcept {
  if (counts.examined)
    line("  %llu problems examined by the guard: %llu of them the library computes wrong\n",
         whole(counts.examined), whole(counts.wrong));
  if (counts.replaced) line("  %llu wrong results avoided\n", whole(counts.replaced));
  if (counts.unavoidable) line("  %llu wrong results could not be avoided\n", whole(counts.unavoidable));
  if (counts.unknown) line("  %llu calls not guarded\n", whole(counts.unknown));
  if (wrong_convolutions)
    line("  %llu convolutions by engines of cuDNN that are known to be wrong there\n",
         whole(wrong_convolutions));
}

void Report::add(const ResultChecker::Counts& counts) noexcept {
  line("  %llu results checked: %llu of them are wrong, the largest difference is %.3g of its tolerance\n",
       whole(counts.checked), whole(counts.wrong), counts.largest.load());
}

void Report::add(const Tally& tally, const char* what) noexcept {
  if (tally.contests)
    line("  %llu problems timed by --refine: %llu of them keep the library's kernel, %llu are not finished\n",
         whole(tally.contests), whole(tally.library_kept), whole(tally.contests - tally.refined));
  for (std::size_t i = 1; i < tally.outcomes.size(); ++i) {
    if (tally.outcomes[i])
      line("  %llu %spassed on: %s\n", whole(tally.outcomes[i]), what, kOutcomeWords[i].data());
  }
}

void Report::write(const std::string& file) const noexcept {
  int error = 0;
  if (file == "-") {
    error = kscout_write(STDERR_FILENO, bytes_.data(), size_);
  } else if (const int to = kscout_open_to_append(file.c_str()); to < 0) {
    error = errno;
  } else {
    error = kscout_write(to, bytes_.data(), size_);
    close(to);
  }
  if (error != 0) kscout_say("%s: cannot be written: %s", file.c_str(), std::strerror(error));
}

}  // namespace kscout::preload
