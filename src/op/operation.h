#pragma once
/// \file
/// Describes an operation to all other code: its fields, its text form, and what it decides of its own.
///
///     const Operation& of = operation(problem.op());
///     for (const ProblemField& field : of.space.fields) ...
///     const Problem plain = of.make(Op::gemm, DType::bf16, Layout::rcr);
///
/// Each operation is a folder below op/; ops.cpp lists them. Code outside of these folders asks the
/// description and does not distinguish operations.
#include <array>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <kscout/any_problem.h>
#include <kscout/device.h>
#include <kscout/launch.h>

namespace kscout {

struct CopiedOperands;
struct AlignedForm;
struct ExecutionForm;
struct ProblemDescription;
struct ProblemSetRequest;
class GemmOperands;
class Reference;

/// Defines the groups of problems that stay together in a split, whatever their layouts and element types.
/// sizes: problems of equal sizes (sizes_of). weights: all products with weight matrices of one shape, which
/// is (n, k) of a GEMM, the filter and groups of a convolution. geometry: the same for GEMMs; convolutions of
/// equal sizes but for the number of images.
enum class SplitBy : std::uint8_t { sizes, weights, geometry };
template <>
struct EnumWords<SplitBy> {
  static constexpr std::string_view what = "way to split problems";
  static constexpr std::array<std::string_view, 3> words = {"sizes", "weights", "geometry"};
};

/// What a kernel does with an operand.
enum class TensorRole : std::uint8_t { input, output };

/// An operand in memory. Sizes and strides, in elements, are in memory order: the outermost axis first, and
/// the last stride is 1.
struct Tensor {
  static constexpr std::size_t max_rank = 5;

  std::string_view name;
  DType dtype = DType::fp32;
  TensorRole role = TensorRole::input;
  std::size_t rank = 1;
  std::array<std::int64_t, max_rank> sizes{}, strides{};
  std::size_t at = 0;     ///< position of its pointer in Buffers::operand
  bool optional = false;  ///< a call may leave it out

  /// A tensor whose elements follow each other.
  static Tensor packed(std::string_view name, DType dtype, TensorRole role,
                       std::initializer_list<std::int64_t> sizes) noexcept;
  /// Elements that its buffer has.
  std::int64_t elements() const noexcept { return sizes[0] * strides[0]; }
  /// Bytes of its buffer.
  std::int64_t bytes() const noexcept;
};

/// The operands of a problem. Those that every problem of the operation has come first.
class OperandList {
 public:
  static constexpr std::size_t max = Buffers::max_operands;

  /// Adds an operand whose pointer is at the next position, or at `at`, after operands that this problem
  /// lacks.
  void add(const Tensor& tensor) noexcept { add(tensor, count_); }
  void add(const Tensor& tensor, std::size_t at) noexcept {
    tensors_[count_] = tensor;
    tensors_[count_++].at = at;
  }
  const Tensor* begin() const noexcept { return tensors_.data(); }
  const Tensor* end() const noexcept { return begin() + count_; }
  std::size_t size() const noexcept { return count_; }
  const Tensor& operator[](std::size_t i) const noexcept { return tensors_[i]; }
  /// The tensor that the kernel computes.
  const Tensor& result() const noexcept;

 private:
  std::size_t count_ = 0;
  std::array<Tensor, max> tensors_;
};

/// Positions of a product's operands in Buffers; signature_of() says which tensors of a convolution they are.
inline constexpr std::size_t kA = 0, kB = 1, kC = 2, kBias = 3;

/// A name that stands for several fields, and its meaning for help pages.
struct GeneralName {
  std::string_view name, help;
};

struct ProblemSetInfo {
  std::string_view name;
  std::string_view summary;
  bool makes_count = false;  ///< ProblemSetRequest::count is how many it makes, also where a part is chosen
};

/// The problems that `kscout tune` measures.
struct TuningRequest {
  Op op = Op::gemm;
  DType dtype = DType::fp32;  ///< of GEMMs and convolutions; other operations are tuned in fp32
  std::set<Layout> layouts;
  double max_gflop, max_bytes;  ///< of one problem
  std::size_t count;            ///< roughly that many sizes of each source
  std::uint64_t seed = 1;
};

/// A property that may set the runs with wrong results apart: a formula over the problem (p), its signature
/// (s) and the config (c), and what it says.
struct RunProperty {
  std::string formula, in_words;
};

/// A limit of a model's quality that the public CK Tile tools ask for.
enum class Quality : std::uint8_t { mean, p10, oracle_picks };
template <>
struct EnumWords<Quality> {
  static constexpr std::string_view what = "quality";
  static constexpr std::array<std::string_view, 3> words = {"mean", "p10", "picks that are the oracle"};
};
struct QualityTarget {
  Quality quality;
  double percent;
  bool reached = false;  ///< the limit itself is enough
};

/// The constants of an operation.
struct OperationFacts {
  ProblemSpace space;
  std::span<const Op> ops;
  std::string_view noun, plural;  ///< "convolution", "convolutions"
  std::string_view remedy;        ///< how to ask for such a problem: "write gemm:MxNxK..."
  std::string_view example;       ///< a problem of typical size, its one-line form without the op
  std::string_view meaning;       ///< of its struct, as a comment
  std::span<const GeneralName> general_names = {};  ///< except `dtype`, which every operation has
  std::span<const Layout> layouts;                  ///< the default first
  /// The layouts that problem sets hold and CPU kernels take without copies: those that `tune` measures, on a
  /// GPU the first.
  std::span<const Layout> tuned_layouts;
  std::span<const std::string_view> needed_sizes;  ///< columns of a dataset without a default
  std::span<const std::string_view> needed_flags;  ///< flags of a command line without a default
  std::span<const std::string_view> needed_cells;  ///< columns of a table of problems without a default
  std::string_view own_column = {};                ///< tells its table of problems from those of others
  bool (*is_size)(const ProblemField& field);      ///< whether sizes_of() contains the field
  bool has_alpha = false;                          ///< kernels multiply the result by a factor
  bool has_epilogues = false;                      ///< its sets can be made with epilogues
  /// Position of the operand that a caller may pack once for many calls; by default there is none.
  std::size_t packable = Buffers::max_operands;
  SplitBy tune_split;           ///< what training and held-out problems of `tune` must not share
  std::string_view split_noun;  ///< one such group: "size", "filter"
  double tune_share;            ///< of the operations that a GEMM may take in a sweep of `tune`
  std::uint64_t draw_seed = 1;  ///< ProblemSetRequest::seed by default
  /// Sets of problems that published models are validated on; trainings leave them out by default.
  std::span<const std::string_view> validation_sets = {};
  std::string_view kind_name = {};  ///< name of the slices of kind_of(); empty: it has none
};

class Operation : public OperationFacts {
 public:
  explicit Operation(const OperationFacts& facts) : OperationFacts(facts) {}
  virtual ~Operation() = default;

  /// A problem with the accumulator and output types of make_gemm; its sizes are defaults and may be invalid.
  virtual Problem make(Op op, DType dtype, Layout layout) const = 0;
  Problem make(Op op, DType dtype = DType::fp32) const { return make(op, dtype, layouts.front()); }

  // The functions of any_problem.h. `problem` is of this operation.
  virtual Signature signature(ProblemRef problem) const noexcept = 0;
  virtual double flops(ProblemRef problem) const noexcept = 0;
  virtual double bytes(ProblemRef problem) const noexcept = 0;
  virtual void check(ProblemRef problem) const = 0;
  virtual bool is_valid(ProblemRef problem) const noexcept = 0;
  virtual std::string print(ProblemRef problem) const = 0;
  virtual ImplicitGemm product(ProblemRef problem) const noexcept = 0;
  /// Allocates nothing. The problem must be valid.
  virtual OperandList operands(ProblemRef problem) const noexcept = 0;
  /// Sets the fields that follow from others (FieldRole::derived).
  virtual void derive(Problem& /*problem*/) const {}
  /// Whether the result has no element, so that there is nothing to compute.
  virtual bool is_empty(ProblemRef /*problem*/) const noexcept { return false; }
  /// Whether the caller packs an operand once for many calls (ConvProblem::prepacked).
  virtual bool is_prepacked(ProblemRef /*problem*/) const noexcept { return false; }

  /// Calls add(form) for other forms of the problem with operands in `memory`, some of them several times; a
  /// form may be invalid.
  virtual void for_each_form(ProblemRef /*problem*/, MemoryKind /*memory*/,
                             const std::function<void(const ExecutionForm&)>& /*add*/) const {}
  /// Calls add(form) for forms that may be faster than the problem itself, although kernels take it: lines
  /// that begin at multiples of 16 bytes. None where they do so already.
  virtual void for_each_aligned_form(ProblemRef /*problem*/,
                                     const std::function<void(const AlignedForm&)>& /*add*/) const {}
  /// The copies that a form makes: of A, B, C and further operands. None by default.
  virtual CopiedOperands copied_operands(ProblemRef problem, const ExecutionForm& form) const;

  /// Throws invalid_argument for buffers that the problem's kernels would ignore. The shared checks
  /// (Dispatcher::run) find missing and overlapping operands.
  virtual void check_buffers(ProblemRef /*problem*/, const Buffers& /*buffers*/) const {}

  virtual std::unique_ptr<Reference> reference(ProblemRef problem, const GemmOperands& operands) const = 0;
  /// Bytes of host memory that a reference of a large problem takes at most.
  virtual double reference_bytes(ProblemRef problem) const noexcept;
  /// The problem with `gap` elements between the lines of its operands; the same problem where they have
  /// none.
  virtual Problem with_gaps(const Problem& problem, std::int64_t /*gap*/) const { return problem; }
  /// A problem of an eighth of the operations that a kernel computes like this one: its operands are parts of
  /// this one's, in place. The same problem where there is none.
  virtual Problem part_of(const Problem& problem) const { return problem; }

  /// What problems with weight matrices of one shape share (SplitBy::weights).
  virtual ProblemSizes weights(ProblemRef problem) const = 0;
  /// What problems of one geometry share (SplitBy::geometry).
  virtual ProblemSizes geometry(ProblemRef problem) const { return weights(problem); }
  /// The kind that kernels treat differently, a slice of reports; empty where `kind_name` is.
  virtual std::string_view kind_of(ProblemRef /*problem*/) const { return {}; }

  /// How problems of this op are written.
  virtual std::string_view syntax(Op op) const noexcept = 0;
  /// Adds the sizes of a one-line form, split at colons; returns the position of the next part. Throws
  /// invalid_argument.
  virtual std::size_t add_sizes(Op op, std::string_view line, std::span<const std::string_view> parts,
                                std::vector<GivenField>& given) const = 0;
  /// Throws invalid_argument for a layout that does not fit the sizes of a one-line form.
  virtual void check_layout(std::string_view /*line*/, std::span<const std::string_view> /*parts*/,
                            Layout /*layout*/) const {}
  /// A line of a list of problems that is no one-line form ("16x64x32"). Throws corrupt_data.
  virtual Problem from_sizes(std::string_view line, DType dtype) const = 0;
  /// The problem that these fields describe; `dtype`: element type when none is given. The fields contain
  /// `op` only where problems have such a field. Throws as set_fields does. Does not check() it.
  virtual Problem from_fields(Op op, std::span<const GivenField> given, DType dtype) const = 0;
  /// The problem with these fields set, as set_fields does.
  virtual Problem with_fields(const Problem& problem, std::span<const GivenField> given) const = 0;

  /// Other signatures that a model of this one answers for on the device, because it orders their kernels as
  /// well: the nearest first.
  virtual std::vector<Signature> answers_for(const Signature& /*signature*/, const Device& /*device*/) const {
    return {};
  }
  /// What the public CK Tile tools ask of a model of the op; nothing where they have none.
  virtual std::vector<QualityTarget> quality_targets(Op /*op*/) const { return {}; }
  /// Properties to describe wrong results by, the more specific first.
  virtual std::vector<RunProperty> run_properties() const { return {}; }
  /// The statements of a PyTorch program that compute the result `c`, the result in double precision `right`,
  /// and `scale`, the same of absolute values; tensors are made with `**on`. Empty where no call of PyTorch
  /// computes the problem.
  virtual std::string pytorch(ProblemRef /*problem*/) const { return {}; }

  /// Name of the schema of models by default, and of its analytic time.
  virtual std::string_view schema(std::string_view provider, DeviceKind device) const noexcept = 0;
  /// A list of each source (a named set, random problems); several problems may be equal.
  virtual std::vector<std::vector<Problem>> tuning_problems(const TuningRequest& request) const = 0;

  /// Named sets of problems.
  virtual std::span<const ProblemSetInfo> sets() const noexcept = 0;
  /// The problems of a set, in these layouts; without `wanted`, in those of the set.
  virtual std::vector<Problem> named_set(std::string_view name, DType dtype,
                                         const std::vector<Layout>& wanted) const = 0;
  /// Each problem in each of these layouts; without `wanted`, as it is. Equal GEMMs are merged.
  virtual std::vector<Problem> laid_out(const std::vector<Problem>& problems,
                                        const std::vector<Layout>& wanted) const;
  /// The problems of a text (parse_problems_of), laid out.
  virtual std::vector<Problem> listed(std::string_view text, std::string_view source, DType dtype,
                                      const std::vector<Layout>& wanted) const;
  /// The distinct problems that a request asks for. Throws invalid_argument for an unknown set.
  virtual std::vector<Problem> requested(const ProblemSetRequest& request) const;
  /// Keeps the problems of `count` sizes, drawn by a hash of the sizes, in their order. The draw is
  /// independent of split_problems with the same seed. Convolutions: stratified().
  virtual std::vector<Problem> drawn(std::vector<Problem> problems, std::size_t count,
                                     std::uint64_t seed) const;
  /// By default every number among the fields, and the slices layout and dtype.
  virtual ProblemDescription describe(ProblemRef problem) const;

  /// Every name that set_fields takes: fields that are not derived, then general names.
  std::vector<std::string_view> given_names() const;
};

/// The signature with bf16 instead of fp16 or the reverse, in A and in operands of A's type; nothing where A
/// has another type.
std::optional<Signature> in_other_half(Signature signature) noexcept;

/// All operations, GEMM first.
std::span<const Operation* const> operations() noexcept;
/// Operations that a program links in addition, and the words of their ops, whose numbers continue those of
/// Op: it defines these functions. None otherwise.
std::span<const Operation* const> further_operations() noexcept;
std::span<const std::string_view> further_op_words() noexcept;
/// The operation that an op belongs to.
const Operation& operation(Op op) noexcept;
/// Whether two ops belong to one operation: fields, axes and formulas have the same names.
inline bool same_operation(Op a, Op b) noexcept { return &operation(a) == &operation(b); }

// ---- Converts the numbers of fields.

/// "bf16", "64", "1": as field_text of the struct's member. Of a list, its digest.
std::string value_text(const ProblemField& field, std::int64_t value);
/// The same for a field of a problem: "128+64+0+7" for a list.
std::string value_text(const Problem& problem, std::size_t field);
/// Inverse of value_text. Throws invalid_argument naming the field and the text.
std::int64_t parse_value(const ProblemField& field, std::string_view text);
/// A field of a problem as formulas see it.
inline double number_of(const ProblemField& field, std::int64_t value) noexcept {
  return field.type == FieldType::real ? std::bit_cast<double>(value) : static_cast<double>(value);
}

/// The values that the problems of one group share; other entries are 0.
ProblemSizes group_of(ProblemRef problem, SplitBy by);

}  // namespace kscout
