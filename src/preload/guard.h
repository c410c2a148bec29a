#pragma once
/// \file
/// Keeps results from the program that its library computes wrong. docs/exec.md, docs/errata.md.
///
///     Guard guard(find, driver);
///     ...                                                         // before the original of each product
///     if (guard.computes(entry, call, product)) return kscout_served;
///
/// Libraries of GPUs leave out the end of K in products with a small C and a deep K. Before the first call of
/// each such problem reaches the library, the guard lets the library compute a product of the same sizes,
/// layouts, types, alignments and workspace, by the same function on the same handle and stream, on operands
/// whose exact result is known (op/gemm/exact_product.h). Where the result is wrong, other algorithms that
/// the library suggests are tried in the same way, and then a kernel of ours; the first one that is right
/// computes the program's calls of this problem. All other calls reach the library as they are.
///
/// Of problems that are not suspicious, one in 1,000 is examined, too. Where nothing may run besides, while a
/// graph is captured, or nothing can be examined, the algorithms that are known to be wrong (docs/errata.md)
/// are avoided all the same. Verdicts are kept in the file of `kscout db`. Thread-safe.
#include <array>
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include <kscout/launch.h>

#include "op/gemm/exact_product.h"
#include "preload/calls.h"
#include "preload/decide.h"
#include "preload/library_product.h"
#include "preload/read_calls.h"
#include "preload/workspaces.h"
#include "provider/cudnn/cudnn.h"
#include "select/decision_db.h"

namespace kscout::preload {

/// What is known of a problem's calls.
enum class Guarded : std::uint8_t {
  right,        ///< the library's result is right, or it refuses the call
  replaced,     ///< it is wrong; another algorithm is right, or at least not known to be wrong
  unavoidable,  ///< it is wrong, and so is all else
  unknown,      ///< it could not be examined
};

inline constexpr std::array<std::string_view, 4> kGuardedWords = {"right", "replaced", "unavoidable",
                                                                  "unknown"};

/// All on which the library's choice of a kernel may depend.
struct GuardedKey {
  ProductKey product;
  CallDetails details;
  int device = -1;                           ///< of this process
  std::array<std::uint8_t, 3> alignments{};  ///< of A, B and C: the power of two, at most 8
  std::uint8_t entry = 0;
  std::uint64_t workspace_bytes = 0;
  std::array<std::uint64_t, 8> algorithm{};  ///< of the program; zeros: the library's choice
  bool operator==(const GuardedKey&) const = default;
};
inline std::size_t quick_hash(const GuardedKey& key) noexcept { return quick_hash(key.product); }

class Guard {
 public:
  /// `db`: the file that keeps verdicts for later processes; empty: none does.
  Guard(kscout_find find, std::filesystem::path db);
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

  /// Whether the guard computed the product of a call, one of cuBLAS or of cuBLASLt, that is about to reach
  /// the library.
  template <class Call>
  bool computes(kscout_entry entry, const Call& call, const ProductCall& product) noexcept;

  /// Whether a choice of ours for a suspicious problem is wrong, on operands like the call's. Waits for the
  /// GPU.
  bool is_wrong(const ProductCall& product, Launch& launch, MemorySpace space);

  /// Whether the errata have a plan of cuDNN, which is then said once for each problem.
  bool knows_wrong(ProblemRef problem, const CudnnConfig& config);

  void in_child() noexcept;
  /// Writes the verdicts that are not in the file yet.
  void store() noexcept;

  struct Counts {
    std::atomic<std::uint64_t> examined = 0, wrong = 0;                     ///< problems
    std::atomic<std::uint64_t> picks = 0, wrong_picks = 0;                  ///< problems
    std::atomic<std::uint64_t> replaced = 0, unavoidable = 0, unknown = 0;  ///< calls
  };
  const Counts& counts() const noexcept { return counts_; }

 private:
  struct Decision : BasicDecision<GuardedKey, HostClock> {
    using BasicDecision::BasicDecision;
    Guarded verdict = Guarded::unknown;
    std::unique_ptr<LibraryProduct> product;  ///< of a call that is replaced by `algorithm`
    LtAlgorithm algorithm;
    std::unique_ptr<Launch> own;  ///< a kernel of ours: of a call that is replaced by it
    std::mutex running;           ///< `own` runs in one thread at a time
  };
  struct Examined;
  class Examination;

  /// Null: it could not be examined now.
  Decision* decide(const GuardedKey& key, const Examined& call) noexcept;
  void examine(Decision& decision, const Examined& call);
  /// Replaces a call by a kernel of ours, where one takes the problem and is right.
  void replace_by_own(Decision& decision, const Examined& call);
  /// Returns whether `own` computed the call.
  static bool runs_own(Decision& decision, const ProductCall& product) noexcept;
  /// Of a kernel of ours, on operands of the same alignments.
  Guarded verdict_of(const ProductCall& product, Launch& launch, MemorySpace space);
  /// Decides by the errata alone. Runs and allocates nothing on the GPU.
  void look_up(Decision& decision, const Examined& call);
  /// Takes the verdict of an earlier process. Returns whether there is one.
  bool recall(Decision& decision, const Examined& call);
  void open_file();
  void remember(const Decision& decision);
  void tell(const Decision& decision, const std::string& fault) noexcept;
  std::string device_name(int device) const;
  bool count(Guarded verdict) noexcept;

  kscout_find find_;
  const Driver driver_;
  const ServeSettings settings_{};
  Tally tally_;
  const DecisionDb db_;
  std::mutex deciding_;  ///< guards the members down to the next one
  bool open_ = false;
  std::int32_t release_ = 0;  ///< of cuBLASLt; 0: unknown
  std::string library_;
  std::unordered_map<std::string, StoredVerdict> stored_;  ///< by device and call
  std::vector<StoredVerdict> unsaved_;
  DecisionMap<Decision> decisions_{settings_}, in_captures_{settings_};
  std::atomic<bool> off_;  ///< no GPU: without a driver, or in a forked child
  std::atomic<bool> told_ = false;
  std::set<std::string> told_convolutions_;  ///< the caller of knows_wrong() locks
  Counts counts_;
};

}  // namespace kscout::preload
