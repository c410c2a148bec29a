#include "sweep/journal_file.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <ctime>
#include <fstream>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>
#include <zlib.h>

#include "core/fail.h"
#include "core/files.h"
#include "core/numbers.h"
#include "measure/timing.h"

namespace kscout {

namespace {

constexpr std::size_t kChecksumChars = 6;
constexpr std::string_view kDigits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_";
constexpr std::string_view kVersion = "K1 ";
/// Letters for the statuses of rows, in the order of their values; upper case when the measurement is noisy.
constexpr std::string_view kStatusLetters = "orwctul";
constexpr std::string_view kNoisyLetters = "ORWCTUL";

std::string checksum(std::string_view payload) {
  std::uint64_t crc =
      crc32(0, reinterpret_cast<const Bytef*>(payload.data()), static_cast<uInt>(payload.size()));
  std::string text(kChecksumChars, '0');
  for (std::size_t i = kChecksumChars; i-- > 0; crc >>= 6) text[i] = kDigits[crc & 63];
  return text;
}

/// Whether the checksum of a line (without its line break) fits its payload.
bool whole(std::string_view line) {
  return line.size() > kChecksumChars &&
         line.substr(0, kChecksumChars) == checksum(line.substr(kChecksumChars));
}

/// The line without the carriage return that a copy by way of Windows adds to it. A reason may end with one
/// of its own.
std::string_view without_added_return(std::string_view line) {
  const std::string_view shorter = line.substr(0, line.size() - line.ends_with('\r'));
  return shorter.size() < line.size() && whole(shorter) ? shorter : line;
}

/// Thrown inside the parser; load_journal adds the line number.
struct BadLine {
  std::string what;
};

class LineReader {
 public:
  explicit LineReader(std::string_view text) : rest_(text) {}

  template <class V>
  V number() {
    V value{};
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error != std::errc()) throw BadLine{fmt::format("'{}': expected a number", rest_)};
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    return value;
  }
  char letter() {
    if (rest_.empty()) throw BadLine{"ends too early"};
    const char c = rest_.front();
    rest_.remove_prefix(1);
    return c;
  }
  void expect(char c) {
    if (letter() != c) throw BadLine{fmt::format("expected '{}'", c)};
  }
  bool skip(char c) {
    if (rest_.empty() || rest_.front() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  bool at_end() const { return rest_.empty(); }
  std::string_view rest() const { return rest_; }

 private:
  std::string_view rest_;
};

class Parser {
 public:
  Parser(JournalContents& out, const std::string& hash, const JournalLimits& limits)
      : out_(out), hash_(hash), limits_(limits) {}

  void line(std::string_view payload) {
    if (out_.lines == 0) return header(payload);
    LineReader in(payload.substr(1));
    switch (payload.front()) {
      case 'S':
        return session(in);
      case 'E':
        return session_end(in);
      case 'P':
        return intent(in);
      case 'D':
        return crash(in);
      case 'C':
        in.letter();
        out_.clocks_mhz.push_back(in.number<double>());
        return;
      case 'T':
        out_.reasons.emplace_back(in.rest());
        return;
      default:
        return row(payload);
    }
  }

  /// Counts a crash for each key that a session left open before the machine restarted: one of them may have
  /// brought the machine down.
  void machine_restarted(std::string_view boot) {
    if (!in_session_ || boot == boot_) return;
    for (const auto& [slot, intent] : open_) {
      for (const auto config : intent.configs) ++out_.crashes[{intent.problem, config, intent.pass}];
    }
    open_.clear();
  }

 private:
  struct Intent {
    std::uint32_t problem = 0;
    std::int32_t pass = 1;
    std::set<std::uint32_t> configs;  ///< without a row yet
  };

  void header(std::string_view payload) {
    if (!payload.starts_with(kVersion))
      throw BadLine{"not the beginning of a journal that this version reads"};
    if (payload.substr(kVersion.size()) != hash_)
      throw BadLine{"belongs to another manifest than the one beside it"};
  }

  void session(LineReader& in) {
    const auto time = in.number<std::int64_t>();
    in.expect(' ');
    machine_restarted(in.rest());
    open_.clear();
    boot_ = in.rest();
    in_session_ = true;
    out_.last_session = time;
    out_.last_end.clear();
    rows_before_session_ = out_.rows.size();
  }

  /// "Edone 1764280000"; older journals have no time.
  void session_end(const LineReader& in) {
    open_.clear();
    in_session_ = false;
    const std::size_t how = in.rest().find(' ');
    out_.last_end = in.rest().substr(0, how);
    if (how == std::string_view::npos) return;
    LineReader time(in.rest().substr(how + 1));
    out_.sessions.push_back({.rows = out_.rows.size() - rows_before_session_,
                             .seconds = time.number<std::int64_t>() - out_.last_session});
  }

  void intent(LineReader& in) {
    const char slot = in.letter();
    Intent intent;
    intent.problem = below(in.number<std::uint32_t>(), limits_.problems, "problem");
    in.expect('.');
    intent.pass = in.number<std::int32_t>();
    if (intent.pass != 1 && intent.pass != 2)
      throw BadLine{fmt::format("pass {}: 1 and 2 exist", intent.pass)};
    in.expect(':');
    try {
      const auto configs = parse_ranges(in.rest(), static_cast<int>(limits_.configs));
      intent.configs.insert(configs.begin(), configs.end());
    } catch (const Error& error) {
      throw BadLine{error.what()};
    }
    open_[slot] = std::move(intent);
  }

  void crash(LineReader& in) {
    const Intent& intent = open_of(in.letter());
    const auto config = below(in.number<std::uint32_t>(), limits_.configs, "config");
    ++out_.crashes[{intent.problem, config, intent.pass}];
  }

  void row(std::string_view payload) {
    LineReader in(payload);
    Intent& intent = open_of(in.letter());
    JournalRow row;
    row.key = {intent.problem, below(in.number<std::uint32_t>(), limits_.configs, "config"), intent.pass};
    Measurement& m = row.measured;
    m.pass = intent.pass;
    m.cache = limits_.cache;
    const char letter = in.letter();
    m.noisy = kNoisyLetters.find(letter) != std::string_view::npos;
    const std::size_t status = (m.noisy ? kNoisyLetters : kStatusLetters).find(letter);
    if (status == std::string_view::npos) throw BadLine{fmt::format("'{}' is no status", letter)};
    m.status = static_cast<Status>(status);
    const auto field = [&]<class V>(V& value) {
      if (!in.at_end() && in.rest().front() != ',') value = in.number<V>();
      in.skip(',');
    };
    field(m.time_us);
    field(m.spread);
    m.spread /= 1e3;
    field(m.repeats);
    field(m.error);
    m.error /= 1e2;
    field(row.reason);
    field(m.setup_us);
    if (!in.at_end()) throw BadLine{fmt::format("'{}' behind the last field", in.rest())};
    if (m.repeats < 0) throw BadLine{fmt::format("{} repeats", m.repeats)};
    if (m.setup_us < 0) throw BadLine{fmt::format("{} us to set up", m.setup_us)};
    if (row.reason < -1 || row.reason >= static_cast<std::int32_t>(out_.reasons.size()))
      throw BadLine{fmt::format("reason {} is not known", row.reason)};
    if (!seen_.insert(row.key).second) {
      throw BadLine{fmt::format("problem {}, config {}, pass {} is there twice", row.key.problem,
                                row.key.config, row.key.pass)};
    }
    intent.configs.erase(row.key.config);
    out_.rows.push_back(row);
  }

  Intent& open_of(char slot) {
    const auto found = open_.find(slot);
    if (found == open_.end()) throw BadLine{fmt::format("no intent of slot '{}' before this line", slot)};
    return found->second;
  }

  static std::uint32_t below(std::uint32_t value, std::size_t limit, const char* what) {
    if (value >= limit) throw BadLine{fmt::format("{} {}: the manifest has {}", what, value, limit)};
    return value;
  }

  JournalContents& out_;
  const std::string& hash_;
  const JournalLimits& limits_;
  std::map<char, Intent> open_;
  std::string boot_;
  bool in_session_ = false;
  std::size_t rows_before_session_ = 0;
  std::set<SweepKey> seen_;
};

}  // namespace

std::string boot_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  return std::getline(file, id) ? id.substr(0, 13) : "unknown";
}

std::string journal_line(std::string_view payload) { return checksum(payload) + std::string(payload) + '\n'; }

JournalContents parse_journal(std::string_view bytes, const std::string& name,
                              const std::string& manifest_hash, const JournalLimits& limits,
                              const std::string& boot) {
  JournalContents out;
  Parser parser(out, manifest_hash, limits);
  for (std::size_t begin = 0; begin < bytes.size();) {
    const std::size_t end = bytes.find('\n', begin);
    const std::string_view line = without_added_return(bytes.substr(begin, end - begin));
    if (end == std::string_view::npos || !whole(line)) {
      // A bad line is a torn tail only when no whole line follows it; otherwise it is damage.
      std::size_t number = out.lines + 1;
      for (std::size_t at = end; at != std::string_view::npos && at + 1 < bytes.size();) {
        const std::size_t next = bytes.find('\n', at + 1);
        ++number;
        if (next != std::string_view::npos &&
            whole(without_added_return(bytes.substr(at + 1, next - at - 1)))) {
          fail(Errc::corrupt_data,
               "{}: line {} is damaged (line {} behind it is whole); restore the file, or delete that line "
               "to measure it again",
               name, out.lines + 1, number);
        }
        at = next;
      }
      // A write that was cut short leaves no line break behind the first line.
      if (out.lines == 0 && end != std::string_view::npos) {
        fail(Errc::corrupt_data,
             "{}: its first line is not that of a journal; restore the file, or delete it to measure "
             "everything again",
             name);
      }
      break;
    }
    try {
      parser.line(line.substr(kChecksumChars));
    } catch (const BadLine& bad) {
      fail(Errc::corrupt_data, "{}: line {}: {}", name, out.lines + 1, bad.what);
    }
    ++out.lines;
    begin = end + 1;
    out.good_bytes = begin;
  }
  parser.machine_restarted(boot);
  return out;
}

JournalContents load_journal(const std::filesystem::path& path, const std::string& manifest_hash,
                             const JournalLimits& limits, const std::string& boot) {
  if (is_absent(path)) return {};
  return parse_journal(read_file(path), path.string(), manifest_hash, limits, boot);
}

JournalWriter::JournalWriter(std::filesystem::path path, const std::string& manifest_hash,
                             const JournalLimits& limits)
    : path_(std::move(path)) {
  fd_ = open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (fd_ < 0) fail(Errc::device_failure, "{}: cannot write it: {}", path_.string(), std::strerror(errno));
  try {
    lock();
    const std::string boot = boot_id();
    const JournalContents contents = load_journal(path_, manifest_hash, limits, boot);
    size_ = static_cast<std::int64_t>(contents.good_bytes);
    if (ftruncate(fd_, size_) != 0) {
      fail(Errc::device_failure, "{}: cannot cut its torn tail: {}", path_.string(), std::strerror(errno));
    }
    for (std::size_t i = 0; i < contents.reasons.size(); ++i) reason_ids_.emplace(contents.reasons[i], i);
    if (size_ == 0) append(std::string(kVersion) + manifest_hash);
    append(fmt::format("S{} {}", std::time(nullptr), boot));
    flush();
  } catch (...) {
    close(fd_);
    throw;
  }
}

void JournalWriter::lock() {
  // A sweep that was just killed may leave a child process that holds the lock until it has become a worker.
  // So the lock is tried again for a moment.
  constexpr int kTries = 100, kPauseUs = 10'000;
  for (int i = 0; flock(fd_, LOCK_EX | LOCK_NB) != 0; ++i) {
    if (i == kTries) {
      fail(Errc::device_failure,
           "{}: another sweep is writing it; wait for its end, or use --shard or another folder",
           path_.string());
    }
    usleep(kPauseUs);
  }
}

JournalWriter::~JournalWriter() { close(fd_); }

void JournalWriter::append(std::string_view payload) { pending_ += journal_line(payload); }

void JournalWriter::intent(char slot, std::uint32_t problem, std::int32_t pass,
                           std::vector<std::uint32_t> configs) {
  std::ranges::sort(configs);
  append(fmt::format("P{}{}.{}:{}", slot, problem, pass, print_ranges({configs.begin(), configs.end()})));
}

void JournalWriter::row(char slot, std::uint32_t config, const Measurement& m, const std::string& reason) {
  std::string id;
  if (!reason.empty()) {
    const auto [at, added] = reason_ids_.emplace(reason, reason_ids_.size());
    if (added) {
      std::string single_line = reason;
      std::ranges::replace(single_line, '\n', ' ');
      append("T" + single_line);
    }
    id = std::to_string(at->second);
  }
  const auto text = [](double value, int digits) {
    return value != value ? std::string() : fmt::format("{:.{}g}", value, digits);
  };
  std::string payload = fmt::format(
      "{}{}{}{},{},{},{},{},{}", slot, config,
      (m.noisy ? kNoisyLetters : kStatusLetters)[static_cast<std::size_t>(m.status)],
      text(m.time_us, kTimeDigits), text(m.spread * 1e3, 3), m.repeats > 0 ? std::to_string(m.repeats) : "",
      text(m.error * 1e2, 3), id, text(m.setup_us, 3));
  payload.erase(payload.find_last_not_of(',') + 1);
  append(payload);
}

void JournalWriter::clock(char slot, double mhz) { append(fmt::format("C{}{:.0f}", slot, mhz)); }

void JournalWriter::crash(char slot, std::uint32_t config) { append(fmt::format("D{}{}", slot, config)); }

void JournalWriter::end(std::string_view how) { append(fmt::format("E{} {}", how, std::time(nullptr))); }

void JournalWriter::flush(bool sync) {
  std::size_t at = 0;
  while (at < pending_.size()) {
    const ssize_t wrote = write(fd_, pending_.data() + at, pending_.size() - at);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) {
      const int error = wrote < 0 ? errno : ENOSPC;
      // Keeps whole lines only. If this fails too, the next start cuts the tail.
      [[maybe_unused]] const int cut = ftruncate(fd_, size_);
      pending_.clear();
      fail(Errc::device_failure,
           "{}: cannot write: {}; what was measured before is safe: make room and run the same command again",
           path_.string(), std::strerror(error));
    }
    at += static_cast<std::size_t>(wrote);
  }
  size_ += static_cast<std::int64_t>(pending_.size());
  pending_.clear();
  if (sync) fdatasync(fd_);
}

}  // namespace kscout
