#include <fmt/format.h>

#include "op/audit.h"

namespace kscout {

namespace {

/// An operand whose elements lie as in the problem: `row_major` or transposed.
std::string torch_matrix(std::int64_t batch, std::int64_t rows, std::int64_t columns, bool row_major) {
  const std::string items = batch > 1 ? fmt::format("{}, ", batch) : "";
  return row_major ? fmt::format("torch.randn({}{}, {}, **on)", items, rows, columns)
                   : fmt::format("torch.randn({}{}, {}, **on).mT", items, columns, rows);
}

}  // namespace

std::vector<RunProperty> gemm_run_properties() {
  std::vector<RunProperty> all = {
      {"ceil_div(ceil_div(p.k, c.tile_k), ceil_div(ceil_div(p.k, c.tile_k), max(c.split_k, 1))) != "
       "max(c.split_k, 1)",
       "a split-K slice has no tile of K"},
      {"ceil_div(floor(p.k / max(c.split_k, 1)), c.tile_k) * max(c.split_k, 1) * c.tile_k < p.k",
       "the split-K slices end before K"},
      {"c.split_k > 1", "K is split"},
      {"p.k > 4096", "K is above 4096"},
      {"p.batch > 1", "there is a batch"}};
  for (const int of : {2, 8, 16}) {
    for (const char* const size : {"k", "n", "m"})
      all.push_back({fmt::format("p.{} % {} != 0", size, of),
                     fmt::format("{} is no multiple of {}", static_cast<char>(size[0] + 'A' - 'a'), of)});
  }
  return all;
}

std::string pytorch_of(const GemmProblem& p) {
  if (p.epilogue != Epilogue::none || p.accumulate) return {};
  const bool a_rows = p.layout == Layout::rcr || p.layout == Layout::rrr;
  const bool b_rows = p.layout == Layout::rrr || p.layout == Layout::crr;
  return fmt::format(
      "a = {}\nb = {}\n"
      "a[..., -8:] *= 40; b[..., -8:, :] *= 40  # the last elements of K count\n"
      "c = (a @ b).double()\n"
      "right, scale = a.double() @ b.double(), a.double().abs() @ b.double().abs()\n",
      torch_matrix(p.batch, p.m, p.k, a_rows), torch_matrix(p.batch, p.k, p.n, b_rows));
}

}  // namespace kscout
