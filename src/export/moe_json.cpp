#include "export/moe_json.h"

#include <algorithm>
#include <array>
#include <map>

#include "core/fail.h"
#include "core/json_fields.h"
#include "core/name_rules.h"

namespace kscout {

namespace {

struct MoeAxis {
  std::string_view axis, key;
  bool required = true;
};
constexpr MoeAxis kMoeAxes[] = {{"block_size_m", "BLOCK_SIZE_M"}, {"block_size_n", "BLOCK_SIZE_N"},
                                {"block_size_k", "BLOCK_SIZE_K"}, {"group_size_m", "GROUP_SIZE_M"},
                                {"num_warps", "num_warps"},       {"num_stages", "num_stages"},
                                {"split_k", "SPLIT_K", false}};

Json row_of(const KernelConfig& config) {
  Json row = Json::object();
  for (const MoeAxis& one : kMoeAxes) {
    const auto& axes = config.space->axes;
    if (std::ranges::find(axes, one.axis, &Axis::name) != axes.end()) {
      row[std::string(one.key)] = config[one.axis];
    } else if (one.required) {
      fail(Errc::invalid_argument, "provider {}: no axis {}; a table of experts needs it",
           config.space->provider, one.axis);
    }
  }
  return row;
}

/// What engines call the element type of the weights; empty for the usual 16 bits.
std::string dtype_word(const Problem& p) {
  switch (signature_of(p).dtype_b) {
    case DType::bf16:
    case DType::fp16:
      return {};
    case DType::fp8:
      return ",dtype=fp8_w8a8";
    case DType::int8:
      return ",dtype=int8_w8a8";
    default:
      fail(Errc::unsupported, "{}: engines have tables for bf16, fp16, fp8 and int8", print(p));
  }
}

}  // namespace

MoeTable moe_table(std::span<const ShapeChoice> choices, const MoeNaming& naming) {
  if (naming.top_k < 1)
    fail(Errc::invalid_argument, "top_k={}: how many experts has a token? at least 1", naming.top_k);
  if (naming.device_name.empty())
    fail(Errc::invalid_argument, "which device name? engines look for the one that their library reports");
  check_text("--device-name", naming.device_name);
  if (naming.device_name.find('/') != std::string::npos)
    fail(Errc::invalid_argument, "--device-name '{}': it becomes a part of a file's name, without '/'",
         naming.device_name);
  if (naming.block_shape.find_first_not_of("0123456789, ") != std::string::npos)
    fail(Errc::invalid_argument, "--block-shape '{}': two numbers, such as 128,128", naming.block_shape);
  if (choices.empty()) fail(Errc::invalid_argument, "a table of experts needs a problem");
  std::map<std::int64_t, Json> rows;
  const auto layer_of = [](const Problem& p) {
    if (p.op() != Op::grouped_gemm)
      fail(Errc::invalid_argument, "{}: a table of experts is for grouped GEMMs", print(p));
    return std::array{p["groups"], p["n"], p["k"], p["dtype_b"]};
  };
  const Problem& first = choices.front().problem;
  for (const ShapeChoice& choice : choices) {
    const Problem& p = choice.problem;
    if (layer_of(p) != layer_of(first))
      fail(Errc::invalid_argument, "a table is of one layer: {} has other experts, sizes or types than {}",
           print(p), print(first));
    const std::int64_t m = p["m_sum"], tokens = m / naming.top_k;
    if (m % naming.top_k != 0)
      fail(Errc::invalid_argument, "{}: {} rows are no multiple of top_k={}", print(p), m, naming.top_k);
    if (!rows.emplace(tokens, row_of(choice.choice.config)).second)
      fail(Errc::invalid_argument, "{} tokens are in the table already; measure one routing of them", tokens);
  }
  if (first["n"] % 2 != 0)
    fail(Errc::invalid_argument, "{}: n is twice the intermediate size, and not odd", print(first));
  Json table = Json::object();
  for (auto& [tokens, row] : rows) table[std::to_string(tokens)] = std::move(row);
  std::string device = naming.device_name;
  std::ranges::replace(device, ' ', '_');
  const std::string blocks = naming.block_shape.empty() ? "" : ",block_shape=[" + naming.block_shape + "]";
  return {fmt::format("E={},N={},device_name={}{}{}.json", first["groups"], first["n"] / 2, device,
                      dtype_word(first), blocks),
          table.dump(4) + "\n"};
}

}  // namespace kscout
