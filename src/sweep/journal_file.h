#pragma once
/// \file
/// Reads and writes the journal of a sweep: append-only lines, each with its own checksum
/// (docs/formats/journal.md).
///
///     JournalWriter journal(path, manifest_hash, limits);   // cuts a torn tail, continues behind it
///     journal.intent('a', problem, 1, configs);  journal.flush();
///     journal.row('a', config, measured, "");    journal.flush();   // on disk (page cache) when it returns
///
/// A row is short: the intent before it holds its problem and pass. Each worker slot has a letter and its own
/// intents.
#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include <kscout/measurement.h>

namespace kscout {

/// One (problem, config) in one pass.
struct SweepKey {
  std::uint32_t problem = 0, config = 0;
  std::int32_t pass = 1;
  auto operator<=>(const SweepKey&) const = default;
};

struct JournalRow {
  SweepKey key;
  Measurement measured;
  std::int32_t reason = -1;  ///< why the row failed: index into reasons; -1 = none
};

/// Upper limits (exclusive) of the indices in a journal.
struct JournalLimits {
  std::size_t problems = 0, configs = 0;
  CacheState cache = CacheState::warm;  ///< of every row: part of the protocol
};

/// A session that ended without a crash.
struct JournalSession {
  std::size_t rows = 0;  ///< of both passes
  std::int64_t seconds = 0;
};

struct JournalContents {
  std::vector<JournalRow> rows;  ///< in the order of measuring
  std::vector<std::string> reasons;
  /// How often a worker or the machine ended while the key was being measured.
  std::map<SweepKey, int> crashes;
  std::int64_t last_session = 0;  ///< unix time at which the newest session began
  /// How the newest session ended: done, budget, ...; empty = it did not end.
  std::string last_end;
  std::vector<JournalSession> sessions;  ///< those whose end has a time; older journals have none
  std::vector<double> clocks_mhz;        ///< of the device, one at the end of each batch
  std::size_t good_bytes = 0;            ///< length of the whole lines; a torn tail follows
  std::size_t lines = 0;
};

/// Parses a journal. Bytes behind the last whole line are a torn tail (an interrupted write) and ignored.
/// Throws corrupt_data, naming `name` and the line, for a damaged line before whole lines, an index out of
/// range, a second row of a key, or a journal of another manifest. `boot` is this machine's current boot:
/// keys that a session left open before another boot count as crashes.
JournalContents parse_journal(std::string_view bytes, const std::string& name,
                              const std::string& manifest_hash, const JournalLimits& limits,
                              const std::string& boot);
/// Parses a file as parse_journal does; an absent file gives empty contents.
JournalContents load_journal(const std::filesystem::path& path, const std::string& manifest_hash,
                             const JournalLimits& limits, const std::string& boot);

/// An id that changes with every start of the machine; "unknown" when the system reports none.
std::string boot_id();

/// A line with its checksum and line break, as stored in the file.
std::string journal_line(std::string_view payload);

class JournalWriter {
 public:
  /// Opens or creates the file and locks it for this process. Throws device_failure when it cannot be written
  /// or another sweep holds it, and the corrupt_data errors of parse_journal().
  JournalWriter(std::filesystem::path path, const std::string& manifest_hash, const JournalLimits& limits);
  ~JournalWriter();
  JournalWriter(const JournalWriter&) = delete;
  JournalWriter& operator=(const JournalWriter&) = delete;

  // Lines collect in memory until flush().
  void intent(char slot, std::uint32_t problem, std::int32_t pass, std::vector<std::uint32_t> configs);
  void row(char slot, std::uint32_t config, const Measurement& measured, const std::string& reason);
  /// The slot's worker ended while it measured this config.
  void crash(char slot, std::uint32_t config);
  /// The device's clock at the end of the slot's batch.
  void clock(char slot, double mhz);
  void end(std::string_view how);
  /// Passes all lines to the operating system. When that fails (full disk), the file keeps whole lines only,
  /// and the error (device_failure) names the remedy. sync: also waits until the lines are on the disk.
  void flush(bool sync = false);
  std::int64_t bytes() const noexcept { return size_; }

 private:
  void lock();
  void append(std::string_view payload);

  std::filesystem::path path_;
  int fd_ = -1;
  std::int64_t size_ = 0;
  std::string pending_;
  std::map<std::string, std::size_t> reason_ids_;
};

}  // namespace kscout
