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

# Most code runs once per command, and half as long to compile. The path of a choice and of a launch is compiled with -O2, code for
# one instruction set with -O3 (src/CMakeLists.txt).
set(CMAKE_CXX_FLAGS_RELEASE "-O1 -DNDEBUG")
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC may keep more memory before it collects garbage: a tenth of its time.
  add_compile_options(-fno-semantic-interposition --param=ggc-min-expand=300 --param=ggc-min-heapsize=600000)
endif()

# Doubles give the same bits on every machine: the compiler may not fuse a*b+c on its own.
# Kernels that want FMA say so with intrinsics.
add_compile_options(-ffp-contract=off -fno-math-errno)
add_compile_options(-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_compile_options(-Wno-subobject-linkage)  # kscout_unite: an included .cpp file counts as a header there
  add_compile_options(-Wno-restrict)  # false alarms on std::string in GCC 12 (its bug 105651)
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
    message(FATAL_ERROR "KSCOUT_FUZZ needs clang's libFuzzer: configure with --preset asan")
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

if(NOT KSCOUT_SANITIZE)
  add_compile_definitions(FMT_CONSTEVAL=)  # format strings are checked at compile time in the sanitizers' builds alone: it takes long
endif()

# kscout_stages(TARGET FOLDERS...): the sources of these folders (not of folders below them), several to a compiler call: most
# of a small source's time goes to headers. Sources whose names say an instruction set or an entry point (*_main.cpp) are left
# to the caller.
option(KSCOUT_UNITY "Compile several sources in one go; OFF rebuilds less after an edit" ON)
set(KSCOUT_UNITY_BYTES 110000)  # of sources in one compiler call: enough to share headers, few enough for all processors
function(kscout_stages target)
  foreach(folder ${ARGN})
    file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*.cpp)
    list(FILTER sources EXCLUDE REGEX "_(scalar|avx[^/]*|main)\\.cpp$")
    list(APPEND all ${sources})
  endforeach()
  target_sources(${target} PRIVATE ${all})
  kscout_unite(${target} part ${all})
endfunction()

# kscout_unite(TARGET NAME SOURCES...): compiles these sources of TARGET together, in calls of about equal size.
function(kscout_unite target name)
  set(most ${KSCOUT_UNITY_BYTES})
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${KSCOUT_UNITY} UNITY_BUILD_MODE GROUP)
  set(bytes 0)
  set(group 0)
  foreach(source ${ARGN})
    cmake_path(ABSOLUTE_PATH source NORMALIZE)
    file(SIZE ${source} size)
    math(EXPR bytes "${bytes} + ${size}")
    if(bytes GREATER most)
      math(EXPR group "${group} + 1")
      set(bytes ${size})
    endif()
    string(MAKE_C_IDENTIFIER "${name}_${group}" id)
    set_property(SOURCE ${source} PROPERTY UNITY_GROUP ${id})
  endforeach()
endfunction()

# kscout_unite_target(TARGET): the same for all C++ sources of TARGET.
function(kscout_unite_target target)
  get_target_property(sources ${target} SOURCES)
  kscout_unite(${target} part ${sources})
endfunction()
