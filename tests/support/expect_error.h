#pragma once
/// \file
/// Checks that a call throws the documented error.
///
///     expect_error(Errc::invalid_argument, "did you mean 'rcr'", [] { parse<Layout>("rrc"); });
#include <functional>
#include <initializer_list>
#include <string_view>

#include <gtest/gtest.h>

#include <kscout/error.h>

namespace kscout::test {

/// The error has this code, and its message contains each part.
inline void expect_error(Errc code, std::initializer_list<std::string_view> parts,
                         const std::function<void()>& call) {
  try {
    call();
    ADD_FAILURE() << "no error with '" << *parts.begin() << "'";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    for (const auto part : parts) {
      EXPECT_NE(std::string_view(error.what()).find(part), std::string_view::npos) << error.what();
    }
  }
}

inline void expect_error(Errc code, std::string_view part, const std::function<void()>& call) {
  expect_error(code, {part}, call);
}

}  // namespace kscout::test
