// Fuzzes container, tables, forests and shortlists of a .ksf file, without the texts: far faster than a whole
// model, so that the search goes deep into offsets and indices. Accepted inputs are evaluated and written.
#include <array>
#include <cstdlib>

#include "fuzz/ksf_input.h"
#include "support/random_forest.h"
#include "support/random_shortlist.h"
#include "support/toy.h"

using namespace kscout;

const std::string& fuzz::good_ksf() {
  static const std::string file = [] {
    const auto forest = [](const toy::RandomForestOptions& options) {
      return forest_bytes(toy::RandomForest(options, options.trees).forest());
    };
    return pack_ksf(std::vector<KsfSection>{
        {KsfKind::configs, 0, table_bytes(KsfTable<std::int32_t>{2, 3, {1, 2, 3, 4, 5, 6}})},
        {KsfKind::members, 0, table_bytes(KsfTable<std::uint32_t>{1, 3, {2, 0, 1}})},
        {KsfKind::traits, 0, table_bytes(KsfTable<double>{2, 3, {1, 2, 3, 4, 5, 6}})},
        {KsfKind::forest, 0, forest({.features = 3, .trees = 3, .max_leaves = 5, .max_category = 70})},
        {KsfKind::forest, 1, forest({.features = 1, .trees = 2, .min_leaves = 2, .max_leaves = 2})},
        {KsfKind::shortlist, 0, shortlist_bytes(toy::random_shortlist(toy::family().configs, 1, 3))},
    });
  }();
  return file;
}

namespace {

void read_forest(std::string_view bytes) {
  const Forest forest = parse_forest(bytes);
  if (forest_bytes(forest) != bytes) std::abort();  // nothing is read that is not kept
  if (forest.feature_count > 64) return;
  toy::RandomForest draw({.features = forest.feature_count}, bytes.size());
  std::array<double, 8> scores{};
  forest.predict(draw.rows(forest, scores.size()).data(), forest.feature_count, 1, scores);
}

void read_shortlist(std::string_view bytes) {
  const Shortlist shortlist = parse_shortlist(bytes);
  if (shortlist_bytes(shortlist) != bytes) std::abort();
  if (shortlist.layers[2].outputs != toy::family().configs.size()) return;
  Shortlist whole = shortlist;
  const ConfigTable configs = toy::family().configs;
  for (std::size_t i = 0; i < configs.size(); ++i) whole.configs.push_back(configs[i]);
  check(whole);
  const std::vector<std::uint8_t> all(configs.size(), 1), none(configs.size(), 0);
  std::vector<std::uint8_t> kept(configs.size());
  ShortlistScratch scratch;
  keep_top(rate(whole, outputs_of(whole, configs), make_gemm(300, 4096, 64), 8, scratch), all, none,
           kShortlisted, kept);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const std::string file = fuzz::ksf_input(data, size);
    for (const KsfView& section : unpack_ksf(file)) {
      try {
        if (section.kind == KsfKind::forest) read_forest(section.bytes);
        if (section.kind == KsfKind::shortlist) read_shortlist(section.bytes);
        if (section.kind == KsfKind::configs) parse_table<std::int32_t>(section.bytes, "configs");
        if (section.kind == KsfKind::members) parse_table<std::uint32_t>(section.bytes, "members");
        if (section.kind == KsfKind::traits) parse_table<double>(section.bytes, "traits");
      } catch (const Error&) {  // the next section may be whole
      }
    }
  } catch (const Error&) {
  }
  return 0;
}
