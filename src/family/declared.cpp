#include "family/declared.h"

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <mutex>
#include <vector>

#include <kscout/conv_problem.h>
#include <kscout/error.h>

#include "core/fail.h"
#include "core/files.h"
#include "core/fork_mutex.h"
#include "core/names.h"
#include "core/owners.h"
#include "core/split.h"
#include "core/toml_reader.h"
#include "expr/expr.h"
#include "provider/declared.h"
#include "provider/joint.h"
#include "provider/name_reader.h"
#include "provider/typed_config.h"

namespace kscout {
namespace {

constexpr std::string_view kWhat = "a declared family";
constexpr std::size_t kMaxName = 40;
constexpr std::string_view kGemm = "gemm_", kGroupedGemm = "grouped_gemm_";  // before a signature in names
/// Stands between the declarations of a joint family and its members; no TOML contains it.
constexpr char kBetween = '\f';

bool is_name(std::string_view text) {
  const auto fits = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; };
  return !text.empty() && text.size() <= kMaxName && text[0] >= 'a' && text[0] <= 'z' && text.back() != '_' &&
         std::ranges::all_of(text, fits) && text.find("__") == std::string_view::npos;
}

/// What every declaration has.
struct DeclaredFile {
  DeclaredFile(std::string_view text, std::string_view file)
      : toml(text), reader(file), root(parse_toml(toml, reader.file())) {
    read_identity();
  }

  std::string toml, name, help;
  TomlReader reader;
  toml::table root;
  std::vector<Op> ops;

 private:
  void read_identity();
};

void DeclaredFile::read_identity() {
  name = reader.required_text(root, "provider", kWhat);
  if (!is_name(name))
    reader.complain(
        *root.get("provider"),
        fmt::format("provider '{}': a name has small letters, digits and single '_', begins with a "
                    "letter, and has at most {} characters",
                    name, kMaxName));
  try {
    check_provider_name(name);
  } catch (const Error& error) {
    reader.complain(*root.get("provider"), error.what());
  }
  help = reader.required_text(root, "help", kWhat);
  const toml::node* const op = root.get("op");
  if (op == nullptr) reader.complain(root, fmt::format("{} has no 'op'", kWhat));
  const auto words = op->is_array() ? reader.texts_of(*op, "op") : std::vector{reader.text_of(*op, "op")};
  for (const std::string& text : words) {
    const auto at = find_word(text, EnumWords<Op>::words);
    if (!at) reader.complain(*op, unknown_name_message("op", text, EnumWords<Op>::words));
    const Op one = static_cast<Op>(*at);
    if (one != Op::gemm && one != Op::grouped_gemm && !find_word(text, kDirectionWords))
      reader.complain(*op,
                      fmt::format("op '{}': families outside the program are for gemm, grouped_gemm and the "
                                  "convolutions",
                                  text));
    if (std::ranges::find(ops, one) != ops.end())
      reader.complain(*op, fmt::format("op '{}' is given twice", text));
    ops.push_back(one);
  }
  const bool gemms =
      std::ranges::any_of(ops, [](Op one) { return one == Op::gemm || one == Op::grouped_gemm; });
  if (ops.size() > 1 && gemms)
    reader.complain(*op, "these operations have different problems: declare a provider for each");
}

/// A provider of a file.
class Declaration {
 public:
  explicit Declaration(DeclaredFile file) : file_(std::move(file)) {}
  virtual ~Declaration() = default;
  Declaration(const Declaration&) = delete;
  Declaration& operator=(const Declaration&) = delete;

  virtual const FamilyFile& family(Op op) const = 0;
  const std::string& toml() const noexcept { return file_.toml; }
  const std::string& file() const noexcept { return file_.reader.file(); }

 protected:
  DeclaredFile file_;
};

class DeclaredProvider final : public Provider, public Declaration {
 public:
  explicit DeclaredProvider(DeclaredFile file) : Declaration(std::move(file)) {
    read_axes_of(file_.root);
    for (const Op op : file_.ops) {
      Space& made = spaces_.emplace_back();
      made.space = {file_.name, op, axes_};
      made.family = parse_family(file_.toml, file_.reader.file(), made.space);
      made.traits = compiled_traits(file_.root, made.space);
    }
    const expr::Formula runs{"runs_on", file_.reader.required_text(file_.root, "runs_on", kWhat)};
    expr::Scope scope;
    scope.add_record<Device>("d");
    runs_on_ = compiled(*file_.root.get("runs_on"), {runs}, scope);
  }

  std::string_view name() const noexcept override { return file_.name; }
  std::string_view help() const noexcept override { return file_.help; }
  std::span<const Op> ops() const noexcept override { return file_.ops; }
  bool runs_on(const Device& device) const noexcept override {
    expr::Inputs inputs(runs_on_);
    inputs.set("d", device);
    return expr::values_of(runs_on_, inputs)[0] == 1;
  }
  const ConfigSpace& space(Op op) const override { return of(op).space; }

  std::string print(const Signature& signature, const KernelConfig& config) const override {
    check(config);
    check_signature(*this, signature);
    std::string text = file_.name + "_" + signature_text(signature);
    print_axes(text, config, parts_);
    return text;
  }
  NamedConfig parse(std::string_view text) const override {
    NameReader in(file_.name, text);
    in.literal(file_.name + "_");
    const Signature signature = read_signature(in);
    NamedConfig result{signature, KernelConfig(of(signature.op).space)};
    in.check_signature(*result.config.space, signature);
    read_axes(in, result.config, parts_);
    return result;
  }
  Traits traits(const Signature& signature, const KernelConfig& config, const Device& device) const override {
    check(config);
    const Space& space = of(signature.op);
    expr::Inputs inputs(space.traits);
    inputs.set("c", config);
    inputs.set("d", device);
    inputs.set("s", signature);
    const std::vector<double> values = expr::values_of(space.traits, inputs);
    Traits traits;
    for_each_field<Traits>([&](const auto& field) {
      for (std::size_t i = 0; i < space.traits.size(); ++i) {
        if (space.traits.name(i) == field.name) traits.*field.member = values[i];
      }
    });
    return traits;
  }

  const FamilyFile& family(Op op) const override { return of(op).family; }

 private:
  struct Space {
    ConfigSpace space;
    FamilyFile family;
    expr::Program traits;
  };

  void read_axes_of(const toml::table& root) {
    const toml::node* const list = root.get("axis");
    if (list == nullptr) file_.reader.complain(root, fmt::format("{} has no [[axis]]", kWhat));
    for (const toml::node& node : file_.reader.array_of(*list, "axis"))
      read_axis(file_.reader.table_of(node, "axis"));
    if (axes_.size() > kMaxAxes)
      file_.reader.complain(*list, fmt::format("{} axes; the limit is {}", axes_.size(), kMaxAxes));
  }

  void read_axis(const toml::table& table) {
    file_.reader.check_keys(table, "key of an axis", {"name", "unit", "help", "words", "launch", "text"});
    const std::string& name = kept(file_.reader.required_text(table, "name", "an axis"));
    if (!is_name(name))
      file_.reader.complain(table, fmt::format("axis '{}': small letters, digits and single '_'", name));
    if (std::ranges::find(axes_, name, &Axis::name) != axes_.end())
      file_.reader.complain(table, fmt::format("axis '{}' is given twice", name));
    const auto text_or = [&](std::string_view key, std::string_view otherwise) -> const std::string& {
      const toml::node* const node = table.get(key);
      return kept(node ? file_.reader.text_of(*node, key) : std::string(otherwise));
    };
    Axis axis{.name = name, .unit = text_or("unit", "1"), .help = text_or("help", "")};
    axis.launch = file_.reader.flag(table, "launch");
    if (const toml::node* const words = table.get("words")) {
      auto& own = words_.emplace_back();
      for (const std::string& word : file_.reader.texts_of(*words, "words")) {
        if (!is_name(word))
          file_.reader.complain(
              *words,
              fmt::format("word '{}' of axis '{}': small letters, digits and single '_'", word, name));
        if (std::ranges::find(own, word) != own.end())
          file_.reader.complain(*words, fmt::format("word '{}' of axis '{}' is given twice", word, name));
        own.push_back(kept(word));
      }
      if (own.size() < 2)
        file_.reader.complain(*words, fmt::format("axis '{}' needs two words or more", name));
      axis.words = own;
    }
    const std::string& literal = kept((axes_.empty() ? "__" : "_") + text_or("text", name));
    parts_.push_back({literal, axes_.size()});
    axes_.push_back(axis);
  }

  /// Programs of the table's formulas, named like the traits.
  expr::Program compiled_traits(const toml::table& root, const ConfigSpace& space) const {
    std::vector<expr::Formula> formulas;
    const toml::node* const node = root.get("traits");
    if (node != nullptr) {
      const toml::table& table = file_.reader.table_of(*node, "traits");
      const auto names = field_names<Traits>();
      file_.reader.check_keys(table, "trait", std::vector<std::string_view>(names.begin(), names.end()));
      for (const auto& [name, formula] : TomlReader::as_written(table))
        formulas.push_back({name, file_.reader.text_of(*formula, name)});
    }
    // A trait may have the name of an axis, so bare names are not the traits.
    expr::Scope scope = family_scope(space, {}, false);
    return compiled(node ? *node : static_cast<const toml::node&>(root), formulas, scope);
  }

  expr::Program compiled(const toml::node& at, const std::vector<expr::Formula>& formulas,
                         const expr::Scope& scope) const {
    try {
      return expr::Program::compile(formulas, scope);
    } catch (const Error& error) {
      file_.reader.complain(at, error.what());
    }
  }

  const std::string& kept(std::string text) { return texts_.emplace_back(std::move(text)); }

  const Space& of(Op op) const {
    const auto found = std::ranges::find(spaces_, op, [](const Space& one) { return one.space.op; });
    if (found == spaces_.end()) {
      std::vector<std::string_view> have;
      for (const Op one : file_.ops) have.push_back(word(one));
      fail(Errc::unsupported, "{} has no kernels for {}; it has {}", file_.name, word(op),
           fmt::join(have, ", "));
    }
    return *found;
  }

  void check(const KernelConfig& config) const {
    if (!config.space || config.space->provider != file_.name || &of(config.space->op).space != config.space)
      fail(Errc::invalid_argument, "a config of {} is not one of {}",
           config.space ? config.space->provider : "no space", file_.name);
    for (std::size_t i = 0; i < axes_.size(); ++i) axis_value(config, i, false);
  }

  static std::string signature_text(const Signature& signature) {
    if (find_word(word(signature.op), kDirectionWords)) return conv_signature_text(signature);
    return fmt::format("{}{}", signature.op == Op::gemm ? kGemm : kGroupedGemm,
                       gemm_signature_text(signature));
  }
  static Signature read_signature(NameReader& in) {
    const bool grouped = in.optional(kGroupedGemm);
    if (!grouped && !in.optional(kGemm)) return read_conv_signature(in);
    Signature signature = read_gemm_signature(in, "__");
    if (grouped) signature.op = Op::grouped_gemm;
    return signature;
  }

  std::deque<std::string> texts_;  ///< what axes and parts point at
  std::deque<std::vector<std::string_view>> words_;
  std::vector<Axis> axes_;
  std::vector<NamePart> parts_;
  std::deque<Space> spaces_;
  expr::Program runs_on_;
};

/// A joint family of providers that the program has or other files declare.
class DeclaredJoint final : public JointProvider, public Declaration {
 public:
  DeclaredJoint(DeclaredFile file, std::vector<std::string> members)
      : JointProvider(file.name, file.help, file.ops, std::move(members)), Declaration(std::move(file)) {
    for (const Op op : file_.ops) {
      FamilyFile& read = families_.emplace_back(parse_family(file_.toml, file_.reader.file(), space(op)));
      const std::vector<Rule> rules = members_applicability_rules(*read.space);
      read.rules.insert(read.rules.end(), rules.begin(), rules.end());
    }
  }

  const FamilyFile& family(Op op) const override {
    return *std::ranges::find(families_, &space(op), &FamilyFile::space);
  }

 private:
  std::deque<FamilyFile> families_;
};

const Declaration* declared(std::string_view name) noexcept {
  return dynamic_cast<const Declaration*>(declared_provider(name));
}

/// Whether both have the same axes, so that configs of one are configs of the other.
bool have_equal_axes(const Provider& a, const Provider& b) {
  return std::ranges::equal(a.ops(), b.ops()) && std::ranges::all_of(a.ops(), [&](Op op) {
           return std::ranges::equal(
               a.space(op).axes, b.space(op).axes, [](const Axis& one, const Axis& other) {
                 return one.name == other.name && std::ranges::equal(one.words, other.words);
               });
         });
}

void add_listed(const std::filesystem::path& entry, std::vector<std::filesystem::path>& files) {
  std::error_code error;
  if (!std::filesystem::is_directory(entry, error)) return files.push_back(entry);
  std::vector<std::filesystem::path> found;
  for (const auto& file : std::filesystem::directory_iterator(entry, error)) {
    if (file.path().filename().string().ends_with(kFamilySuffix)) found.push_back(file.path());
  }
  if (error)
    fail(Errc::device_failure, "KSCOUT_FAMILIES: cannot list {}: {}", entry.string(), error.message());
  std::ranges::sort(found);
  files.insert(files.end(), found.begin(), found.end());
}

/// Joint families last: their members must be known.
void declare_files(std::span<const std::filesystem::path> files) {
  std::vector<std::pair<std::string, std::string>> joint;
  for (const auto& file : files) {
    std::string text = read_file(file);
    if (DeclaredFile(text, file.string()).root.contains("members")) {
      joint.emplace_back(std::move(text), file.string());
    } else {
      declare_provider(text, file.string());
    }
  }
  for (const auto& [text, file] : joint) declare_provider(text, file);
}

/// Two threads may declare at once.
ForkMutex declaring(ForkLevel::files);

}  // namespace

std::unique_ptr<const Provider> read_declaration(std::string_view toml, std::string_view of_file) {
  DeclaredFile file(toml, of_file);
  const toml::node* const members = file.root.get("members");
  if (!members) return std::make_unique<DeclaredProvider>(std::move(file));
  for (const std::string_view key : {"axis", "axes", "traits", "runs_on"}) {
    if (const toml::node* const node = file.root.get(key))
      file.reader.complain(*node, fmt::format("'{}': a joint family has that of its members", key));
  }
  const std::vector<std::string> names = file.reader.texts_of(*members, "members");
  try {
    return std::make_unique<DeclaredJoint>(file, names);
  } catch (const Error& error) {
    if (error.code() == Errc::corrupt_data) throw;  // names its line
    file.reader.complain(*members, error.what());
  }
}

const Provider& declare_provider(std::string_view toml, std::string_view file) {
  auto made = read_declaration(toml, file);
  const std::lock_guard lock(declaring);
  const Provider* const known = declared_provider(made->name());
  if (!known) return add_provider(std::move(made));
  const Declaration& before = *declared(made->name());
  if (before.toml() == toml || have_equal_axes(*known, *made)) return *known;
  fail(Errc::invalid_argument,
       "{}: provider '{}' is declared with other axes in {}; give one of them another name", file,
       made->name(), before.file());
}

std::string declaration_of(std::string_view provider) {
  std::string texts;
  if (const JointProvider* const joint = joint_provider(provider)) {
    for (const Provider* const member : joint->members()) {
      if (const Declaration* const known = declared(member->name())) texts += known->toml() + kBetween;
    }
  }
  const Declaration* const known = declared(provider);
  return known ? texts + known->toml() : std::string();
}

const FamilyFile* declared_family(const ConfigSpace& space) noexcept {
  const Declaration* const known = declared(space.provider);
  return known ? &known->family(space.op) : nullptr;
}

void declare_if_unknown(std::string_view provider, std::string_view toml, std::string_view file) {
  declare_providers_of_environment();
  if (find_word(provider, provider_names())) return;
  for (const std::string_view one : split(toml, kBetween)) declare_provider(one, file);
}

void declare_providers_of_environment() {
  static std::recursive_mutex mutex;
  static bool began = false;
  const std::lock_guard lock(mutex);
  if (std::exchange(began, true)) return;  // also while the files are read
  try {
    const char* const listed = std::getenv("KSCOUT_FAMILIES");
    std::vector<std::filesystem::path> files;
    for (const std::string_view entry : split(listed ? listed : "", ':')) {
      if (!entry.empty()) add_listed(std::filesystem::path(entry), files);
    }
    for (const std::filesystem::path& file : files) refuse_if_others_write(file);
    declare_files(files);
  } catch (...) {
    began = false;  // the next name that is not known gives the same error
    throw;
  }
}

}  // namespace kscout
