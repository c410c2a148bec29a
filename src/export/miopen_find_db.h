#pragma once
/// \file
/// Reads, merges and writes find databases of MIOpen: a user's (*.ufdb.txt) and the system's (*.fdb.txt).
///
///     FindDb db = read_find_db(read_file("gfx90a68.HIP.3_2_0.ufdb.txt"), "gfx90a68.HIP.3_2_0.ufdb.txt");
///     db.merge(read_find_db(more, "more.ufdb.txt"));
///     write_file_atomically("merged.ufdb.txt", db.text());
///
/// A line is `PROBLEM=SOLVER:milliseconds,workspace bytes,algorithm;...`
/// (provider/miopen/import/miopen_find_db.cpp reads the problem); files of old releases have
/// `ALGORITHM:solver,milliseconds,...`. Order, numbers and further cells are kept as they are, so text() of
/// one file is that file, byte for byte.
#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace kscout {

class FindDb {
 public:
  /// Adds problems that this database lacks, and solvers that a problem lacks. Of a solver in both, the entry
  /// with the shorter time is kept. Returns how many entries it added or replaced.
  std::size_t merge(const FindDb& other);

  std::string text() const;
  std::size_t problems() const noexcept { return records_.size(); }
  std::size_t entries() const noexcept;

 private:
  friend FindDb read_find_db(std::string_view text, std::string_view source);
  struct Entry {
    std::string id, values;
    double ms = 0;
  };
  struct Record {
    std::string problem;
    std::vector<Entry> entries;
  };
  std::vector<Record> records_;
  std::unordered_map<std::string, std::size_t> places_;  ///< of problems
};

/// Throws corrupt_data, with the line, for a line that is none of a find database and for a problem or a
/// solver that is given twice.
FindDb read_find_db(std::string_view text, std::string_view source);

}  // namespace kscout
