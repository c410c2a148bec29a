#pragma once
/// \file
/// The questions of a forest: each once, numbered, and who can answer it when.
#include <cstdint>
#include <vector>

#include "forest/sliced_plan.h"

namespace kscout {

/// Whose answers to a question differ, and when they are known.
enum class Answers : std::uint8_t {
  all_left,
  all_right,  // known now
  fixed,      // known now, by row
  by_call,    // one answer for all rows
  by_row,     // of the call, by row
};

struct SlicedQuestion {
  std::uint32_t feature;
  std::uint8_t decision;
  double threshold;  // or the number of the category set
};

struct SlicedQuestions {
  std::vector<SlicedQuestion> questions;   ///< sorted by feature, decision and threshold
  std::vector<std::uint32_t> question_of;  ///< by node of the forest
  std::vector<Answers> answers;            ///< by question
};

/// Fills the plan's category sets, fixed_vector, fixed_bits and fixed_vectors. Throws invalid_argument when
/// `rows` does not fit the forest.
SlicedQuestions number_sliced_questions(const Forest& forest, const SlicedRows& rows, SlicedPlan& plan);

}  // namespace kscout
