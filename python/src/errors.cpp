#include "errors.h"

#include <exception>
#include <string>

#include <kscout/error.h>

#include "core/printable.h"

namespace nb = nanobind;

namespace kscout::python {

namespace {

/// The classes are looked up when an error happens. So importing the extension is fast, and it can be
/// imported alone, as the stub generator does.
void raise(const Error& error) {
  const std::string_view code = word(error.code());
  try {
    const nb::object type =
        nb::module_::import_("kscout.errors").attr("by_code")[nb::str(code.data(), code.size())];
    PyErr_SetString(type.ptr(), printable(shortened(error.what())).c_str());
  } catch (nb::python_error& lookup) {
    lookup.restore();
  }
}

}  // namespace

void bind_errors(nb::module_& module) {
  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const Error& error) {
      raise(error);
    }
  });
  nb::list codes;
  for (int code = 0; code <= static_cast<int>(Errc::device_failure); ++code) {  // the last one
    const std::string_view text = word(static_cast<Errc>(code));
    codes.append(nb::str(text.data(), text.size()));
  }
  module.attr("_error_codes") = nb::tuple(codes);
}

}  // namespace kscout::python
