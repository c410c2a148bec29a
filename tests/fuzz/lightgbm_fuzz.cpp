// Fuzzes LightGBM text models with random changes: each is rejected with an Error, or gives a consistent
// forest.
#include <cstdint>
#include <string_view>
#include <vector>

#include <kscout/error.h>

#include "lightgbm/lightgbm.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const auto model = kscout::parse_lightgbm({reinterpret_cast<const char*>(data), size});
    check(model.forest);
    if (model.forest.feature_count < 1000)
      model.forest.predict(std::vector<double>(model.forest.feature_count, 0.5));
  } catch (const kscout::Error&) {
  }
  return 0;
}
