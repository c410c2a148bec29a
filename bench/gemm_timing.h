#pragma once
/// \file
/// Times configs of backend `cpu` and other libraries side by side on one problem.
///
///     GemmTimer timer(problem);
///     for (std::size_t i = 0; i < family.configs.size(); ++i) timer.add(family.configs[i], family.name(i));
///     timer.add_peer("onednn", [&] { ... });
///     timer.coarse();              // every config, slow ones dropped early
///     timer.interleaved(4, 7);     // the best 4 and the peers, in 7 rounds
///
/// Caches stay as the previous call left them; all candidates use the same buffers.
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <kscout/backend.h>

namespace kscout::bench {

/// Memory aligned to a page, not initialised.
struct Pages {
  explicit Pages(std::size_t bytes);
  std::unique_ptr<void, void (*)(void*)> data;
  float* floats() const { return static_cast<float*>(data.get()); }
};

struct Candidate {
  std::string name;
  bool peer = false;
  std::function<void()> call;
  double coarse_us = std::numeric_limits<double>::infinity();
  double time_us = std::numeric_limits<double>::infinity();  ///< median over rounds; infinite: not a finalist
};

class GemmTimer {
 public:
  explicit GemmTimer(const GemmProblem& problem);

  /// Skips configs that the backend rejects.
  void add(const KernelConfig& config, const std::string& name);
  void add_peer(const std::string& name, std::function<void()> call);
  /// Takes the best of up to three short series of every config that is not a peer.
  void coarse();
  void interleaved(std::size_t finalists, int rounds);

  const GemmProblem& problem() const { return problem_; }
  const float* a() const { return a_.floats(); }
  const float* b() const { return b_.floats(); }
  float* c() const { return c_.floats(); }
  const std::vector<Candidate>& candidates() const { return candidates_; }
  /// The finalist with the lowest median, among peers or among configs.
  const Candidate& best(bool peer) const;

 private:
  GemmProblem problem_;
  OperandElements sizes_;
  Pages a_, b_, c_;
  std::vector<std::unique_ptr<Launch>> launches_;
  std::size_t workspace_bytes_ = 0;
  std::shared_ptr<Pages> workspace_;
  std::vector<Candidate> candidates_;
};

}  // namespace kscout::bench
