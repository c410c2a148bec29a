#include "forest/ksf.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <span>

#include <gtest/gtest.h>

#include <kscout/error.h>
#include <kscout/selector.h>

#include "core/files.h"
#include "core/json_fields.h"
#include "support/share.h"
#include "support/temporary_folder.h"
#include "support/toy_model.h"

namespace kscout {
namespace {

const std::string& file() {
  static const std::string bytes = toy::model().bytes();
  return bytes;
}

std::vector<KsfSection> sections_of(const std::string& bytes) {
  std::vector<KsfSection> sections;
  for (const KsfView& view : unpack_ksf(bytes))
    sections.push_back({view.kind, view.index, std::string(view.bytes)});
  return sections;
}

void expect_ksf_refused(const std::string& bytes, Errc code, std::string_view part_of_message) {
  try {
    Model::parse(bytes);
    ADD_FAILURE() << "accepted; expected: " << part_of_message;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_NE(std::string_view(error.what()).find(part_of_message), std::string_view::npos) << error.what();
  }
}

/// Reads a damaged file whose checksum was made right again: refused, or a model that can be asked.
void expect_no_crash(std::string bytes) {
  seal_ksf(bytes);
  try {
    const Model model = Model::parse(bytes);
    toy::exercise(model);
    Model::parse(model.bytes());
  } catch (const Error& error) {
    EXPECT_TRUE(error.code() == Errc::corrupt_data || error.code() == Errc::unsupported) << error.what();
  }
}

TEST(Ksf, ReadsBackWhatWasWritten) {
  const Model model = toy::model(), again = Model::parse(file());
  EXPECT_EQ(again.bytes(), file());
  EXPECT_EQ(again.device(), model.device());
  EXPECT_EQ(*again.data().schema, *model.data().schema);
  EXPECT_EQ(again.data().targets, model.data().targets);
  EXPECT_EQ(again.data().best_tflops, model.data().best_tflops);
  EXPECT_EQ(again.data().shortlist, model.data().shortlist);
  EXPECT_EQ(again.data().fingerprint, model.data().fingerprint);
  ASSERT_EQ(again.data().families.size(), 2u);
  EXPECT_EQ(again.data().families[1].configs[11], model.data().families[1].configs[11]);
  EXPECT_EQ(again.data().families[0].default_config, 4u);
  EXPECT_EQ(toy::exercise(again), toy::exercise(model));
}

TEST(Ksf, FamiliesShareEqualSections) {
  std::size_t traits = 0, members = 0;
  for (const KsfView& view : unpack_ksf(file())) {
    traits += view.kind == KsfKind::traits;
    members += view.kind == KsfKind::members;
    EXPECT_EQ((view.bytes.data() - file().data()) % 16, 0);
  }
  EXPECT_EQ(traits, 1u);
  EXPECT_EQ(members, 1u);
}

TEST(Ksf, EveryCutIsRefused) {
  for (std::size_t size = 0; size < file().size(); ++size) {
    try {
      Model::parse(file().substr(0, size));
      ADD_FAILURE() << size;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Errc::corrupt_data);
    }
  }
}

TEST(Ksf, EveryChangedByteIsRefused) {
  for (std::size_t at = 0; at < file().size(); ++at) {
    std::string bytes = file();
    bytes[at] = static_cast<char>(bytes[at] ^ (1 << (at % 8)));
    EXPECT_THROW(Model::parse(bytes), Error) << at;
  }
}

TEST(Ksf, ChangesUnderARightChecksumNeverCrash) {
  // Header, section table and forests: every byte, twice. Tables of numbers: every third byte. Texts, whose
  // readers have fuzzers of their own: every eighth.
  std::vector<std::size_t> step(file().size(), 1);
  for (const KsfView& view : unpack_ksf(file())) {
    if (view.kind == KsfKind::forest) continue;
    const bool text = view.kind == KsfKind::meta || view.kind == KsfKind::schema;
    const auto begin = view.bytes.data() - file().data();
    std::fill_n(step.begin() + begin, view.bytes.size(), text ? 8 : 3);
  }
  std::size_t changed = 0;
  constexpr unsigned char kTextValues[] = {'9', '"', '{', '-'}, kValues[] = {0xff, 0x80, 0x01, 0x00};
  for (std::size_t at = 0; at < file().size(); ++at) {
    if (at % step[at] != 0 || !test::in_share(changed++)) continue;
    std::string bytes = file();
    bytes[at] = static_cast<char>((step[at] == 8 ? kTextValues : kValues)[at / step[at] % 4]);
    expect_no_crash(bytes);
    if (step[at] != 1) continue;
    bytes[at] = static_cast<char>(file()[at] + 1);
    expect_no_crash(bytes);
  }
}

TEST(Ksf, CutsUnderARightChecksumNeverCrash) {
  for (std::size_t size = 32; size < file().size(); size += 1 + size % 7)
    expect_no_crash(file().substr(0, size));
  for (const std::size_t more : {1U, 15U, 16U, 64U}) {
    std::string longer = file() + std::string(more, '\0');
    seal_ksf(longer);
    EXPECT_THROW(Model::parse(longer), Error) << more;
  }
}

TEST(Ksf, SectionsCannotBeMissingDoubledOrSwapped) {
  const auto sections = sections_of(file());
  for (std::size_t i = 0; i < sections.size(); ++i) {
    auto fewer = sections;
    fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
    EXPECT_THROW(Model::parse(pack_ksf(fewer)), Error) << i;
    auto twice = sections;
    twice.insert(twice.begin() + static_cast<std::ptrdiff_t>(i), sections[i]);
    EXPECT_THROW(Model::parse(pack_ksf(twice)), Error) << i;
    if (i + 1 == sections.size()) continue;
    auto swapped = sections;
    std::swap(swapped[i], swapped[i + 1]);
    EXPECT_THROW(Model::parse(pack_ksf(swapped)), Error) << i;
    if (sections[i].kind != sections[i + 1].kind) {
      auto exchanged = sections;
      std::swap(exchanged[i].bytes, exchanged[i + 1].bytes);
      EXPECT_THROW(Model::parse(pack_ksf(exchanged)), Error) << i;
    }
  }
}

using Change = std::function<void(Json&)>;

/// The file with its description changed.
std::string with_meta(const Change& change) {
  auto sections = sections_of(file());
  auto meta = Json::parse(sections[0].bytes);
  change(meta);
  sections[0].bytes = meta.dump();
  return pack_ksf(sections);
}

/// The same, and other bytes in one section; without bytes, the section left out.
std::string with_meta(const Change& change, KsfKind kind, std::uint32_t index, const std::string& bytes) {
  auto sections = sections_of(with_meta(change));
  const auto of =
      std::ranges::find_if(sections, [&](const KsfSection& s) { return s.kind == kind && s.index == index; });
  of->bytes = bytes;
  if (bytes.empty()) sections.erase(of);
  return pack_ksf(sections);
}
void unchanged(Json&) {}

std::string section(KsfKind kind, std::uint32_t index) {
  for (const KsfView& view : unpack_ksf(file())) {
    if (view.kind == kind && view.index == index) return std::string(view.bytes);
  }
  ADD_FAILURE() << "no such section";
  return {};
}

TEST(Ksf, ReadsVersion1) {
  // Such files have no shortlist, and a confidence with what a floor needed.
  std::string old = with_meta(
      [](Json& m) {
        m.erase("shortlist");
        m["confidence"] = {{"inputs", Confidence::inputs},
                           {"weights", Confidence::Inputs{}},
                           {"bias", 0.5},
                           {"low", {0, 0, 0, 0}},
                           {"high", {9, 9, 9, 9}},
                           {"floor", 0.4},
                           {"floor_probability", 0.3},
                           {"static_configs", {3, 4}}};
      },
      KsfKind::shortlist, 0, {});
  old[8] = 1;
  seal_ksf(old);
  const Model model = Model::parse(old);
  EXPECT_FALSE(model.data().shortlist);
  ASSERT_TRUE(model.data().confidence);
  EXPECT_EQ(model.data().confidence->bias, 0.5);
  EXPECT_EQ(model.data().targets, toy::model().data().targets);
  EXPECT_EQ(toy::exercise(model), toy::exercise(toy::model())) << "families of few configs are scored whole";
  EXPECT_EQ(model.bytes()[8], 2) << "written as the present version";
}

TEST(Ksf, WrongShortlistsAreRefused) {
  expect_ksf_refused(with_meta(unchanged, KsfKind::shortlist, 0, {}), Errc::corrupt_data,
                     "section 0 of the shortlist");
  expect_ksf_refused(with_meta([](Json& m) { m["shortlist"] = nullptr; }), Errc::corrupt_data,
                     "is not referenced");
  expect_ksf_refused(with_meta([](Json& m) { m["shortlist"]["configs"] = 7; }), Errc::corrupt_data,
                     "section 7 of members");
  const std::string bytes = section(KsfKind::shortlist, 0);
  expect_ksf_refused(with_meta(unchanged, KsfKind::shortlist, 0, bytes.substr(0, 100)), Errc::corrupt_data,
                     "ends too early");
  Shortlist shortlist = parse_shortlist(bytes);
  shortlist.layers[2].outputs = 11;
  shortlist.layers[2].bias.pop_back();
  shortlist.layers[2].factor.pop_back();
  shortlist.layers[2].weights.resize(11 * 4);
  expect_ksf_refused(with_meta(unchanged, KsfKind::shortlist, 0, shortlist_bytes(shortlist)),
                     Errc::corrupt_data, "11 outputs for 12 configs");
}

TEST(Ksf, MessagesSayWhatIsWrong) {
  expect_ksf_refused("", Errc::corrupt_data, "not a .ksf file");
  expect_ksf_refused("PAR1 and more", Errc::corrupt_data, "not a .ksf file");
  std::string other = file();
  other[8] = static_cast<char>(kKsfVersion + 1);
  expect_ksf_refused(other, Errc::unsupported, "of a newer program");
  other[8] = static_cast<char>(kOldestKsfVersion - 1);
  expect_ksf_refused(other, Errc::unsupported, "of an older program");
  expect_ksf_refused(file().substr(0, 100), Errc::corrupt_data, "100 bytes, its header says");
  std::string damaged = file();
  damaged.back() = 'x';
  expect_ksf_refused(damaged, Errc::corrupt_data, "checksum");
  expect_ksf_refused(with_meta([](Json& m) { m["provider"] = "nativ"; }), Errc::unsupported,
                     "did you mean 'native'");
  const auto foreign_op = [](Json& m) {
    m["provider"] = "cublaslt";
    m["op"] = "conv_fwd";
  };
  expect_ksf_refused(with_meta(foreign_op), Errc::unsupported,
                     "provider 'cublaslt' and op 'conv_fwd', which this program does not have");
  expect_ksf_refused(with_meta([](Json& m) { m.erase("targets"); }), Errc::corrupt_data,
                     "'targets' is missing");
  expect_ksf_refused(with_meta([](Json& m) { m["targets"][0]["target"] = "speed"; }), Errc::corrupt_data,
                     "unknown target 'speed'");
  expect_ksf_refused(with_meta([](Json& m) { m["targets"][0]["slope"] = -1; }), Errc::corrupt_data,
                     "slope -1");
  expect_ksf_refused(with_meta([](Json& m) { m["targets"][0]["forest"] = 9; }), Errc::corrupt_data,
                     "section 9 of forests");
  expect_ksf_refused(with_meta([](Json& m) { m["targets"][1]["target"] = "relative"; }), Errc::corrupt_data,
                     "is given twice");
  expect_ksf_refused(with_meta([](Json& m) { m["axes"][0]["name"] = "iso"; }), Errc::corrupt_data, "'iso'");
  expect_ksf_refused(with_meta([](Json& m) { m["axes"].erase(0); }), Errc::corrupt_data, "axes");
  expect_ksf_refused(with_meta([](Json& m) { m["schema_hash"] = "0"; }), Errc::corrupt_data, "hash");
  expect_ksf_refused(with_meta([](Json& m) { m["families"][0]["default_config"] = 12; }), Errc::corrupt_data,
                     "default 12");
  expect_ksf_refused(with_meta([](Json& m) { m["families"][0]["serves"][0]["admits"] = "p.n >="; }),
                     Errc::corrupt_data, "wide-enough");
  expect_ksf_refused(with_meta([](Json& m) { m["families"][1]["signature"]["layout"] = "rcr"; }),
                     Errc::corrupt_data, "one signature");
  expect_ksf_refused(with_meta([](Json& m) { m["device"]["cores"] = "two"; }), Errc::corrupt_data, "'cores'");
  expect_ksf_refused(with_meta([](Json& m) { m["device"]["corse"] = 2; }), Errc::corrupt_data,
                     "did you mean 'cores'");
  expect_ksf_refused(with_meta([](Json& m) { m["best_tflops"] = nullptr; }), Errc::corrupt_data,
                     "section 2 of kind 6 is not referenced");
  expect_ksf_refused(with_meta([](Json& m) { m["best_tflops"] = nullptr; }, KsfKind::forest, 2, {}),
                     Errc::corrupt_data, "needs the forest of the best");
  expect_ksf_refused(with_meta([](Json& m) { m["best_tflops"]["features"][2] = 5; }), Errc::corrupt_data,
                     "must depend on the problem only");
}

TEST(Ksf, ConfigsThatNobodyCanRunAreRefused) {
  auto members = parse_table<std::uint32_t>(section(KsfKind::members, 0), "members");
  members.values[3] = members.values[4];
  expect_ksf_refused(with_meta(unchanged, KsfKind::members, 0, table_bytes(members)), Errc::corrupt_data,
                     "twice");
  auto configs = parse_table<std::int32_t>(section(KsfKind::configs, 0), "configs");
  const std::int32_t isa = configs.values[5];
  configs.values[5] = KernelConfig::unknown;
  expect_ksf_refused(with_meta(unchanged, KsfKind::configs, 0, table_bytes(configs)), Errc::corrupt_data,
                     "axis isa is unknown");
  configs.values[5] = isa;
  configs.values[2 * configs.rows + 5] = -8;
  expect_ksf_refused(with_meta(unchanged, KsfKind::configs, 0, table_bytes(configs)), Errc::corrupt_data,
                     "axis mr is -8");
  expect_ksf_refused(with_meta([](auto& m) { m["families"][0]["signature"]["dtype_a"] = "bf16"; }),
                     Errc::unsupported, "kernels take fp32 only");
}

TEST(Ksf, SchemaMustReadTheseConfigs) {
  ModelData data = toy::model().data();
  SchemaData foreign = data.schema->data();
  foreign.provider = "ck_tile";
  data.schema = std::make_shared<Schema>(foreign);
  EXPECT_THROW(Model(std::move(data)), Error);
}

TEST(Ksf, ASmallFileCannotAskForMuchMemory) {
  // 60,000 configs shared by six families: a megabyte of file that would become many.
  constexpr std::uint32_t kRows = 60'000;
  const Family family = toy::family();
  const ConfigSpace& space = family.configs.space();
  KsfTable<std::int32_t> configs{static_cast<std::uint32_t>(space.axes.size()), kRows, {}};
  configs.values.assign(std::size_t{configs.columns} * kRows, 1);
  KsfTable<std::uint32_t> members{1, kRows, std::vector<std::uint32_t>(kRows)};
  std::iota(members.values.begin(), members.values.end(), 0U);
  auto sections = sections_of(with_meta([](Json& m) {
    m["traits"] = Json::array();
    for (int i = 0; i < 4; ++i) m["families"].push_back(m["families"][0]);
  }));
  for (KsfSection& s : sections) {
    if (s.kind == KsfKind::configs) s.bytes = table_bytes(configs);
    if (s.kind == KsfKind::members) s.bytes = table_bytes(members);
    if (s.kind == KsfKind::traits) s.bytes = table_bytes(KsfTable<double>{0, kRows, {}});
  }
  expect_ksf_refused(pack_ksf(sections), Errc::corrupt_data, "5 families list 300000 configs");
}

TEST(Ksf, AMappedFileIsReadInPlace) {
  // Sections start at multiples of 16 and arrays at multiples of their elements: no copy is needed.
  const Model model = toy::model();
  const Forest& forest = model.data().targets[0].forest;
  for (const KsfView& view : unpack_ksf(file())) {
    if (view.kind != KsfKind::forest || view.index != 0) continue;
    const auto* const thresholds = reinterpret_cast<const double*>(view.bytes.data() + 32);
    const auto* const leaves = thresholds + forest.threshold.size();
    const auto* const tree_nodes = reinterpret_cast<const std::uint32_t*>(leaves + forest.leaf_value.size());
    EXPECT_EQ((view.bytes.data() - file().data()) % 16, 0);
    EXPECT_TRUE(std::ranges::equal(forest.threshold, std::span(thresholds, forest.threshold.size())));
    EXPECT_TRUE(std::ranges::equal(forest.leaf_value, std::span(leaves, forest.leaf_value.size())));
    EXPECT_TRUE(std::ranges::equal(forest.tree_nodes, std::span(tree_nodes, forest.tree_nodes.size())));
    return;
  }
  ADD_FAILURE() << "no forest";
}

TEST(Ksf, AxesAndWordsAreFoundByName) {
  // A later version of the provider may list them in another order.
  const std::string moved = with_meta([](Json& m) {
    auto& words = m["axes"][0]["words"];
    std::swap(words[0], words[1]);
  });
  const Model model = Model::parse(moved);
  EXPECT_EQ(model.data().families[0].configs[0][std::string_view("isa")], 0);
}

TEST(Ksf, LoadsFromAFolderOrAFile) {
  const test::TemporaryFolder folder;
  write_file_atomically(folder / "model.ksf", file());
  EXPECT_EQ(Model::load(folder.path()).bytes(), file());
  EXPECT_EQ(Model::load(folder / "model.ksf").bytes(), file());
}

TEST(Ksf, FoldersThatCannotBeUsedSayWhyAndWhere) {
  std::string newer = file(), older = file(), damaged = file();
  newer[8] = static_cast<char>(kKsfVersion + 1);
  older[8] = static_cast<char>(kOldestKsfVersion - 1);
  damaged[file().size() / 2] ^= 1;
  const struct {
    const char* what;
    std::string bytes;
    Errc code;
    const char* message;
  } cases[] = {
      {"missing", "", Errc::not_found, "cannot open"},
      {"empty", "", Errc::corrupt_data, "not a .ksf file"},
      {"cut", file().substr(0, file().size() / 2), Errc::corrupt_data, "its header says"},
      {"corrupt", damaged, Errc::corrupt_data, "checksum"},
      {"newer", newer, Errc::unsupported, "of a newer program; this one reads versions 1 to 4"},
      {"older", older, Errc::unsupported, "of an older program; this one reads versions 1 to 4"},
      {"foreign provider", with_meta([](Json& m) { m["provider"] = "cudnn"; }), Errc::unsupported,
       "provider 'cudnn' and op 'gemm', which this program does not have"},
      {"foreign op", with_meta([](Json& m) {
         m["provider"] = "cublaslt";
         m["op"] = "conv_fwd";
       }),
       Errc::unsupported, "cublaslt has no kernels for conv_fwd"},
  };
  for (const auto& c : cases) {
    const test::TemporaryFolder folder;
    if (c.what != std::string_view("missing")) write_file_atomically(folder / "model.ksf", c.bytes);
    for (const auto& path : {folder.path(), folder / "model.ksf"}) {
      try {
        Selector::load(path);
        ADD_FAILURE() << c.what << " was loaded";
      } catch (const Error& error) {
        const std::string_view what = error.what();
        EXPECT_EQ(error.code(), c.code) << c.what << ": " << what;
        EXPECT_NE(what.find(c.message), std::string_view::npos) << what;
        EXPECT_TRUE(what.starts_with((folder / "model.ksf").string())) << what;
      }
    }
  }
}

TEST(Ksf, AFolderOfLightgbmModelsAloneIsNamedAsSuch) {
  const test::TemporaryFolder folder;
  write_file_atomically(folder / "feature_spec.json", "{}");
  try {
    Model::load(folder.path());
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::not_found);
    EXPECT_NE(std::string_view(error.what()).find("only LightGBM models"), std::string_view::npos);
  }
}

}  // namespace
}  // namespace kscout
