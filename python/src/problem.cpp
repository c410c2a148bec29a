#include "problem.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <kscout/error.h>

#include "fields.h"
#include "op/given_fields.h"

namespace kscout::python {

namespace {

/// A problem of the operation whose first op is `kind`: the type of one class in Python.
template <Op kind>
struct Of : Problem {
  explicit Of(const Problem& problem) : Problem(problem) {}
};

/// What a class of problems in Python has of its own.
struct ProblemClass {
  const char* name;
  const char* help;
  std::size_t required;                     ///< sizes without a default
  std::span<const std::string_view> sizes;  ///< positional arguments, before dtype and layout
  const char* flops_help;
  const char* bytes_help;
};

constexpr std::string_view kGemmSizes[] = {"m", "n", "k"};
constexpr ProblemClass kGemm = {
    .name = "Gemm",
    .help =
        "C(m,n) = alpha * A(m,k) * B(k,n) + beta * C, `batch` times. Immutable, fit as a "
        "dict's key.\n\n"
        "    Gemm(16, 4096, 4096)                          # fp32, rcr\n"
        "    Gemm(16, 4096, 4096, 'bf16', 'rrr', batch=2)\n"
        "    Gemm('gemm:16x4096x4096:bf16:rrr:batch=2')    # its one-line form: str(problem)",
    .required = 3,
    .sizes = kGemmSizes,
    .flops_help = "Operations: 2 m n k batch.",
    .bytes_help = "Bytes moved at least: A and B read once, C written once."};

constexpr std::string_view kConvSizes[] = {"n", "c", "k", "h", "w", "y", "x"};
constexpr ProblemClass kConv = {
    .name = "Conv",
    .help =
        "A grouped convolution of any direction; c and k count the channels of all groups together. "
        "Immutable, fit as a dict's key.\n\n"
        "    Conv(8, 64, 128, 28, 28, 3, 3, 'bf16', pad=1)          # conv_fwd, nhwgc\n"
        "    Conv(8, 64, 128, 28, 28, 3, 3, 'bf16', op='conv_bwd_data', stride=2, pad=1)\n"
        "    Conv('conv_fwd:8x64x28x28:128x3x3:bf16:nhwgc:pad=1')  # its one-line form: str(problem)\n\n"
        "`pad`, `stride` and `dilation` stand for all axes: a number, or one per axis (pad=(0, 3) is height "
        "and width); `pad_h`, `pad_w`, `pad_d` for both sides. A specific field wins: pad=1, left_pad_h=3.",
    .required = 5,
    .sizes = kConvSizes,
    .flops_help = "Operations: 2 n k outputs c/g filter, the same for all directions.",
    .bytes_help = "Bytes moved at least: each of the three tensors once."};

nb::object python_number(const ProblemField& field, std::int64_t value) {
  switch (field.type) {
    case FieldType::word:
      return nb::cast(field.words[static_cast<std::size_t>(value)]);
    case FieldType::flag:
      return nb::cast(value != 0);
    case FieldType::real:
      return nb::cast(std::bit_cast<double>(value));
    case FieldType::whole:
    case FieldType::list:
      break;
  }
  return nb::cast(value);
}

/// A field of a problem; a list is a tuple.
nb::object value_of(const Problem& problem, std::size_t field) {
  const ProblemField& of = problem.space().fields[field];
  if (of.type != FieldType::list) return python_number(of, problem[field]);
  nb::list sizes;
  for (const std::int64_t size : problem.list().sizes()) sizes.append(size);
  return nb::tuple(sizes);
}

/// The name of a field's type in stubs.
std::string type_of(const ProblemField& field) {
  switch (field.type) {
    case FieldType::word:
      return literal_of(field.words);
    case FieldType::flag:
      return "bool";
    case FieldType::real:
      return "float";
    case FieldType::list:
      return "tuple[int, ...]";
    case FieldType::whole:
      break;
  }
  return "int";
}

/// Text, or whole numbers with a separator between them.
std::string sizes_text(std::string_view name, nb::handle value, char separator) {
  if (nb::isinstance<nb::str>(value)) return nb::cast<std::string>(value);
  std::string text;
  for (const nb::handle one : value) {
    if (!text.empty()) text += separator;
    text += std::to_string(from_python<std::int64_t>(name, one));
  }
  return text;
}

/// A field's value as text, as set_fields reads it. Throws TypeError, naming the field, for a value of
/// another type.
std::string text_of(const ProblemField& field, nb::handle value) {
  switch (field.type) {
    case FieldType::word:
      return from_python<std::string>(field.name, value);
    case FieldType::flag:
      return from_python<bool>(field.name, value) ? "1" : "0";
    case FieldType::real:
      return nb::repr(nb::float_(from_python<double>(field.name, value))).c_str();  // reads back as it is
    case FieldType::list:
      return sizes_text(field.name, value, '+');
    case FieldType::whole:
      break;
  }
  return std::to_string(from_python<std::int64_t>(field.name, value));
}

/// The value of a general name, such as `pad`: text, a whole number, or one for each axis.
std::string general_text_of(std::string_view name, nb::handle value) {
  if (nb::isinstance<nb::str>(value)) return nb::cast<std::string>(value);
  if (!nb::isinstance<nb::sequence>(value)) return std::to_string(from_python<std::int64_t>(name, value));
  return sizes_text(name, value, 'x');
}

/// Fields given by name, with their values as text.
class GivenTexts {
 public:
  explicit GivenTexts(const Operation& of) : of_(of) {}

  void add(std::string name, nb::handle value) {
    const auto field = std::ranges::find(of_.space.fields, name, &ProblemField::name);
    std::string text =
        field != of_.space.fields.end() ? text_of(*field, value) : general_text_of(name, value);
    refuse_unknown_name(of_, {.name = name, .value = text});
    texts_.emplace_back(std::move(name), std::move(text));
  }
  void add(const nb::kwargs& fields) {
    for (const auto& [name, value] : fields) add(nb::cast<std::string>(name), value);
  }
  std::vector<GivenField> fields() const {
    std::vector<GivenField> given;
    for (const auto& [name, text] : texts_) given.push_back({.name = name, .value = text});
    return given;
  }

 private:
  const Operation& of_;
  std::vector<std::pair<std::string, std::string>> texts_;
};

/// A problem of sizes, dtype and layout by position, and all else by name.
Problem problem_of_arguments(const ProblemClass& of, Op kind, const nb::args& positional,
                             const nb::kwargs& named) {
  const Operation& operation = kscout::operation(kind);
  const auto refuse = [&](const std::string& why) {
    throw nb::type_error((std::string(of.name) + "(): " + why).c_str());
  };
  std::vector<std::string> names(of.sizes.begin(), of.sizes.end());
  names.insert(names.end(), {"dtype", "layout"});
  if (positional.size() > names.size())
    refuse("takes at most " + std::to_string(names.size()) + " positional arguments, got " +
           std::to_string(positional.size()));
  GivenTexts given(operation);
  DType dtype = DType::fp32;
  bool has_layout = false;
  std::vector<std::string> seen;
  const auto add = [&](const std::string& name, nb::handle value) {
    if (std::ranges::find(seen, name) != seen.end()) refuse("got two values for " + name);
    seen.push_back(name);
    has_layout = has_layout || name == "layout";
    if (name == "dtype") {
      dtype = from_python<DType>(name, value);
    } else {
      given.add(name, value);
    }
  };
  for (std::size_t i = 0; i < positional.size(); ++i) add(names[i], positional[i]);
  for (const auto& [name, value] : named) add(nb::cast<std::string>(name), value);
  for (const std::string_view size : of.sizes.first(of.required)) {
    if (std::ranges::find(seen, size) == seen.end()) refuse("missing " + std::string(size));
  }
  if (!has_layout) given.add("layout", nb::cast(word(operation.layouts.front())));
  const Problem problem = operation.from_fields(kind, given.fields(), dtype);
  check(problem);
  return problem;
}

Problem replaced(const Problem& problem, const nb::kwargs& fields) {
  const Operation& of = operation(problem.kind());
  GivenTexts given(of);
  given.add(fields);
  const Problem changed = of.with_fields(problem, given.fields());
  check(changed);
  return changed;
}

nb::dict dict_of(const Problem& problem) {
  nb::dict dict;
  const auto fields = problem.space().fields;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (fields[i].role != FieldRole::derived) dict[nb::cast(fields[i].name)] = value_of(problem, i);
  }
  return dict;
}

/// The problem that a text describes, of the operation of `kind`.
Problem parsed(Op kind, std::string_view text) {
  const Problem problem = parse_any_problem(text);
  if (problem.kind() == kind) return problem;
  const Operation &found = operation(problem.kind()), &wanted = operation(kind);
  throw Error(Errc::invalid_argument, "'" + std::string(text) + "' is a " + std::string(found.noun) +
                                          ", and a " + std::string(wanted.noun) + " is needed here; " +
                                          std::string(wanted.remedy));
}

/// The general names of an operation, in a stub.
std::string general_arguments(const Operation& of) {
  std::string text;
  for (const GeneralName& one : of.general_names) {
    const bool per_axis = one.name.find('_') == std::string_view::npos;
    text += ", " + std::string(one.name) + (per_axis ? ": int | typing.Sequence[int] = ..." : ": int = ...");
  }
  return text;
}

/// The constructor in a stub. Types of other operands follow dtype, so that their defaults are `...`.
std::string constructor(const ProblemClass& of, const Operation& operation) {
  const auto fields = operation.space.fields;
  const auto field_named = [&](std::string_view name) -> const ProblemField& {
    return fields[operation.space.index(name)];
  };
  const auto initial = [](const ProblemField& field) {
    return " = " + std::string(nb::repr(python_number(field, field.initial)).c_str());
  };
  std::string text = "def __init__(self";
  for (std::size_t i = 0; i < of.sizes.size(); ++i) {
    text += ", " + std::string(of.sizes[i]) + ": int";
    if (i >= of.required) text += initial(field_named(of.sizes[i]));
  }
  const ProblemField& layout = field_named("layout");
  text += ", dtype: " + python_type<DType>() + " = 'fp32', layout: " + type_of(layout) + " = '" +
          std::string(word(operation.layouts.front())) + "', *" + general_arguments(operation);
  for (const ProblemField& field : fields) {
    if (field.name == "layout" || std::ranges::find(of.sizes, field.name) != of.sizes.end()) continue;
    text += ", " + std::string(field.name) + ": " + type_of(field) +
            (field.name.starts_with("dtype_") ? std::string(" = ...") : initial(field));
  }
  return text + ") -> None";
}

std::string replace_signature(const ProblemClass& of, const Operation& operation) {
  std::string text =
      "def replace(self, *, dtype: " + python_type<DType>() + " = ..." + general_arguments(operation);
  for (const ProblemField& field : operation.space.fields)
    text += ", " + std::string(field.name) + ": " + type_of(field) + " = ...";
  return text + ") -> " + of.name;
}

constexpr const char* kReplaceHelp =
    "The same problem with other values in some fields; general names, such as dtype, as in the constructor.";

template <Op kind>
void bind_class(nb::module_& module, const ProblemClass& of) {
  using T = Of<kind>;
  const Operation& operation = kscout::operation(kind);
  nb::class_<T, Problem> type(module, of.name, of.help);
  type.def(
      "__init__", [](T* self, std::string_view text) { new (self) T(parsed(kind, text)); }, nb::arg("text"),
      nb::sig("def __init__(self, text: str) -> None"));
  const std::string signature = constructor(of, operation);
  type.def(
      "__init__",
      [&of](T* self, const nb::args& sizes, const nb::kwargs& fields) {
        new (self) T(problem_of_arguments(of, kind, sizes, fields));
      },
      nb::sig(signature.c_str()));
  const auto fields = operation.space.fields;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const ProblemField& field = fields[i];
    const std::string getter = "def " + std::string(field.name) + "(self) -> " + type_of(field);
    const std::string help = field_help(field.help, field.unit);
    type.def_prop_ro(
        std::string(field.name).c_str(), [i](const T& problem) { return value_of(problem, i); },
        nb::for_getter(nb::sig(getter.c_str())), nb::for_getter(help.c_str()));
  }
  const std::string replace = replace_signature(of, operation);
  type.def(
      "replace", [](const T& problem, const nb::kwargs& given) { return T(replaced(problem, given)); },
      nb::arg("fields"), nb::sig(replace.c_str()), kReplaceHelp);
  type.def("__setstate__", [](T& self, std::string_view text) { new (&self) T(parsed(kind, text)); });
  type.def_prop_ro(
      "flops", [](const T& p) { return flop_count(p); }, of.flops_help);
  type.def_prop_ro(
      "min_bytes", [](const T& p) { return min_bytes(p); }, of.bytes_help);
}

void bind_base(nb::module_& module) {
  nb::class_<Problem> type(
      module, "Problem",
      "A problem of any operation. Immutable, fit as a dict's key.\n\n"
      "    Problem('gemm:16x4096x4096:bf16:rrr') == Gemm(16, 4096, 4096, 'bf16', 'rrr')\n\n"
      "Its fields are attributes. Gemm and Conv are problems whose constructors take fields.");
  type.def(
      "__init__", [](Problem* self, std::string_view text) { new (self) Problem(parse_any_problem(text)); },
      nb::arg("text"), nb::sig("def __init__(self, text: str) -> None"));
  type.def(
      "__getattr__",
      [](const Problem& problem, std::string_view name) {
        const auto fields = problem.space().fields;
        const auto field = std::ranges::find(fields, name, &ProblemField::name);
        if (field == fields.end()) {
          const std::string why = print(problem) + " has no field '" + std::string(name) + "'";
          throw nb::attribute_error(why.c_str());
        }
        return value_of(problem, static_cast<std::size_t>(field - fields.begin()));
      },
      nb::arg("name"), nb::sig("def __getattr__(self, name: str) -> typing.Any"));
  type.def(
      "replace",
      [](const Problem& problem, const nb::kwargs& given) { return as_python(replaced(problem, given)); },
      nb::arg("fields"), nb::sig("def replace(self, **fields: typing.Any) -> Problem"), kReplaceHelp);
  type.def("as_dict", &dict_of, nb::sig("def as_dict(self) -> dict[str, typing.Any]"),
           "Every field by name, except those that follow from others.");
  type.def(
      "__eq__", [](const Problem& a, const Problem& b) { return a == b; }, nb::is_operator(),
      nb::sig("def __eq__(self, other: object, /) -> bool"));
  type.def("__hash__", [](const Problem& p) { return p.hash(); });
  type.def("__str__", [](const Problem& p) { return print(p); });
  type.def("__repr__", [](nb::handle self) {
    return nb::cast<std::string>(self.type().attr("__name__")) + "('" +
           print(nb::cast<const Problem&>(self)) + "')";
  });
  type.def("__getstate__", [](const Problem& p) { return print(p); });
  type.def("__setstate__",
           [](Problem& self, std::string_view text) { new (&self) Problem(parse_any_problem(text)); });
  type.def_prop_ro(
      "op", [](const Problem& p) { return word(p.op()); }, "The operation.");
  type.def_prop_ro(
      "flops", [](const Problem& p) { return flop_count(p); }, "Operations.");
  type.def_prop_ro(
      "min_bytes", [](const Problem& p) { return min_bytes(p); }, "Bytes moved at least.");
}

}  // namespace

Problem problem_of(const ProblemArgument& argument) {
  if (const auto* text = std::get_if<std::string>(&argument)) return parse_any_problem(*text);
  return std::get<Problem>(argument);
}

nb::object as_python(const Problem& problem) {
  switch (problem.kind()) {
    case Op::gemm:
      return nb::cast(Of<Op::gemm>(problem));
    case Op::conv_fwd:
      return nb::cast(Of<Op::conv_fwd>(problem));
    default:
      return nb::cast(problem);
  }
}

void bind_problem(nb::module_& module) {
  bind_base(module);
  bind_class<Op::gemm>(module, kGemm);
  bind_class<Op::conv_fwd>(module, kConv);
}

}  // namespace kscout::python
