#pragma once
/// \file
/// The journal of a sweep: append-only lines, each with its own checksum (docs/formats/journal.md).
///
///     JournalWriter journal(path, manifest_hash, limits);   // cuts a torn tail, continues behind it
///     journal.intent('a', problem, 1, configs);  journal.flush();
///     journal.row('a', config, measured, "");    journal.flush();   // on disk (page cache) when it returns
///
/// A row is short: its problem and pass stand in the intent before it (one per slot = worker).
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
  std::int32_t reason = -1;  ///< index into reasons: why it failed; -1 = none
};

/// Indices in a journal must lie below these.
struct JournalLimits {
  std::size_t problems = 0, configs = 0;
  CacheState cache = CacheState::warm;  ///< of every row: part of the protocol
};

struct JournalContents {
  std::vector<JournalRow> rows;  ///< in the order of measuring
  std::vector<std::string> reasons;
  std::map<SweepKey, int> crashes;  ///< how often a worker, or the machine, ended while this was running
  std::int64_t last_session = 0;    ///< unix time at which the newest session began
  std::string last_end;             ///< how the newest session ended: done, budget, ...; empty = it did not
  std::vector<double> clocks_mhz;   ///< of the device, whenever a batch was done
  std::size_t good_bytes = 0;       ///< up to here lines are whole; behind it a torn tail
  std::size_t lines = 0;
};

/// Parses a journal. Bytes behind the last whole line are a torn tail (an interrupted write) and ignored; a
/// damaged line with whole ones behind it, an index out of range, a row twice, or a journal of another
/// manifest is corrupt_data naming `name` and the line. `boot` is this machine's current boot: items that a
/// session left open before another boot count as crashes.
JournalContents parse_journal(std::string_view bytes, const std::string& name,
                              const std::string& manifest_hash, const JournalLimits& limits,
                              const std::string& boot);
/// Same for a file; an absent one is empty.
JournalContents load_journal(const std::filesystem::path& path, const std::string& manifest_hash,
                             const JournalLimits& limits, const std::string& boot);

/// Changes with every start of the machine; "unknown" when the system does not tell.
std::string boot_id();

/// One line with its checksum and line break, as it stands in the file.
std::string journal_line(std::string_view payload);

class JournalWriter {
 public:
  /// Opens or creates the file and locks it for this process. Throws device_failure when it cannot be
  /// written or another sweep holds it, corrupt_data as parse_journal.
  JournalWriter(std::filesystem::path path, const std::string& manifest_hash, const JournalLimits& limits);
  ~JournalWriter();
  JournalWriter(const JournalWriter&) = delete;
  JournalWriter& operator=(const JournalWriter&) = delete;

  // Lines gather in memory until flush().
  void intent(char slot, std::uint32_t problem, std::int32_t pass, std::vector<std::uint32_t> configs);
  void row(char slot, std::uint32_t config, const Measurement& measured, const std::string& reason);
  /// The slot's worker ended while this config ran.
  void crash(char slot, std::uint32_t config);
  /// The device's clock when the slot's batch was done.
  void clock(char slot, double mhz);
  void end(std::string_view how);
  /// Hands all lines to the system. When that fails (full disk) the file keeps whole lines only, and
  /// device_failure tells what to do. sync: also waits until they are on the disk.
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
