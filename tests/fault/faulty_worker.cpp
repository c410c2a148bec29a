// A worker with the machine's own backend, in which every config of kind `dot` gives one wrong element.
#include <kscout/family.h>
#include <kscout/provider.h>

#include "sweep/worker.h"

namespace {

using namespace kscout;

class WrongLaunch : public Launch {
 public:
  explicit WrongLaunch(std::unique_ptr<Launch> real) : real_(std::move(real)) {}
  std::size_t workspace_bytes() const noexcept override { return real_->workspace_bytes(); }
  void run(const Buffers& given, void* workspace, Stream stream) override {
    const GemmBuffers buffers = GemmBuffers::of(given);
    real_->run(buffers, workspace, stream);
    static_cast<float*>(buffers.c)[0] += 1;
  }

 private:
  std::unique_ptr<Launch> real_;
};

class FaultyBackend : public Backend {
 public:
  explicit FaultyBackend(Backend& real) : real_(real) {}
  std::string_view name() const noexcept override { return real_.name(); }
  std::string_view provider() const noexcept override { return real_.provider(); }
  Family family(const Signature& signature, std::string_view rules) override {
    return real_.family(signature, rules);
  }
  const Device& device() override { return real_.device(); }
  std::string refusal(ProblemRef problem, const KernelConfig& config) override {
    return real_.refusal(problem, config);
  }
  std::unique_ptr<Launch> prepare(ProblemRef problem, const KernelConfig& config) override {
    auto launch = real_.prepare(problem, config);
    const auto& kind = config.space->axes[config.space->axis_index("kind")];
    if (axis_value_text(kind, config["kind"]) != "dot") return launch;
    return std::make_unique<WrongLaunch>(std::move(launch));
  }

 private:
  Backend& real_;
};

Backend& faulty_backend(std::string_view name, int) {
  static FaultyBackend faulty(backend(name));
  return faulty;
}

}  // namespace

int main(int argc, char** argv) { return run_worker(argc, argv, {faulty_backend, provider_space}); }
