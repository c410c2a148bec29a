#pragma once
/// \file
/// Sets the element types of products of matrices by one word, `dtype`.
///
///     set_given_fields<GemmProblem>(problem, given, {product_types<GemmProblem>()});
#include <kscout/problem.h>

#include "op/given_fields.h"

namespace kscout {

/// The general field `dtype`: the types that a GEMM of this element type has.
template <Record P>
GeneralField<P> product_types() {
  return {"dtype", {"dtype_a", "dtype_b", "dtype_c", "dtype_acc"}, [](P& problem, std::string_view value) {
            const GemmProblem typed = make_gemm(0, 0, 0, parse<DType>(value));
            problem.dtype_a = typed.dtype_a;
            problem.dtype_b = typed.dtype_b;
            problem.dtype_c = typed.dtype_c;
            problem.dtype_acc = typed.dtype_acc;
          }};
}

}  // namespace kscout
