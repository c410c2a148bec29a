# How every target of the project is compiled.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})

find_program(KSCOUT_CCACHE ccache)
if(KSCOUT_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${KSCOUT_CCACHE})
endif()

# Doubles give the same bits on every machine: the compiler may not fuse a*b+c on its own.
# Kernels that want FMA say so with intrinsics.
add_compile_options(-ffp-contract=off -fno-math-errno)
add_compile_options(-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_compile_options(-Wno-restrict)  # false alarms on std::string in GCC 12 (its bug 105651)
  if(KSCOUT_SANITIZE)
    add_compile_options(-Wno-maybe-uninitialized)  # GCC's manual: sanitizers make it raise false alarms
  endif()
endif()
if(KSCOUT_WERROR)
  add_compile_options(-Werror)
endif()
if(KSCOUT_SANITIZE)
  add_compile_options(-fsanitize=${KSCOUT_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${KSCOUT_SANITIZE})
endif()
if(KSCOUT_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "KSCOUT_FUZZ needs clang's libFuzzer: configure with --preset fuzz")
  endif()
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

# kscout_exports(TARGET PATTERNS...): TARGET, a shared object, shows the symbols that match and no others.
# Hidden visibility is not enough: what the standard library's headers and archives define stays visible, and the shared
# libraries that TARGET brings along take it from there. Where libstdc++ is linked statically that is all of it; mixed with
# the libstdc++.so that a process has already (import torch), it crashes.
function(kscout_exports target)
  list(JOIN ARGN "; " patterns)
  set(script ${CMAKE_CURRENT_BINARY_DIR}/${target}.exports)
  file(CONFIGURE OUTPUT ${script} CONTENT "{ global: ${patterns}; local: *; };\n" @ONLY)
  target_link_options(${target} PRIVATE LINKER:--version-script=${script})
  set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${script})
endfunction()
