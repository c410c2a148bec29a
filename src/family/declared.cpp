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
#include "core/split.h"
#include "core/toml_reader.h"
#include "expr/expr.h"
#include "provider/declared.h"
#include "provider/name_reader.h"
#include "provider/typed_config.h"

namespace kscout {
namespace {

constexpr std::string_view kWhat = "a declared family";
constexpr std::size_t kMaxName = 40;

bool is_name(std::string_view text) {
  const auto fits = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; };
  return !text.empty() && text.size() <= kMaxName && text[0] >= 'a' && text[0] <= 'z' && text.back() != '_' &&
         std::ranges::all_of(text, fits) && text.find("__") == std::string_view::npos;
}

class DeclaredProvider final : public Provider {
 public:
  DeclaredProvider(std::string_view toml, std::string_view file) : toml_(toml), reader_(file) {
    toml::table root;
    try {
      root = toml::parse(toml_, reader_.file());
    } catch (const toml::parse_error& error) {
      fail(Errc::corrupt_data, "{}:{}: {}", file, error.source().begin.line, error.description());
    }
    read_identity(root);
    read_axes_of(root);
    for (const Op op : ops_) {
      Space& made = spaces_.emplace_back();
      made.space = {name_, op, axes_};
      made.family = parse_family(toml_, reader_.file(), made.space);
      made.traits = compiled_traits(root, made.space);
    }
    const expr::Formula runs{"runs_on", reader_.required_text(root, "runs_on", kWhat)};
    expr::Scope scope;
    scope.add_record<Device>("d");
    runs_on_ = compiled(*root.get("runs_on"), {runs}, scope);
  }

  std::string_view name() const noexcept override { return name_; }
  std::string_view help() const noexcept override { return help_; }
  std::span<const Op> ops() const noexcept override { return ops_; }
  bool runs_on(const Device& device) const noexcept override {
    expr::Inputs inputs(runs_on_);
    inputs.set("d", device);
    return expr::values_of(runs_on_, inputs)[0] == 1;
  }
  const ConfigSpace& space(Op op) const override { return of(op).space; }

  std::string print(const Signature& signature, const KernelConfig& config) const override {
    check(config);
    check_signature(*this, signature);
    std::string text = name_ + "_" + signature_text(signature);
    print_axes(text, config, parts_);
    return text;
  }
  NamedConfig parse(std::string_view text) const override {
    NameReader in(name_, text);
    in.literal(name_ + "_");
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

  const std::string& toml() const noexcept { return toml_; }
  const std::string& file() const noexcept { return reader_.file(); }
  const FamilyFile& family(Op op) const { return of(op).family; }
  /// Whether both declare the same axes, so that configs of one are configs of the other.
  bool has_axes_of(const DeclaredProvider& other) const {
    return ops_ == other.ops_ && std::ranges::equal(axes_, other.axes_, [](const Axis& a, const Axis& b) {
             return a.name == b.name && std::ranges::equal(a.words, b.words);
           });
  }

 private:
  struct Space {
    ConfigSpace space;
    FamilyFile family;
    expr::Program traits;
  };

  void read_identity(const toml::table& root) {
    name_ = reader_.required_text(root, "provider", kWhat);
    if (!is_name(name_))
      reader_.complain(
          *root.get("provider"),
          fmt::format("provider '{}': a name has small letters, digits and single '_', begins with a "
                      "letter, and has at most {} characters",
                      name_, kMaxName));
    try {
      check_provider_name(name_);
    } catch (const Error& error) {
      reader_.complain(*root.get("provider"), error.what());
    }
    help_ = reader_.required_text(root, "help", kWhat);
    const toml::node* const op = root.get("op");
    if (op == nullptr) reader_.complain(root, fmt::format("{} has no 'op'", kWhat));
    const auto words = op->is_array() ? reader_.texts_of(*op, "op") : std::vector{reader_.text_of(*op, "op")};
    for (const std::string& text : words) {
      const auto at = find_word(text, EnumWords<Op>::words);
      if (!at) reader_.complain(*op, unknown_name_message("op", text, EnumWords<Op>::words));
      const Op one = static_cast<Op>(*at);
      if (one != Op::gemm && !find_word(text, kDirectionWords))
        reader_.complain(
            *op,
            fmt::format("op '{}': families outside the program are for gemm and the convolutions", text));
      if (std::ranges::find(ops_, one) != ops_.end())
        reader_.complain(*op, fmt::format("op '{}' is given twice", text));
      ops_.push_back(one);
    }
    if (ops_.size() > 1 && std::ranges::find(ops_, Op::gemm) != ops_.end())
      reader_.complain(*op, "GEMMs and convolutions have different problems: declare a provider for each");
  }

  void read_axes_of(const toml::table& root) {
    const toml::node* const list = root.get("axis");
    if (list == nullptr) reader_.complain(root, fmt::format("{} has no [[axis]]", kWhat));
    for (const toml::node& node : reader_.array_of(*list, "axis")) read_axis(reader_.table_of(node, "axis"));
    if (axes_.size() > kMaxAxes)
      reader_.complain(*list, fmt::format("{} axes; the limit is {}", axes_.size(), kMaxAxes));
  }

  void read_axis(const toml::table& table) {
    reader_.check_keys(table, "key of an axis", {"name", "unit", "help", "words", "launch", "text"});
    const std::string& name = kept(reader_.required_text(table, "name", "an axis"));
    if (!is_name(name))
      reader_.complain(table, fmt::format("axis '{}': small letters, digits and single '_'", name));
    if (std::ranges::find(axes_, name, &Axis::name) != axes_.end())
      reader_.complain(table, fmt::format("axis '{}' is given twice", name));
    const auto text_or = [&](std::string_view key, std::string_view otherwise) -> const std::string& {
      const toml::node* const node = table.get(key);
      return kept(node ? reader_.text_of(*node, key) : std::string(otherwise));
    };
    Axis axis{.name = name, .unit = text_or("unit", "1"), .help = text_or("help", "")};
    axis.launch = reader_.flag(table, "launch");
    if (const toml::node* const words = table.get("words")) {
      auto& own = words_.emplace_back();
      for (const std::string& word : reader_.texts_of(*words, "words")) {
        if (!is_name(word))
          reader_.complain(*words, fmt::format("word '{}' of axis '{}': small letters, digits and single '_'",
                                               word, name));
        own.push_back(kept(word));
      }
      if (own.size() < 2) reader_.complain(*words, fmt::format("axis '{}' needs two words or more", name));
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
      const toml::table& table = reader_.table_of(*node, "traits");
      const auto names = field_names<Traits>();
      reader_.check_keys(table, "trait", std::vector<std::string_view>(names.begin(), names.end()));
      for (const auto& [name, formula] : TomlReader::as_written(table))
        formulas.push_back({name, reader_.text_of(*formula, name)});
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
      reader_.complain(at, error.what());
    }
  }

  const std::string& kept(std::string text) { return texts_.emplace_back(std::move(text)); }

  const Space& of(Op op) const {
    const auto found = std::ranges::find(spaces_, op, [](const Space& one) { return one.space.op; });
    if (found == spaces_.end()) {
      std::vector<std::string_view> have;
      for (const Op one : ops_) have.push_back(word(one));
      fail(Errc::unsupported, "{} has no kernels for {}; it has {}", name_, word(op), fmt::join(have, ", "));
    }
    return *found;
  }

  void check(const KernelConfig& config) const {
    if (!config.space || config.space->provider != name_ || &of(config.space->op).space != config.space)
      fail(Errc::invalid_argument, "a config of {} is not one of {}",
           config.space ? config.space->provider : "no space", name_);
    for (std::size_t i = 0; i < axes_.size(); ++i) axis_value(config, i, false);
  }

  static std::string signature_text(const Signature& signature) {
    return signature.op == Op::gemm ? "gemm_" + gemm_signature_text(signature)
                                    : conv_signature_text(signature);
  }
  static Signature read_signature(NameReader& in) {
    if (!in.optional("gemm_")) return read_conv_signature(in);
    return read_gemm_signature(in, "__");
  }

  std::string toml_, name_, help_;
  TomlReader reader_;
  std::deque<std::string> texts_;  ///< what axes and parts point at
  std::deque<std::vector<std::string_view>> words_;
  std::vector<Axis> axes_;
  std::vector<NamePart> parts_;
  std::vector<Op> ops_;
  std::deque<Space> spaces_;
  expr::Program runs_on_;
};

const DeclaredProvider* declared(std::string_view name) noexcept {
  return static_cast<const DeclaredProvider*>(declared_provider(name));
}

void declare_file(const std::filesystem::path& file) { declare_provider(read_file(file), file.string()); }

void declare_listed(const std::filesystem::path& entry) {
  std::error_code error;
  if (!std::filesystem::is_directory(entry, error)) return declare_file(entry);
  std::vector<std::filesystem::path> found;
  for (const auto& file : std::filesystem::directory_iterator(entry, error)) {
    if (file.path().filename().string().ends_with(kFamilySuffix)) found.push_back(file.path());
  }
  if (error)
    fail(Errc::device_failure, "KSCOUT_FAMILIES: cannot list {}: {}", entry.string(), error.message());
  std::ranges::sort(found);
  for (const auto& file : found) declare_file(file);
}

/// Two threads may declare at once.
ForkMutex declaring(ForkLevel::files);

}  // namespace

std::unique_ptr<const Provider> read_declaration(std::string_view toml, std::string_view file) {
  return std::make_unique<DeclaredProvider>(toml, file);
}

const Provider& declare_provider(std::string_view toml, std::string_view file) {
  auto made = std::make_unique<DeclaredProvider>(toml, file);
  const std::lock_guard lock(declaring);
  if (const DeclaredProvider* const known = declared(made->name())) {
    if (known->toml() == toml || known->has_axes_of(*made)) return *known;
    fail(Errc::invalid_argument,
         "{}: provider '{}' is declared with other axes in {}; give one of them another name", file,
         made->name(), known->file());
  }
  return add_provider(std::move(made));
}

std::string_view declaration_of(std::string_view provider) noexcept {
  const DeclaredProvider* const known = declared(provider);
  return known ? std::string_view(known->toml()) : std::string_view();
}

const FamilyFile* declared_family(const ConfigSpace& space) noexcept {
  const DeclaredProvider* const known = declared(space.provider);
  return known ? &known->family(space.op) : nullptr;
}

void declare_if_unknown(std::string_view provider, std::string_view toml, std::string_view file) {
  declare_providers_of_environment();
  if (!find_word(provider, provider_names())) declare_provider(toml, file);
}

void declare_providers_of_environment() {
  static std::recursive_mutex mutex;
  static bool began = false;
  const std::lock_guard lock(mutex);
  if (std::exchange(began, true)) return;  // also while the files are read
  try {
    const char* const listed = std::getenv("KSCOUT_FAMILIES");
    for (const std::string_view entry : split(listed ? listed : "", ':')) {
      if (!entry.empty()) declare_listed(std::filesystem::path(entry));
    }
  } catch (...) {
    began = false;  // the next name that is not known gives the same error
    throw;
  }
}

}  // namespace kscout
