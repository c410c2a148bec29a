// Tests first-use refinement: interleaved timing of contenders on the caller's problem.
#include <array>
#include <map>

#include <kscout/dispatcher.h>
#include <kscout/error.h>
#include <kscout/registry.h>

#include "dispatch/timed_choice.h"
#include "measure/measured_backend.h"
#include "op/gemm/gemm_reference.h"
#include "op/operands.h"
#include "support/models_folder.h"
#include "support/stand_in_instruments.h"

namespace kscout {
namespace {

namespace fs = std::filesystem;

using Refine = toy::ModelsFolder;

/// A backend whose kernels take a known time, by its own clock: the config's mr, in tens of microseconds. 0:
/// it refuses.
class Clockwork final : public MeasuredBackend {
 public:
  class Kernel final : public Launch {
   public:
    Kernel(Clockwork& of, std::int32_t tens) : of_(of), tens_(tens) {}
    std::size_t workspace_bytes() const noexcept override { return 128; }
    void run(const Buffers& given, void* workspace, Stream) override {
      const GemmBuffers buffers = GemmBuffers::of(given);
      ++of_.runs[tens_];
      EXPECT_NE(workspace, nullptr);
      *static_cast<float*>(buffers.c) = 1;
      of_.clock_.now_us += 10.0 * tens_;
    }

   private:
    Clockwork& of_;
    std::int32_t tens_;
  };

  std::string_view name() const noexcept override { return "clockwork"; }
  std::string_view provider() const noexcept override { return "native"; }
  Family family(const Signature&, std::string_view) override { return toy::family(); }
  const Device& device() override { return device_; }
  std::string refusal(ProblemRef, const KernelConfig&) override { return {}; }
  std::unique_ptr<Launch> prepare(ProblemRef, const KernelConfig& config) override {
    if (config["mr"] == 0) throw Error(Errc::unsupported, "no");
    return std::make_unique<Kernel>(*this, config["mr"]);
  }

  Instruments& instruments() override { return clock_; }

  std::map<std::int32_t, int> runs;

 private:
  Device device_ = toy::device();
  StandInInstruments clock_;
};

std::vector<Choice> of_tens(std::initializer_list<std::int32_t> tens) {
  std::vector<Choice> choices;
  for (const std::int32_t one : tens) {
    choices.emplace_back().config = toy::family().configs[0];
    choices.back().config.set("mr", one);
  }
  return choices;
}

TEST(FirstUse, FindsTheFastestAndLeavesTheCallersResultAlone) {
  Clockwork backend;
  float a = 1, b = 1, c = 7;
  const auto choices = of_tens({160, 0, 40, 3600, 80});
  const auto refined =
      fastest_on(backend, make_gemm(1, 1, 1), choices, {.operand = {&a, &b, &c}}, {.seconds = 5});
  ASSERT_TRUE(refined);
  EXPECT_EQ(refined->index, 2u);
  EXPECT_DOUBLE_EQ(refined->time_us, 400);
  EXPECT_DOUBLE_EQ(refined->next_us, 800);
  EXPECT_EQ(refined->timed, 3u) << "one cannot be made ready, one is hopeless";
  EXPECT_EQ(backend.runs[3600], 2);
  EXPECT_GE(backend.runs[160], 7) << "in turn: once untimed, and in each round until it surely loses";
  EXPECT_GE(backend.runs[40] + 1, backend.runs[160]) << "the first is called twice before";
  EXPECT_EQ(c, 7);
}

TEST(FirstUse, KeepsTheBudgetAndThePredictionWhenItCannotTell) {
  Clockwork backend;
  float a = 1, b = 1, c = 0;
  const GemmBuffers buffers{.a = &a, .b = &b, .c = &c};
  const GemmProblem p = make_gemm(1, 1, 1);
  EXPECT_FALSE(fastest_on(backend, p, of_tens({10}), buffers, {})) << "nothing to compare";
  EXPECT_FALSE(fastest_on(backend, p, of_tens({10, 0}), buffers, {}));
  EXPECT_FALSE(fastest_on(backend, p, of_tens({400, 300}), buffers, {.seconds = 0}))
      << "room for one round only";
  EXPECT_EQ(backend.runs[400] + backend.runs[300], 5) << "one round and a run of each, the first once more";
}

TEST_F(Refine, DispatcherTimesOnceAndOthersReadIt) {
  const fs::path file = folder_ / "decisions.sqlite";
  const DispatchPolicy policy{.rules = "tiny", .refine = {.top = 3, .seconds = 60}, .db = file};
  GemmProblem problem = make_gemm(48, 40, 56);
  problem.accumulate = true;
  GemmOperands operands;
  operands.make(problem, 3);
  const GemmReference reference(problem, operands);
  Registry cpu;
  cpu.add(backend("cpu"));

  Dispatcher dispatcher(cpu, policy);
  operands.reset_c();
  const Solution first = dispatcher.run(problem, operands.buffers());
  EXPECT_LE(reference.check(operands.c()).error, 1) << "the timed runs left C alone";
  const auto kept = DecisionDb(file).read();
  ASSERT_EQ(kept.size(), 1u);
  EXPECT_EQ(kept[0].problem, print(problem));
  EXPECT_EQ(kept[0].config, Selector::name(problem, first.choice));
  EXPECT_EQ(kept[0].time_us, first.choice.time_us);
  const auto timed = DecisionDb(file).timings();
  ASSERT_EQ(timed.size(), static_cast<std::size_t>(kept[0].timed)) << "the others, too";
  EXPECT_GE(timed.size(), 2u);
  EXPECT_TRUE(std::ranges::any_of(timed, [&](const StoredTiming& one) {
    return one.config == kept[0].config && one.time_us == kept[0].time_us && one.problem == kept[0].problem;
  }));
  EXPECT_EQ(first.choice.source, ChoiceSource::db);
  operands.reset_c();
  EXPECT_EQ(dispatcher.run(problem, operands.buffers()).choice.time_us, first.choice.time_us) << "timed once";
  EXPECT_LE(reference.check(operands.c()).error, 1);
  const Solution other = Dispatcher(cpu, policy).get_solution(problem);
  EXPECT_EQ(other.choice.source, ChoiceSource::db);
  EXPECT_EQ(other.choice.config, first.choice.config);
}

}  // namespace
}  // namespace kscout
