#include "arrays.h"

#include <string>
#include <utility>

#include <kscout/error.h>

namespace nb = nanobind;

namespace kscout::python {

namespace {
struct ElementType {
  DType dtype;
  nb::dlpack::dtype_code code;
  std::uint8_t bits;
};

/// DLPack's code of each type. tf32 and int4 have no array type.
constexpr ElementType kElementTypes[] = {
    {DType::fp64, nb::dlpack::dtype_code::Float, 64},
    {DType::fp32, nb::dlpack::dtype_code::Float, 32},
    {DType::fp16, nb::dlpack::dtype_code::Float, 16},
    {DType::bf16, nb::dlpack::dtype_code::Bfloat, 16},
    {DType::fp8, nb::dlpack::dtype_code::Float8_E4M3FN, 8},
    {DType::bf8, nb::dlpack::dtype_code::Float8_E5M2, 8},
    {DType::int32, nb::dlpack::dtype_code::Int, 32},
    {DType::int8, nb::dlpack::dtype_code::Int, 8},
};

struct DeviceType {
  int dlpack;
  MemoryKind kind;
};
/// DLPack's device numbers; memory that host and GPU share counts as the GPU's.
constexpr DeviceType kDeviceTypes[] = {
    {1, MemoryKind::host},   // kDLCPU
    {2, MemoryKind::cuda},   // kDLCUDA
    {3, MemoryKind::host},   // kDLCUDAHost: pinned
    {10, MemoryKind::hip},   // kDLROCM
    {11, MemoryKind::host},  // kDLROCMHost
    {13, MemoryKind::cuda},  // kDLCUDAManaged
};

[[noreturn]] void refuse(std::string_view name, const std::string& why) {
  throw Error(Errc::invalid_argument, "array " + std::string(name) + " " + why);
}

std::string text(std::int64_t value) { return std::to_string(value); }

/// "int64"; for a kind that has no name here, its DLPack code and its bits.
std::string type_text(const nb::dlpack::dtype& dtype) {
  using Code = nb::dlpack::dtype_code;
  for (const auto& [code, name] : {std::pair{Code::Int, "int"}, std::pair{Code::UInt, "uint"},
                                   std::pair{Code::Float, "float"}, std::pair{Code::Complex, "complex"}}) {
    if (dtype.code == static_cast<std::uint8_t>(code)) return name + text(dtype.bits);
  }
  if (dtype.code == static_cast<std::uint8_t>(Code::Bool)) return "bool";
  return "elements of DLPack code " + text(dtype.code) + " and " + text(dtype.bits) + " bits";
}

}  // namespace

MemorySpace space_of(std::string_view name, const InputArray& array) {
  for (const DeviceType& known : kDeviceTypes) {
    if (known.dlpack != array.device_type()) continue;
    const bool host = known.kind == MemoryKind::host;
    return {known.kind, host ? 0 : static_cast<std::int32_t>(array.device_id())};
  }
  refuse(name, "is in the memory of DLPack device type " + text(array.device_type()) +
                   "; kernels of this version run in the memory of the CPU or of a GPU under CUDA or ROCm");
}

OutputArray writable(std::string_view name, const nb::object& array) {
  OutputArray result;
  if (nb::try_cast(array, result, false)) return result;
  const std::string why =
      std::string(name) + " must be an array that can be written to, of NumPy or with __dlpack__";
  throw nb::type_error(why.c_str());
}

DType element_type(std::string_view name, const InputArray& array) {
  const auto dtype = array.dtype();
  for (const ElementType& known : kElementTypes) {
    if (dtype.code == static_cast<std::uint8_t>(known.code) && dtype.bits == known.bits && dtype.lanes == 1)
      return known.dtype;
  }
  refuse(name,
         "holds " + type_text(dtype) +
             ", which no kernel computes with: convert to float32, with x.astype('float32') in NumPy or "
             "x.float() in PyTorch");
}

std::string convert_to(DType dtype) {
  return dtype == DType::fp32 ? ": convert to float32" : ": convert it to " + std::string(word(dtype));
}

Sizes shape_of(const InputArray& array) {
  Sizes shape;
  for (std::size_t i = 0; i < array.ndim(); ++i) shape.push_back(static_cast<std::int64_t>(array.shape(i)));
  return shape;
}

Sizes strides_of(const InputArray& array) {
  Sizes strides;
  for (std::size_t i = 0; i < array.ndim(); ++i) strides.push_back(array.stride(i));
  return strides;
}

bool is_packed(const InputArray& array) {
  if (array.size() == 0) return true;  // strides without elements mean nothing
  std::int64_t stride = 1;
  for (std::size_t i = array.ndim(); i-- > 0; stride *= static_cast<std::int64_t>(array.shape(i))) {
    if (array.shape(i) > 1 && array.stride(i) != stride) return false;
  }
  return true;
}

std::string sizes_text(const Sizes& sizes) {
  std::string text;
  for (const std::int64_t size : sizes) text += (text.empty() ? "(" : ", ") + std::to_string(size);
  return text.empty() ? "()" : text + (sizes.size() == 1 ? ",)" : ")");
}

const char* numpy_type(ProblemRef problem) {
  const DType type = signature_of(problem).dtype_c;
  switch (type) {
    case DType::fp64:
      return "float64";
    case DType::fp32:
    case DType::tf32:
      return "float32";
    case DType::fp16:
      return "float16";
    case DType::int32:
      return "int32";
    case DType::int8:
      return "int8";
    default:
      throw Error(Errc::invalid_argument, "NumPy has no type for the " + std::string(word(type)) +
                                              " results of " + print(problem) +
                                              "; give an array c of another package");
  }
}

}  // namespace kscout::python
