#include <vector>

#include <kscout/error.h>

#include "capi/capi.h"

using namespace kscout;
using namespace kscout::capi;

namespace {

/// Calls found(value) for the field with this name, if `Wanted` admits its type.
template <template <class> class Wanted, class F>
void with_field(const Device& device, const char* name, F&& found) {
  std::vector<std::string_view> names;
  for_each_field<Device>([&](const auto& field) {
    if (Wanted<typename std::remove_cvref_t<decltype(field)>::value>::value) names.push_back(field.name);
  });
  const auto wanted = names[parse_word("fact", &required(name, "name"), names)];
  for_each_field<Device>([&](const auto& field) {
    using V = typename std::remove_cvref_t<decltype(field)>::value;
    if constexpr (Wanted<V>::value) {
      if (field.name == wanted) found(device.*field.member);
    }
  });
}

template <class V>
using IsText = std::bool_constant<!std::is_floating_point_v<V>>;

const char* c_text(const std::string& text) { return text.c_str(); }
const char* c_text(DeviceKind kind) { return word(kind).data(); }  // a literal

}  // namespace

kscout_status kscout_device_find(const char* name, kscout_device** device) {
  return guarded([&] {
    refuse_null(device, "device");
    *device = new kscout_device{find_device(&required(name, "name"))};
  });
}

void kscout_device_free(kscout_device* device) { delete device; }

kscout_status kscout_device_number(const kscout_device* device, const char* name, double* value) {
  return guarded([&] {
    refuse_null(value, "value");
    with_field<std::is_floating_point>(required(device, "device").device, name,
                                       [&](double fact) { *value = fact; });
  });
}

kscout_status kscout_device_text(const kscout_device* device, const char* name, const char** text) {
  return guarded([&] {
    refuse_null(text, "text");
    with_field<IsText>(required(device, "device").device, name,
                       [&](const auto& fact) { *text = c_text(fact); });
  });
}
