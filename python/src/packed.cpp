#include "packed.h"

#include <optional>
#include <string>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <kscout/error.h>

#include "fields.h"
#include "problem.h"

namespace kscout::python {

RunOn run_on(std::uintptr_t stream, const MemorySpace& space, const Limits& limits) {
  if (stream != 0 && space.kind == MemoryKind::host) {
    throw Error(Errc::invalid_argument,
                "stream=" + std::to_string(stream) +
                    ": arrays in the host's memory are computed in the calling thread; leave it out");
  }
  return {.stream = {reinterpret_cast<void*>(stream)}, .limits = limits};
}

nb::object result_of(const Problem& problem, const ArrayCall& call, const Sizes& shape) {
  if (!call.c.is_none()) return call.c;
  if (call.beta != 0)
    throw Error(Errc::invalid_argument, "beta=" + std::to_string(call.beta) + " reads C; give it as c");
  if (space_of("a", call.a).kind != MemoryKind::host) {
    throw Error(
        Errc::invalid_argument,
        "array a is in a GPU's memory: give the array for the result as c, of the package that a is of");
  }
  return nb::module_::import_("numpy").attr("empty")(nb::tuple(nb::cast(shape)), numpy_type(problem));
}

PackedConvolution pack_convolution(Dispatcher& dispatcher, int axes, const ArrayConvolution& of,
                                   std::uintptr_t stream) {
  const RunOn on = run_on(stream, of.tensors.space);
  const nb::gil_scoped_release unlocked;
  return {&dispatcher, axes, dispatcher.pack_filter(of.problem.conv(), of.tensors, on.stream),
          of.tensors.space};
}

namespace {

nb::object run(PackedB& packed, const ArrayCall& call, std::uintptr_t stream) {
  const Problem& problem = packed.filter.problem();
  const ArrayOperands& arrays = array_operands(problem.kind());
  const nb::object result = result_of(problem, call, arrays.result_shape(problem));
  const Buffers buffers = arrays.buffers(problem, call, writable("c", result));
  const RunOn on = run_on(stream, buffers.space);
  const nb::gil_scoped_release unlocked;
  packed.dispatcher->run(packed.filter, GemmBuffers::of(buffers), on);
  return result;
}

/// The properties that both classes have.
template <class T>
void bind_facts(nb::class_<T>& packed) {
  packed.def_prop_ro(
      "solution", [](const T& self) { return self.filter.solution(); },
      "The config that runs, and the problem that its kernel computes.");
  packed.def_prop_ro(
      "bytes", [](const T& self) { return self.filter.bytes(); }, "Bytes of memory that it owns.");
  packed.def_prop_ro(
      "setup_us", [](const T& self) { return self.filter.setup_us(); }, "Microseconds that packing took.");
}

void bind_packed_convolution(nb::module_& module) {
  nb::class_<PackedConvolution> packed(
      module, "PackedConvolution",
      "A convolution whose filter was packed once, for many calls.\n"
      "\n"
      "    packed = registry.pack_conv2d(x, w, padding=1)\n"
      "    y = packed(x)                                    # as conv2d(x, w, padding=1), but packs nothing\n"
      "\n"
      "It owns the packed filter: w may change or be deleted. Every image has the shape, memory order, type "
      "and memory of the array that it was packed for.");
  packed.def(
      "__call__",
      [](PackedConvolution& self, InputArray image, nb::object out, std::uintptr_t stream) {
        const auto of =
            packed_convolution_of(self.filter.problem(), self.axes, self.space, {self.image(), &image}, out);
        const RunOn on = run_on(stream, self.space);
        {
          const nb::gil_scoped_release unlocked;
          self.dispatcher->run(self.filter, of.tensors, on);
        }
        return of.result;
      },
      nb::arg("image").noconvert(), nb::kw_only(), nb::arg("out") = nb::none(), nb::arg("stream") = 0,
      "Computes the convolution of the image (pack_conv2d), or the input's gradient from the output's "
      "(pack_conv2d_input). `out` and `stream` are as in conv2d().");
  packed.def_prop_ro(
      "problem", [](const PackedConvolution& self) { return as_python(self.filter.problem().conv()); },
      nb::sig("def problem(self) -> Conv"), "The convolution, with prepacked.");
  bind_facts(packed);
}

void bind_packed_b(nb::module_& module) {
  nb::class_<PackedB> packed(
      module, "PackedB",
      "A GEMM whose B, such as the weight of a layer, was packed once for many calls.\n"
      "\n"
      "    packed = registry.pack_b(kscout.problem_of(a, b), b)\n"
      "    c = packed(a)                            # as matmul(a, b), but never copies b to aligned lines\n"
      "\n"
      "It owns the packed B: b may change or be deleted.");
  packed.def(
      "__call__",
      [](PackedB& self, InputArray a, nb::object c, double alpha, double beta, std::optional<InputArray> bias,
         std::uintptr_t stream) {
        ArrayCall call{.a = a, .b = {}, .c = c, .alpha = alpha, .beta = beta, .b_is_packed = true};
        if (bias) call.further.emplace("bias", *bias);
        return run(self, call, stream);
      },
      nb::arg("a").noconvert(), nb::arg("c") = nb::none(), nb::kw_only(), nb::arg("alpha") = 1.0,
      nb::arg("beta") = 0.0, nb::arg("bias").noconvert() = nb::none(), nb::arg("stream") = 0,
      "Computes c = alpha * a @ b + beta * c; returns c. The arguments are those of run().");
  packed.def_prop_ro(
      "problem", [](const PackedB& self) { return as_python(self.filter.problem().gemm()); },
      nb::sig("def problem(self) -> Gemm"), "The GEMM.");
  bind_facts(packed);
}

}  // namespace

void bind_packed(nb::module_& module) {
  bind_packed_convolution(module);
  bind_packed_b(module);
}

}  // namespace kscout::python
