#include "dispatch.h"

#include <memory>
#include <optional>
#include <variant>

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <kscout/dispatcher.h>
#include <kscout/error.h>
#include <kscout/provider.h>

#include "arrays.h"
#include "convolution.h"
#include "fields.h"
#include "gemm.h"
#include "operands.h"
#include "packed.h"
#include "problem.h"
#include "selector.h"

namespace kscout::python {

namespace {

/// Runs without Python's global lock.
void run_into(Dispatcher& dispatcher, const Problem& problem, const ArrayCall& call, const OutputArray& c,
              std::uintptr_t stream, const std::optional<NamedConfig>& config, const Limits& limits = {}) {
  const Buffers buffers = array_operands(problem.kind()).buffers(problem, call, c);
  const RunOn on = run_on(stream, buffers.space, limits);
  const nb::gil_scoped_release unlocked;
  if (config) {
    dispatcher.run_explicit(problem, config->config, buffers, on);
  } else {
    dispatcher.run(problem, buffers, on);
  }
}

/// Returns C.
nb::object run(Dispatcher& dispatcher, const Problem& problem, const ArrayCall& call, std::uintptr_t stream,
               const std::optional<NamedConfig>& config, const Limits& limits) {
  check(problem);
  const nb::object result = result_of(problem, call, array_operands(problem.kind()).result_shape(problem));
  run_into(dispatcher, problem, call, writable("c", result), stream, config, limits);
  return result;
}

/// a @ b of two matrices, two batches of matrices, or a batch and one matrix.
nb::object multiply(Dispatcher& dispatcher, const ArrayCall& call, std::uintptr_t stream) {
  const ArrayProduct product = product_of_arrays(call);
  const nb::object result = result_of(product.problem, call, product.result_shape);
  run_into(dispatcher, product.problem, product.call, product.result(writable("c", result)), stream,
           std::nullopt);
  return result;
}

/// A registry, and a dispatcher over all its backends for run(), created on first use.
class RunnableRegistry {
 public:
  RunnableRegistry(Registry what, DispatchPolicy policy)
      : registry(std::move(what)), policy_(std::move(policy)) {}

  Dispatcher& dispatcher() {
    if (!dispatcher_) dispatcher_ = std::make_unique<Dispatcher>(registry, policy_);
    return *dispatcher_;
  }

  Registry registry;

 private:
  DispatchPolicy policy_;
  std::unique_ptr<Dispatcher> dispatcher_;
};

Dispatcher& dispatcher_of(Dispatcher& dispatcher) { return dispatcher; }
Dispatcher& dispatcher_of(RunnableRegistry& registry) { return registry.dispatcher(); }

DispatchPolicy policy_of(std::string_view fallback, std::string rules, std::size_t refine_top,
                         double refine_seconds, const FileArgument& db, int threads,
                         std::optional<std::int64_t> workspace_limit, bool deterministic,
                         bool batch_invariant, std::size_t copies_bytes) {
  if (threads < 0)
    throw Error(Errc::invalid_argument,
                "threads=" + std::to_string(threads) + ": at least 1, or 0 for all cores");
  return {.fallback = parse<Fallback>(fallback),
          .rules = std::move(rules),
          .refine = {.top = refine_top, .seconds = refine_seconds},
          .db = db.value_or(std::filesystem::path()),
          .threads = threads,
          .limits = limits_of(workspace_limit, deterministic, batch_invariant),
          .copies_bytes = copies_bytes};
}

using Space = std::optional<MemorySpace>;

Space space_argument(const std::optional<std::string>& text) {
  return text ? Space(parse_memory_space(*text)) : std::nullopt;
}

NamedChoice choice_of(const Solution& solution) {
  return {solution.choice, signature_of(solution.form.problem)};
}

constexpr const char* kRunHelp =
    "Computes c = alpha * a @ b + beta * c with the selected config, or with `config`; returns c. Of a "
    "convolution, a and b are input and filter (conv_fwd), the output's gradient and the filter "
    "(conv_bwd_data), or the output's gradient and the input (conv_bwd_weight).\n"
    "\n"
    "Arrays are of NumPy or of anything with __dlpack__, all in the CPU's memory or all in that of one GPU "
    "under CUDA or ROCm: only backends that reach this memory are used. They must match the problem (type, "
    "shape, layout, leading dimensions), and c shares no element with another operand. Of other operations, "
    "a "
    "and b are the first inputs, c is the result, and all are packed in the order of memory. Further "
    "operands "
    "are given by name, such as scale_a and scale_b (one element each) of 8-bit floats. Nothing is copied "
    "unless "
    "no kernel takes the problem as it is. Without `c` the result is a new NumPy array; on a GPU c must be "
    "given, and the "
    "run is enqueued in `stream` (a cudaStream_t or hipStream_t as a number; 0: the GPU's default queue) "
    "without waiting for it. `workspace_limit`, `deterministic` and `batch_invariant` are those of "
    "Selector.select, besides the limits of the dispatcher.";
constexpr const char* kMatmulHelp =
    "run() of the problem derived from the arrays: layout and leading dimensions come from their strides. "
    "Two matrices, two batches of matrices, or a batch times one matrix, which is one product of all rows.";

constexpr const char* kConvHelp =
    "Computes {0} with the selected config; returns it.\n"
    "\n"
    "Dimensions stand in PyTorch's order: images (n, c, {1}), the filter w (k, c / groups, {2}). Arrays are "
    "of "
    "NumPy or of anything with __dlpack__; nothing is copied in Python. The order in memory is read from the "
    "strides: images packed with channels first (contiguous) or last (torch.channels_last), filters with "
    "channels last. With copy_filter, filters of another order, such as PyTorch's channels first, are copied "
    "in each call, and a new gradient of a filter has channels first. {3}stride, padding and dilation are "
    "one number or one per axis; padding may also be a pair (before, after) per axis, 'valid' or 'same'. "
    "Without `out` the result is a new NumPy array in the memory order of the images (a filter's gradient: "
    "channels last); on a GPU out must be given, and `stream` is as in run().";

/// Documentation of a method for `axes` spatial axes.
std::string conv_help(Op direction, int axes) {
  const std::string image = std::string("d, h, w").substr(static_cast<std::size_t>(3 * (3 - axes)));
  const std::string filter = std::string("z, y, x").substr(static_cast<std::size_t>(3 * (3 - axes)));
  const char* const what = direction == Op::conv_bwd_data     ? "the input's gradient"
                           : direction == Op::conv_bwd_weight ? "the filter's gradient"
                                                              : "a convolution of x with w";
  const char* const sizes =
      direction == Op::conv_bwd_data ? "input_size is the shape of x. "
      : direction == Op::conv_bwd_weight
          ? "weight_size is the shape of w. "
          : "bias (k) is added to the pixels of each output channel; kernels on a CPU take none. ";
  std::string help = kConvHelp;
  for (const auto& [mark, text] :
       {std::pair<const char*, std::string>{"{0}", what}, {"{1}", image}, {"{2}", filter}, {"{3}", sizes}})
    help.replace(help.find(mark), 3, text);
  return help;
}

nb::object run_convolution(Dispatcher& dispatcher, const ArrayConvolution& of, std::uintptr_t stream) {
  const RunOn on = run_on(stream, of.tensors.space);
  const nb::gil_scoped_release unlocked;
  dispatcher.run(of.problem, operands_of(of.problem.op(), of.tensors), on);
  of.finish();
  return of.result;
}

/// pack_conv1d, pack_conv2d, pack_conv3d, and the same for the input's gradient.
template <class T>
void bind_packing(nb::class_<T>& type) {
  constexpr const char* kHelp =
      "Packs the filter w once for many calls; returns a PackedConvolution. The first array gives the shape, "
      "memory order, type and memory of later images; its elements are not read. The other arguments are "
      "those of {}().";
  for (const int axes : {1, 2, 3}) {
    const std::string name = "conv" + std::to_string(axes) + "d";
    const auto help = [&](const std::string& of) {
      std::string text = kHelp;
      return text.replace(text.find("{}"), 2, of);
    };
    type.def(("pack_" + name).c_str(),
             [axes](T& self, InputArray x, InputArray w, PerAxis stride, Padding padding, PerAxis dilation,
                    std::int64_t groups, bool copy_filter, std::uintptr_t on) {
               const auto of =
                   convolution_of(Op::conv_fwd, axes, {{"x", &x}, {"w", &w}, {}}, {},
                                  {stride, dilation, padding, groups, copy_filter}, nb::none(), false);
               return pack_convolution(dispatcher_of(self), axes, of, on);
             },
             nb::keep_alive<0, 1>(), nb::arg("x").noconvert(), nb::arg("w").noconvert(),
             nb::arg("stride") = 1, nb::arg("padding") = 0, nb::arg("dilation") = 1, nb::arg("groups") = 1,
             nb::kw_only(), nb::arg("copy_filter") = false, nb::arg("stream") = 0, help(name).c_str());
    type.def(("pack_" + name + "_input").c_str(),
             [axes](T& self, InputArray grad_output, InputArray w, std::vector<std::int64_t> input_size,
                    PerAxis stride, Padding padding, PerAxis dilation, std::int64_t groups, bool copy_filter,
                    std::uintptr_t on) {
               const auto of = convolution_of(
                   Op::conv_bwd_data, axes, {{}, {"w", &w}, {"grad_output", &grad_output}}, input_size,
                   {stride, dilation, padding, groups, copy_filter}, nb::none(), false);
               return pack_convolution(dispatcher_of(self), axes, of, on);
             },
             nb::keep_alive<0, 1>(), nb::arg("grad_output").noconvert(), nb::arg("w").noconvert(),
             nb::arg("input_size"), nb::arg("stride") = 1, nb::arg("padding") = 0, nb::arg("dilation") = 1,
             nb::arg("groups") = 1, nb::kw_only(), nb::arg("copy_filter") = false, nb::arg("stream") = 0,
             help(name + "_input").c_str());
  }
}

/// conv1d, conv2d, conv3d and their gradients.
template <class T>
void bind_convolutions(nb::class_<T>& type) {
  using Sizes = std::vector<std::int64_t>;
  for (const int axes : {1, 2, 3}) {
    const std::string name = "conv" + std::to_string(axes) + "d";
    type.def(
        name.c_str(),
        [axes](T& self, InputArray x, InputArray w, PerAxis stride, Padding padding, PerAxis dilation,
               std::int64_t groups, bool copy_filter, std::optional<InputArray> bias, nb::object out,
               std::uintptr_t on) {
          const auto of =
              convolution_of(Op::conv_fwd, axes, {{"x", &x}, {"w", &w}, {}}, {},
                             {stride, dilation, padding, groups, copy_filter, bias ? &*bias : nullptr}, out);
          return run_convolution(dispatcher_of(self), of, on);
        },
        nb::arg("x").noconvert(), nb::arg("w").noconvert(), nb::arg("stride") = 1, nb::arg("padding") = 0,
        nb::arg("dilation") = 1, nb::arg("groups") = 1, nb::kw_only(), nb::arg("copy_filter") = false,
        nb::arg("bias").noconvert() = nb::none(), nb::arg("out") = nb::none(), nb::arg("stream") = 0,
        conv_help(Op::conv_fwd, axes).c_str());
    type.def((name + "_input").c_str(),
             [axes](T& self, InputArray grad_output, InputArray w, Sizes input_size, PerAxis stride,
                    Padding padding, PerAxis dilation, std::int64_t groups, bool copy_filter, nb::object out,
                    std::uintptr_t on) {
               const auto of =
                   convolution_of(Op::conv_bwd_data, axes, {{}, {"w", &w}, {"grad_output", &grad_output}},
                                  input_size, {stride, dilation, padding, groups, copy_filter}, out);
               return run_convolution(dispatcher_of(self), of, on);
             },
             nb::arg("grad_output").noconvert(), nb::arg("w").noconvert(), nb::arg("input_size"),
             nb::arg("stride") = 1, nb::arg("padding") = 0, nb::arg("dilation") = 1, nb::arg("groups") = 1,
             nb::kw_only(), nb::arg("copy_filter") = false, nb::arg("out") = nb::none(),
             nb::arg("stream") = 0, conv_help(Op::conv_bwd_data, axes).c_str());
    type.def((name + "_weight").c_str(),
             [axes](T& self, InputArray x, InputArray grad_output, Sizes weight_size, PerAxis stride,
                    Padding padding, PerAxis dilation, std::int64_t groups, bool copy_filter, nb::object out,
                    std::uintptr_t on) {
               const auto of =
                   convolution_of(Op::conv_bwd_weight, axes, {{"x", &x}, {}, {"grad_output", &grad_output}},
                                  weight_size, {stride, dilation, padding, groups, copy_filter}, out);
               return run_convolution(dispatcher_of(self), of, on);
             },
             nb::arg("x").noconvert(), nb::arg("grad_output").noconvert(), nb::arg("weight_size"),
             nb::arg("stride") = 1, nb::arg("padding") = 0, nb::arg("dilation") = 1, nb::arg("groups") = 1,
             nb::kw_only(), nb::arg("copy_filter") = false, nb::arg("out") = nb::none(),
             nb::arg("stream") = 0, conv_help(Op::conv_bwd_weight, axes).c_str());
  }
}

/// Calls `use(dispatcher, problem)` without Python's global lock.
template <class T, class Use>
auto ask(T& self, const ProblemArgument& argument, Use&& use) {
  const Problem problem = problem_of(argument);
  Dispatcher& dispatcher = dispatcher_of(self);
  const nb::gil_scoped_release unlocked;
  return use(dispatcher, problem);
}

/// The methods that Registry and Dispatcher share.
template <class T>
void bind_running(nb::class_<T>& type) {
  type.def(
      "run",
      [](T& self, const ProblemArgument& argument, InputArray a, std::optional<InputArray> b, nb::object c,
         double alpha, double beta, std::optional<InputArray> bias, const std::optional<NamedConfig>& config,
         std::uintptr_t stream, std::optional<std::int64_t> workspace_limit, bool deterministic,
         bool batch_invariant, const nb::kwargs& operands) {
        ArrayCall call{.a = a, .b = b, .c = c, .alpha = alpha, .beta = beta};
        if (bias) call.further.emplace("bias", *bias);
        for (const auto& [name, array] : operands) {
          const auto operand = nb::cast<std::string>(name);
          call.further.emplace(operand, from_python<InputArray>(operand, array));
        }
        return run(dispatcher_of(self), problem_of(argument), call, stream, config,
                   limits_of(workspace_limit, deterministic, batch_invariant));
      },
      nb::arg("problem"), nb::arg("a").noconvert(), nb::arg("b").noconvert() = nb::none(),
      nb::arg("c") = nb::none(), nb::kw_only(), nb::arg("alpha") = 1.0, nb::arg("beta") = 0.0,
      nb::arg("bias").noconvert() = nb::none(), nb::arg("config") = nb::none(), nb::arg("stream") = 0,
      nb::arg("workspace_limit") = nb::none(), nb::arg("deterministic") = false,
      nb::arg("batch_invariant") = false, nb::arg("operands"), kRunHelp);
  type.def(
      "matmul",
      [](T& self, InputArray a, InputArray b, nb::object c, double alpha, double beta,
         std::uintptr_t stream) {
        return multiply(dispatcher_of(self), {.a = a, .b = b, .c = c, .alpha = alpha, .beta = beta}, stream);
      },
      nb::arg("a").noconvert(), nb::arg("b").noconvert(), nb::arg("c") = nb::none(), nb::kw_only(),
      nb::arg("alpha") = 1.0, nb::arg("beta") = 0.0, nb::arg("stream") = 0, kMatmulHelp);
  bind_convolutions(type);
  bind_packing(type);
  type.def(
      "pack_b",
      [](T& self, const ProblemArgument& argument, InputArray b, std::uintptr_t stream) {
        const Problem problem = problem_of(argument);
        if (!problem.is<GemmProblem>())
          throw Error(Errc::invalid_argument, print(problem) + ": pack_b packs B of a GEMM");
        const GemmBuffers buffers = operand_b(problem, b);
        const RunOn on = run_on(stream, buffers.space);
        Dispatcher& dispatcher = dispatcher_of(self);
        const nb::gil_scoped_release unlocked;
        return PackedB{&dispatcher, dispatcher.pack_b(problem.gemm(), buffers, on.stream)};
      },
      nb::keep_alive<0, 1>(), nb::arg("problem"), nb::arg("b").noconvert(), nb::kw_only(),
      nb::arg("stream") = 0,
      "Packs b, such as the weight of a layer, once for many calls; returns a PackedB. Where the kernel "
      "computes with a copy of b with aligned lines, the copy is made here and not by each call.");
  type.def(
      "get_solution",
      [](T& self, const ProblemArgument& problem, const std::optional<std::string>& space) {
        return ask(self, problem, [where = space_argument(space)](Dispatcher& dispatcher, ProblemRef of) {
          return dispatcher.get_solution(of, where);
        });
      },
      nb::arg("problem"), nb::kw_only(), nb::arg("space") = nb::none(),
      "What run() will do with operands in the memory `space`: 'host', 'cuda:0', 'hip:0', ... (None: that of "
      "the first "
      "backend); runs nothing unless the fallback is exhaustive.");
  type.def(
      "workspace_bytes",
      [](T& self, const ProblemArgument& problem, const std::optional<std::string>& space) {
        return ask(self, problem, [where = space_argument(space)](Dispatcher& dispatcher, ProblemRef of) {
          return dispatcher.workspace_bytes(of, where);
        });
      },
      nb::arg("problem"), nb::kw_only(), nb::arg("space") = nb::none(),
      "Bytes besides the operands that run() uses for this problem; `space` as for get_solution.");
  type.def_prop_ro(
      "warnings",
      [](T& self) {
        Dispatcher& dispatcher = dispatcher_of(self);
        const nb::gil_scoped_release unlocked;  // waits for runs, which may wait for Python's lock
        return dispatcher.warnings();
      },
      "Warnings, such as decisions that could not be written to `db`.");
}

void bind_solution(nb::module_& module) {
  nb::class_<Solution> solution(module, "Solution", "A dispatcher's decision for a problem.");
  solution.def_prop_ro(
      "choice", [](const Solution& s) { return choice_of(s); }, "The config, and the source that chose it.");
  solution.def_prop_ro(
      "model_config",
      [](const Solution& s) -> std::optional<NamedConfig> {
        if (!s.model_config.space) return std::nullopt;
        return NamedConfig{signature_of(s.form.problem), s.model_config};
      },
      "The model's config, where it leaves axes unknown (short names of CK Tile): the choice has the model's "
      "predictions, and its config is the kernel here with these axes of the lowest analytic cost. None: the "
      "model's config itself runs.");
  solution.def_prop_ro(
      "backend", [](const Solution& s) { return s.backend->name(); }, "What executes it.");
  solution.def_prop_ro(
      "problem", [](const Solution& s) { return as_python(s.form.problem); },
      nb::sig("def problem(self) -> Problem"),
      "The problem that the kernel computes: the requested one, or a larger one or one of another layout "
      "when "
      "operands are copied.");
  solution.def_prop_ro(
      "calls", [](const Solution& s) { return s.form.calls; }, "Kernel calls of one run.");
  solution.def_prop_ro(
      "padded", [](const Solution& s) { return s.form.padded(); },
      "Whether operands are copied, into larger ones or into another layout.");
  solution.def_prop_ro(
      "copy_bytes", [](const Solution& s) { return s.form.copy_bytes; },
      "Bytes that the copies of one run read and write.");
  solution.def_prop_ro(
      "copies_us", [](const Solution& s) { return s.copies_us; },
      "Predicted microseconds of the copies: 0 without copies, nan where it is not known.");
}

void bind_registry(nb::module_& module) {
  nb::class_<RunnableRegistry> registry(
      module, "Registry",
      "What can run here: the backends of this machine and kernel libraries.\n"
      "\n"
      "    registry = Registry()\n"
      "    c = registry.run(Gemm(16, 4096, 4096), a, b)\n"
      "    c = registry.matmul(a, b)\n"
      "\n"
      "Models are found as Selector.find does. Where there is none, `fallback` chooses: 'analytic' costs, or "
      "an 'exhaustive' search that times every config once per problem. With `refine_top` of 2 or more, that "
      "many of the best predictions are timed when a problem first runs, for `refine_seconds`; `db` is the "
      "file that stores decisions found by timing. `threads`: max threads of one kernel on the CPU (0: "
      "KSCOUT_THREADS, else the fewest of OMP_NUM_THREADS, the CPUs that the process may use and its CPU "
      "quota). `workspace_limit`, `deterministic` and `batch_invariant` limit every run as they do "
      "Selector.select; a "
      "dispatcher prepares configs until one keeps the limits. `copies_bytes`: max workspace of copies that "
      "only make a problem faster (rows that are no multiples of 16 bytes, on a GPU); 0: none. Making a "
      "registry opens no device.");
  registry.def(
      "__init__",
      [](RunnableRegistry* self, const std::vector<std::filesystem::path>& libraries,
         std::string_view fallback, std::string rules, std::size_t refine_top, double refine_seconds,
         const FileArgument& db, int threads, std::optional<std::int64_t> workspace_limit, bool deterministic,
         bool batch_invariant, std::size_t copies_bytes) {
        Registry here = Registry::here();
        for (const auto& index : libraries) here.add_library(index);
        new (self) RunnableRegistry(
            std::move(here), policy_of(fallback, std::move(rules), refine_top, refine_seconds, db, threads,
                                       workspace_limit, deterministic, batch_invariant, copies_bytes));
      },
      nb::kw_only(), nb::arg("libraries") = std::vector<std::filesystem::path>(),
      nb::arg("fallback") = "analytic", nb::arg("rules") = "default", nb::arg("refine_top") = 0,
      nb::arg("refine_seconds") = Refinement{}.seconds, nb::arg("db") = nb::none(), nb::arg("threads") = 0,
      nb::arg("workspace_limit") = nb::none(), nb::arg("deterministic") = false,
      nb::arg("batch_invariant") = false, nb::arg("copies_bytes") = DispatchPolicy{}.copies_bytes);
  registry.def_prop_ro(
      "backends",
      [](const RunnableRegistry& r) {
        std::vector<std::string> names;
        for (const auto& backend : r.registry.backends()) names.emplace_back(backend->name());
        return names;
      },
      "Names of the backends, in the order in which they are tried.");
  registry.def(
      "kernels",
      [](const RunnableRegistry& r, const ProblemArgument& problem, std::string_view rules) {
        std::vector<std::shared_ptr<Family>> families;
        for (auto& kernels : r.registry.kernels(signature_of(problem_of(problem)), rules)) {
          families.push_back(std::make_shared<Family>(std::move(kernels.family)));
        }
        return families;
      },
      nb::arg("problem"), nb::arg("rules") = "default",
      "Each backend's configs for the problem's types and layout.");
  registry.def(
      "supports",
      [](const RunnableRegistry& r, const ProblemArgument& problem,
         const NamedConfig& config) -> std::optional<std::string> {
        const auto support = r.registry.supports(problem_of(problem), config.config);
        return support.backend ? std::nullopt : std::optional(support.refusal);
      },
      nb::arg("problem"), nb::arg("config"),
      "None when a backend can run the config on the problem, else the reason.");
  bind_running(registry);
}

void bind_dispatcher(nb::module_& module) {
  nb::class_<Dispatcher> dispatcher(module, "Dispatcher",
                                    "Runs the choices of a given selector.\n"
                                    "\n"
                                    "    dispatcher = Dispatcher(Selector.load('models/mine'))\n"
                                    "    c = dispatcher.run(Gemm(16, 4096, 4096), a, b)");
  dispatcher.def(
      "__init__",
      [](Dispatcher* self, const Selector& selector, std::string_view name, std::string_view fallback,
         std::string rules, std::size_t refine_top, double refine_seconds, const FileArgument& db,
         int threads, std::optional<std::int64_t> workspace_limit, bool deterministic, bool batch_invariant,
         std::size_t copies_bytes) {
        new (self) Dispatcher(selector, backend(name),
                              policy_of(fallback, std::move(rules), refine_top, refine_seconds, db, threads,
                                        workspace_limit, deterministic, batch_invariant, copies_bytes));
      },
      nb::arg("selector"), nb::kw_only(), nb::arg("backend") = "cpu", nb::arg("fallback") = "analytic",
      nb::arg("rules") = "default", nb::arg("refine_top") = 0,
      nb::arg("refine_seconds") = Refinement{}.seconds, nb::arg("db") = nb::none(), nb::arg("threads") = 0,
      nb::arg("workspace_limit") = nb::none(), nb::arg("deterministic") = false,
      nb::arg("batch_invariant") = false, nb::arg("copies_bytes") = DispatchPolicy{}.copies_bytes);
  bind_running(dispatcher);
}

}  // namespace

void bind_dispatch(nb::module_& module) {
  module.def(
      "problem_of",
      [](InputArray a, InputArray b, nb::object c, double beta) {
        return as_python(product_of_arrays({.a = a, .b = b, .c = c, .beta = beta}).problem);
      },
      nb::arg("a").noconvert(), nb::arg("b").noconvert(), nb::arg("c") = nb::none(), nb::kw_only(),
      nb::arg("beta") = 0.0,
      "The problem of a @ b: sizes and types of the arrays, layout and leading dimensions from their "
      "strides.");
  bind_solution(module);
  bind_packed(module);
  bind_registry(module);
  bind_dispatcher(module);
}

}  // namespace kscout::python
