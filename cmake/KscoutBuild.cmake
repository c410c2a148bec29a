# How every target of the project is compiled.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})

find_program(KSCOUT_CCACHE ccache)
if(KSCOUT_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Neither the folder nor the language of messages separates the results of two clones.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1
      CCACHE_SLOPPINESS=locale ${KSCOUT_CCACHE})
endif()
# No object names the folder of the clone, so that a cached one fits every clone: __FILE__ and the debug information are relative.
add_compile_options(-ffile-prefix-map=${CMAKE_SOURCE_DIR}/=)

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
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wno-subobject-linkage>)  # kscout_unite: an included .cpp file counts as a header there
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

# Several sources go to one compiler call: most of a small source's time goes to headers. Local names must therefore differ
# within a group: the folders of one argument of kscout_stages, or all sources of a program. A group of more than
# KSCOUT_UNITY_BYTES becomes several calls. -DKSCOUT_UNITY_BYTES=100000000 compiles each group in one call and so shows every
# clash of names that a change of sizes could bring about.
option(KSCOUT_UNITY "Compile several sources in one go; OFF rebuilds less after an edit" ON)
set(KSCOUT_UNITY_BYTES 110000 CACHE STRING "Most bytes of sources in one compiler call")

# kscout_stages(TARGET "FOLDERS..." "FOLDERS..."): compiles the sources of these folders (not of folders below them), each
# argument a group. Sources whose names say an instruction set or an entry point (*_main.cpp) are left to the caller.
function(kscout_stages target)
  foreach(folders ${ARGN})
    separate_arguments(group UNIX_COMMAND "${folders}")
    set(sources)
    foreach(folder ${group})
      file(GLOB found CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*.cpp)
      list(APPEND sources ${found})
    endforeach()
    list(FILTER sources EXCLUDE REGEX "_(scalar|avx[^/]*|isa|main)\\.cpp$")
    list(GET group 0 name)
    target_sources(${target} PRIVATE ${sources})
    kscout_unite(${target} ${name} ${sources})
  endforeach()
endfunction()

# kscout_unite(TARGET GROUP SOURCES...): compiles these sources of TARGET as one group, in calls of about equal size. A source with
# options or definitions of its own, or with SKIP_UNITY_BUILD_INCLUSION, is compiled alone. CMake's own unity build is not used,
# because its files name the folder of the clone, and the compiler cache would know each clone's sources as new ones.
function(kscout_unite target name)
  if(NOT KSCOUT_UNITY)
    return()
  endif()
  set(united)
  set(all 0)
  foreach(source ${ARGN})
    set(alone)
    foreach(property SKIP_UNITY_BUILD_INCLUSION COMPILE_OPTIONS COMPILE_DEFINITIONS)
      get_source_file_property(value ${source} ${property})
      if(value)
        set(alone ON)
      endif()
    endforeach()
    if(NOT alone)
      get_target_property(sources ${target} SOURCES)
      list(REMOVE_ITEM sources ${source})
      set_property(TARGET ${target} PROPERTY SOURCES ${sources})
      cmake_path(ABSOLUTE_PATH source NORMALIZE)
      list(APPEND united ${source})
      file(SIZE ${source} size)
      math(EXPR all "${all} + ${size}")
    endif()
  endforeach()
  math(EXPR calls "(${all} + ${KSCOUT_UNITY_BYTES} - 1) / ${KSCOUT_UNITY_BYTES}")
  set(before 0)
  set(ids)
  foreach(source ${united})
    file(SIZE ${source} size)
    math(EXPR call "(${before} + ${size} / 2) * ${calls} / ${all}")
    math(EXPR before "${before} + ${size}")
    string(MAKE_C_IDENTIFIER "${name}_${call}" id)
    list(APPEND ids ${id})
    cmake_path(RELATIVE_PATH source BASE_DIRECTORY ${PROJECT_SOURCE_DIR})
    string(APPEND text_${id} "#include \"${source}\"\n")
  endforeach()
  list(REMOVE_DUPLICATES ids)
  foreach(id ${ids})
    set(file ${CMAKE_CURRENT_BINARY_DIR}/unity/${target}/${id}.cpp)
    file(CONFIGURE OUTPUT ${file} CONTENT "${text_${id}}" @ONLY)
    target_sources(${target} PRIVATE ${file})
  endforeach()
  target_compile_options(${target} PRIVATE "SHELL:-iquote ${PROJECT_SOURCE_DIR}")
endfunction()

# kscout_unite_target(TARGET): the same for all C++ sources of TARGET.
function(kscout_unite_target target)
  get_target_property(sources ${target} SOURCES)
  kscout_unite(${target} all ${sources})
endfunction()
