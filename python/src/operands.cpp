#include "operands.h"

#include <algorithm>
#include <array>
#include <vector>

#include <kscout/error.h>

#include "convolution.h"
#include "core/names.h"
#include "gemm.h"

namespace kscout::python {

namespace {

Sizes sizes_of_tensor(const Tensor& tensor) {
  return {tensor.sizes.begin(), tensor.sizes.begin() + static_cast<std::ptrdiff_t>(tensor.rank)};
}

/// Throws invalid_argument, naming the array, unless it is in this memory and packed, with the tensor's type
/// and sizes.
void check_packed(const Problem& problem, const Tensor& tensor, const MemorySpace& where,
                  const InputArray& array) {
  const auto refuse = [&](const std::string& why) {
    throw Error(Errc::invalid_argument, "array " + std::string(tensor.name) + " " + why);
  };
  if (space_of(tensor.name, array) != where) refuse("is in another memory than a");
  const DType type = element_type(tensor.name, array),
              stored = tensor.dtype == DType::tf32 ? DType::fp32 : tensor.dtype;
  if (type != stored) {
    refuse("holds " + std::string(word(type)) + "; " + print(problem) + " takes " +
           std::string(word(stored)) + convert_to(stored));
  }
  const Sizes wanted = sizes_of_tensor(tensor);
  if (shape_of(array) != wanted) {
    refuse("has shape " + sizes_text(shape_of(array)) + "; " + print(problem) + " takes " +
           sizes_text(wanted) + ": dimensions stand in the order of memory");
  }
  if (!is_packed(array)) {
    refuse("has strides of " + sizes_text(strides_of(array)) +
           " elements; it must be packed in the order of its dimensions: copy it first");
  }
}

/// The inputs that a call gives as a and b, and the result.
struct MainOperands {
  std::vector<const Tensor*> inputs;
  const Tensor* result;
};

MainOperands main_operands(const OperandList& all) {
  MainOperands main{{}, &all.result()};
  for (const Tensor& tensor : all) {
    if (tensor.role == TensorRole::input && main.inputs.size() < 2) main.inputs.push_back(&tensor);
  }
  return main;
}

Buffers packed_buffers(const Problem& problem, const ArrayCall& call, const OutputArray& c) {
  const OperandList all = operation(problem.kind()).operands(problem);
  const MainOperands main = main_operands(all);
  Buffers buffers{.alpha = call.alpha, .beta = call.beta, .space = space_of("a", call.a)};
  const auto set = [&](const Tensor& tensor, const InputArray& array) {
    check_packed(problem, tensor, buffers.space, array);
    buffers.operand[tensor.at] = array.data();
  };
  set(*main.inputs.front(), call.a);
  if (main.inputs.size() > 1) {
    set(*main.inputs.back(), call.second(problem));
  } else if (call.b) {
    throw Error(Errc::invalid_argument, "array b: " + print(problem) + " has one input; leave it out");
  }
  set(*main.result, InputArray(c));
  set_further_operands(problem, call, buffers);
  return buffers;
}

Sizes packed_result(const Problem& problem) {
  return sizes_of_tensor(operation(problem.kind()).operands(problem).result());
}

}  // namespace

const InputArray& ArrayCall::second(const Problem& problem) const {
  if (!b) throw Error(Errc::invalid_argument, "array b is missing: " + print(problem) + " has two inputs");
  return *b;
}

const ArrayOperands& array_operands(Op kind) noexcept {
  static constexpr ArrayOperands kPacked{packed_buffers, packed_result};
  if (kind == operation(Op::gemm).ops.front()) return gemm_operands();
  if (kind == operation(Op::conv_fwd).ops.front()) return conv_operands();
  return kPacked;
}

void set_further_operands(const Problem& problem, const ArrayCall& call, Buffers& buffers) {
  const OperandList all = operation(problem.kind()).operands(problem);
  const MainOperands main = main_operands(all);
  const auto is_further = [&](const Tensor& tensor) {
    return &tensor != main.result && std::ranges::find(main.inputs, &tensor) == main.inputs.end();
  };
  std::vector<std::string_view> names;
  for (const Tensor& tensor : all) {
    if (!is_further(tensor)) continue;
    names.push_back(tensor.name);
    const auto given = call.further.find(std::string(tensor.name));
    if (given != call.further.end()) {
      check_packed(problem, tensor, buffers.space, given->second);
      buffers.operand[tensor.at] = given->second.data();
    } else if (!tensor.optional && tensor.elements() > 0) {
      throw Error(Errc::invalid_argument,
                  "array " + std::string(tensor.name) + " is missing: " + print(problem) + " reads it");
    }
  }
  for (const auto& [name, array] : call.further) {
    if (std::ranges::find(names, name) != names.end()) continue;
    throw Error(Errc::invalid_argument, print(problem) + ": " + unknown_name_message("operand", name, names));
  }
}

}  // namespace kscout::python
