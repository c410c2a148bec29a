
#include "backend/library/library_backend.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <vector>

#include <dlfcn.h>

#include "core/fail.h"
#include "core/field_text.h"
#include "core/files.h"
#include "core/hash.h"
#include "core/loader_name.h"
#include "core/log.h"
#include "core/names.h"
#include "core/owners.h"
#include "core/process.h"
#include "family/rules.h"
#include "op/gemm/gemm_views.h"
#include "op/operands.h"

namespace kscout {

namespace {

constexpr const char* kLimitVariable = "KSCOUT_LIBRARY_SECONDS";

/// Time limit for loading a library.
double limit_seconds() {
  constexpr double kDefault = 30, kMax = 86400;
  const std::string text = environment(kLimitVariable);
  if (text.empty()) return kDefault;
  const auto seconds = parse_field<double>(kLimitVariable, text);
  if (!(seconds > 0 && seconds <= kMax)) {
    fail(Errc::invalid_argument, "{}='{}': seconds, more than 0 and at most {}", kLimitVariable, text, kMax);
  }
  return seconds;
}

void check_checksum(const LibraryIndex& index) {
  if (is_absent(index.library)) {
    fail(Errc::not_found, "{}: its library {} does not exist", index.file.string(), index.library.string());
  }
  const std::uint64_t found = text_hash(read_file(index.library));
  if (found == index.checksum) return;
  fail(Errc::corrupt_data,
       "{}: checksum fnv1a64:{}, but the index {} was written for fnv1a64:{}; if it was built again, seal it "
       "again: "
       "kscout generate --seal {}",
       index.library.string(), hash_digits(found), index.file.string(), hash_digits(index.checksum),
       index.library.string());
}

kscout_kernel_library_get_function entry_of(void* handle) {
  return reinterpret_cast<kscout_kernel_library_get_function>(dlsym(handle, KSCOUT_KERNEL_LIBRARY_SYMBOL));
}

void check_library(const LibraryIndex& index, const kscout_kernel_library* library) {
  const std::string file = index.library.string();
  if (!library) fail(Errc::corrupt_data, "{}: {} returned null", file, KSCOUT_KERNEL_LIBRARY_SYMBOL);
  if (library->abi != KSCOUT_KERNEL_ABI) {
    fail(Errc::corrupt_data, "{}: it has ABI {}, its index and this program ABI {}: build it again", file,
         library->abi, KSCOUT_KERNEL_ABI);
  }
  if (library->struct_size < sizeof(kscout_kernel_library) || library->kernel_size < sizeof(kscout_kernel) ||
      (library->kernel_count > 0 && !library->kernels)) {
    fail(Errc::corrupt_data, "{}: its structs are smaller than ABI {} requires ({} and {} bytes)", file,
         KSCOUT_KERNEL_ABI, library->struct_size, library->kernel_size);
  }
  if (!library->backend || (!index.backend.empty() && index.backend != library->backend)) {
    fail(Errc::corrupt_data, "{}: made for backend '{}', the index says '{}'", file,
         library->backend ? library->backend : "", index.backend);
  }
}

constexpr std::uint64_t kMaxKernels = 100'000;
constexpr std::size_t kMaxNameBytes = 512;
constexpr std::uint64_t kMaxWorkspaceBytes = std::uint64_t{1} << 40;

/// Throws corrupt_data for numbers and pointers that no library has.
void check_kernels(const std::string& file, const kscout_kernel_library& library) {
  if (library.kernel_count > kMaxKernels) {
    fail(Errc::corrupt_data, "{}: it states {} kernels, and {} are the most; correct its kernel_count", file,
         library.kernel_count, kMaxKernels);
  }
  if (library.kernel_size > 64 * sizeof(kscout_kernel) || library.kernel_size % alignof(kscout_kernel) != 0) {
    fail(Errc::corrupt_data, "{}: it states {} bytes for each kernel; kernel_size is sizeof(kscout_kernel)",
         file, library.kernel_size);
  }
  std::size_t number = 0;
  for (const kscout_kernel* const kernel : kernels_of(library)) {
    ++number;
    if (!kernel->name || !kernel->workspace_bytes || !kernel->run) {
      fail(Errc::corrupt_data, "{}: kernel {} of {} has no {}; check its list and kernel_count", file, number,
           library.kernel_count, kernel->name ? "function" : "name");
    }
    if (strnlen(kernel->name, kMaxNameBytes + 1) > kMaxNameBytes) {
      fail(Errc::corrupt_data, "{}: the name of kernel {} of {} is longer than {} bytes", file, number,
           library.kernel_count, kMaxNameBytes);
    }
  }
}

/// The library as it describes itself. Reads every text of it, so that a wrong number or pointer crashes
/// here.
const kscout_kernel_library& load(const LibraryIndex& index) {
  const std::string file = index.library.string();
  void* const handle = dlopen(loader_name(file).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) fail(Errc::corrupt_data, "{}: cannot be loaded: {}", file, dlerror());
  const auto get = entry_of(handle);
  if (!get) fail(Errc::corrupt_data, "{}: exports no {}", file, KSCOUT_KERNEL_LIBRARY_SYMBOL);
  const kscout_kernel_library* const library = get();
  check_library(index, library);
  check_kernels(file, *library);
  return *library;
}

/// Runs every step that could crash before a kernel is called. Errors without a crash are reported when the
/// same steps run in the parent.
void try_loading(const LibraryIndex& index) {
  const std::string file = index.library.string();
  const ChildResult loaded = in_child(limit_seconds(), [&] {
    try {
      load(index);
    } catch (const Error&) {  // reported by the parent
    }
    return std::string("loaded");
  });
  if (loaded.failure.empty()) return;
  fail(Errc::device_failure, "{}: loading it {}{}; rebuild it or remove its index", file, loaded.failure,
       loaded.timed_out ? fmt::format(" ({} sets the limit)", kLimitVariable) : "");
}

}  // namespace

std::vector<const kscout_kernel*> kernels_of(const kscout_kernel_library& library) {
  std::vector<const kscout_kernel*> kernels;
  const auto* at = reinterpret_cast<const std::byte*>(library.kernels);
  for (std::uint64_t i = 0; i < library.kernel_count; ++i, at += library.kernel_size)
    kernels.push_back(reinterpret_cast<const kscout_kernel*>(at));
  return kernels;
}

const kscout_kernel_library& load_library_file(const LibraryIndex& index) {
  refuse_if_others_write(index.library);
  check_checksum(index);
  try_loading(index);
  return load(index);
}

const kscout_kernel_library& open_library_file(const LibraryIndex& index) {
  const kscout_kernel_library& library = load_library_file(index);
  if (library.open) {
    char text[512] = "";
    if (library.open({text, sizeof text}) != KSCOUT_KERNEL_OK) {
      text[sizeof text - 1] = 0;
      fail(Errc::device_failure, "{}: cannot open its device: {}", index.library.string(), text);
    }
  }
  return library;
}

namespace {

/// A text buffer that functions of a library may write.
struct Message {
  char text[512] = "";
  kscout_kernel_message target() { return {text, sizeof text}; }
  std::string_view view() {
    text[sizeof text - 1] = 0;
    return text[0] ? text : "no reason given";
  }
};

kscout_conv_shape conv_shape(const ConvProblem& p) {
  const ConvOutput out = output_sizes(p);
  return {.struct_size = sizeof(kscout_conv_shape),
          .rank = static_cast<std::uint32_t>(spatial_rank(p.layout)),
          .n = p.n,
          .c = p.c,
          .k = p.k,
          .g = p.g,
          .in = {p.d, p.h, p.w},
          .filter = {p.z, p.y, p.x},
          .out = {out.d, out.h, out.w},
          .stride = {p.stride_d, p.stride_h, p.stride_w},
          .dilation = {p.dilation_d, p.dilation_h, p.dilation_w},
          .left_pad = {p.left_pad_d, p.left_pad_h, p.left_pad_w},
          .right_pad = {p.right_pad_d, p.right_pad_h, p.right_pad_w}};
}

class LibraryLaunch final : public Launch {
 public:
  LibraryLaunch(std::string name, const MemorySpace& space, const kscout_kernel& kernel, ProblemRef problem,
                const KernelConfig& config)
      : name_(std::move(name)), space_(space), kernel_(kernel), config_(config) {
    shape_.struct_size = sizeof shape_;
    shape_.axis_count = static_cast<std::uint32_t>(config.space->axes.size());
    shape_.axes = config_.value.data();
    const ImplicitGemm product = product_of(problem);
    shape_.m = product.m;
    shape_.n = product.n;
    shape_.k = product.k;
    shape_.batch = product.groups;
    if (problem.is<GemmProblem>()) set_strides(problem.as<GemmProblem>());
    if (problem.is<ConvProblem>()) {
      conv_ = conv_shape(problem.as<ConvProblem>());
      shape_.conv = &conv_;
    }
    set_fields(problem);
    Message message;
    expect_ok(kernel_.workspace_bytes(&kernel_, &shape_, &workspace_bytes_, message.target()), message);
    if (workspace_bytes_ > kMaxWorkspaceBytes) {
      fail(Errc::device_failure,
           "{}: it asks for {} bytes of workspace, and {} are the most; correct its workspace_bytes()", name_,
           workspace_bytes_, kMaxWorkspaceBytes);
    }
  }
  LibraryLaunch(const LibraryLaunch&) = delete;  // shape_ points into members
  LibraryLaunch& operator=(const LibraryLaunch&) = delete;

  std::size_t workspace_bytes() const noexcept override { return workspace_bytes_; }

  void run(const Buffers& given, void* workspace, Stream stream) override {
    const GemmBuffers buffers = GemmBuffers::of(given);
    check_reach(name_, space_, given.space);
    if (buffers.scale_a || buffers.scale_b)
      fail(Errc::unsupported, "{}: kernels of libraries take no scales of A or B; fold them into alpha",
           name_);
    std::array<const void*, Buffers::max_operands> pointers;
    for (std::size_t i = 0; i < tensors_.size(); ++i) pointers[i] = given.operand[tensors_[i].at];
    const kscout_kernel_call call{.struct_size = sizeof call,
                                  .reserved = 0,
                                  .a = buffers.a,
                                  .b = buffers.b,
                                  .c = buffers.c,
                                  .bias = buffers.bias,
                                  .alpha = buffers.alpha,
                                  .beta = buffers.beta,
                                  .workspace = workspace,
                                  .workspace_bytes = workspace_bytes_,
                                  .stream = stream.handle,
                                  .operands = pointers.data()};
    Message message;
    expect_ok(kernel_.run(&kernel_, &shape_, &call, message.target()), message);
  }

 private:
  void set_strides(const GemmProblem& problem) {
    const LeadingDimensions ld = leading_dimensions(problem);
    shape_.lda = ld.a;
    shape_.ldb = ld.b;
    shape_.ldc = ld.c;
    shape_.stride_a = view_a(problem).batch_stride;
    shape_.stride_b = view_b(problem).batch_stride;
    shape_.stride_c = view_c(problem).batch_stride;
  }

  /// Words and names are literals, so they end with 0.
  void set_fields(ProblemRef problem) {
    problem_ = problem.value();
    tensors_ = operation(problem.kind()).operands(problem);
    for (const ProblemField& field : problem_.space().fields) field_names_.push_back(field.name.data());
    for (const Tensor& tensor : tensors_) {
      operands_.push_back({.name = tensor.name.data(),
                           .dtype = word(tensor.dtype).data(),
                           .is_output = tensor.role == TensorRole::output,
                           .rank = static_cast<std::uint32_t>(tensor.rank),
                           .sizes = tensor.sizes.data(),
                           .strides = tensor.strides.data()});
    }
    shape_.op = word(problem.op()).data();
    shape_.field_count = static_cast<std::uint32_t>(field_names_.size());
    shape_.field_names = field_names_.data();
    shape_.fields = problem_.values().data();
    shape_.operand_count = static_cast<std::uint32_t>(operands_.size());
    shape_.operands = operands_.data();
  }

  void expect_ok(std::int32_t status, Message& message) const {
    if (status == KSCOUT_KERNEL_OK) return;
    const Errc code = status == KSCOUT_KERNEL_UNSUPPORTED ? Errc::unsupported : Errc::device_failure;
    fail(code, "{}: {}", name_, message.view());
  }

  std::string name_;
  MemorySpace space_;
  const kscout_kernel& kernel_;
  KernelConfig config_;
  kscout_kernel_shape shape_{};
  kscout_conv_shape conv_{};
  Problem problem_;
  OperandList tensors_;
  std::vector<const char*> field_names_;
  std::vector<kscout_kernel_operand> operands_;
  std::uint64_t workspace_bytes_ = 0;
};

}  // namespace

LibraryBackend::LibraryBackend(LibraryIndex index)
    : index_(std::move(index)), device_(find_device(index_.device)) {
  for (std::size_t i = 0; i < index_.configs.size(); ++i) positions_.emplace(index_.configs[i].config, i);
}

Memory& LibraryBackend::memory() {
  return index_.backend == "cpu" ? host_memory() : kscout::backend(index_.backend).memory();
}

MemorySpace LibraryBackend::space() {
  if (index_.backend == "cpu") return {};
  if (Memory* const known = gpu_memory_.load()) return known->space();
  try {
    gpu_memory_ = &kscout::backend(index_.backend).memory();
    return gpu_memory_.load()->space();
  } catch (const Error&) {  // the backend is missing on this machine; absence() reports it
    return {parse<MemoryKind>(index_.backend), 0};
  }
}

Instruments& LibraryBackend::instruments() {
  return index_.backend == "cpu" ? host_instruments() : instruments_of(kscout::backend(index_.backend));
}

Family LibraryBackend::family(const Signature& signature, std::string_view) {
  const auto first = std::ranges::find(index_.configs, signature, &NamedConfig::signature);
  if (first == index_.configs.end()) {
    fail(Errc::unsupported, "library {} has no kernels for {} {} {}{}", index_.name, word(signature.op),
         word(signature.dtype_a), word(signature.layout), signature.accumulate ? " that read C" : "");
  }
  Family family{.provider = std::string(provider()),
                .signature = signature,
                .device = device_,
                .rules = index_.name,
                .configs = ConfigTable(*first->config.space),
                .traits = {},
                .applicability = index_.applicability.at(signature.op),
                .default_config = 0};
  for (const NamedConfig& named : index_.configs) {
    if (named.signature != signature) continue;
    family.configs.push_back(named.config);
    family.traits.push_back(index_.provider->traits(signature, named.config, device_));
  }
  return family;
}

bool LibraryBackend::holds(const Signature& signature, const KernelConfig& config) const noexcept {
  return position(signature, config) < index_.configs.size();
}

void LibraryBackend::check_apart(const LibraryBackend& other) const {
  for (const auto& [signature, config] : index_.configs) {
    if (!other.holds(signature, config)) continue;
    fail(Errc::invalid_argument, "{} and {} both have kernel {}; leave one of the libraries out",
         other.index_.file.string(), index_.file.string(), config_name(signature, config));
  }
}

std::size_t LibraryBackend::position(const Signature& signature, const KernelConfig& config) const noexcept {
  const auto [first, last] = positions_.equal_range(config);
  const auto found = std::find_if(
      first, last, [&](const auto& entry) { return index_.configs[entry.second].signature == signature; });
  return found == last ? index_.configs.size() : found->second;
}

std::string LibraryBackend::absence(const Signature& signature, const KernelConfig& config) {
  if (!find_word(index_.backend, backend_names())) {
    return fmt::format("library {} is for backend {}, which is not on this machine", index_.name,
                       index_.backend);
  }
  if (holds(signature, config)) return {};
  return fmt::format("library {} has no kernel {}", index_.name, config_name(signature, config));
}

std::string LibraryBackend::refusal(ProblemRef problem, const KernelConfig& config) {
  if (std::string why = absence(signature_of(problem), config); !why.empty()) return why;
  const auto rule = refusing_rule(index_.applicability.at(problem.op()), problem, config, device_);
  return rule ? fmt::format("rule '{}' of library {}: {}", rule->name, index_.name, rule->because) : "";
}

void LibraryBackend::open() {
  const kscout_kernel_library& library = open_library_file(index_);
  std::vector<std::string_view> names;
  const std::vector<const kscout_kernel*> all = kernels_of(library);
  for (const kscout_kernel* const kernel : all) names.emplace_back(kernel->name);
  std::vector<const kscout_kernel*> kernels;
  for (const std::string& name : index_.kernels) {
    const auto found = find_word(name, names);
    if (!found) {
      fail(Errc::corrupt_data, "{}: the index names a kernel that it lacks: {}", index_.library.string(),
           unknown_name_message("kernel", name, names));
    }
    kernels.push_back(all[*found]);
  }
  kernels_ = std::move(kernels);
}

const kscout_kernel& LibraryBackend::kernel(std::size_t config) {
  const std::scoped_lock lock(mutex_);
  if (kernels_.empty()) open();
  return *kernels_[config];
}

std::unique_ptr<Launch> LibraryBackend::prepare(ProblemRef problem, const KernelConfig& config) {
  check(problem);
  if (const std::string why = refusal(problem, config); !why.empty()) {
    fail(Errc::unsupported, "{}: {}", print(problem), why);
  }
  const std::size_t at = position(signature_of(problem), config);
  return std::make_unique<LibraryLaunch>(index_.kernels[at], space(), kernel(at), problem, config);
}

}  // namespace kscout
