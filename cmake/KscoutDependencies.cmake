# Third-party packages. Debian packages are found by CMake; Arrow and LightGBM come from Python wheels.
find_package(fmt 9 REQUIRED)
find_package(nlohmann_json 3.11 REQUIRED)
find_package(CLI11 2.1 REQUIRED)
find_package(Threads REQUIRED)
find_package(ZLIB REQUIRED)

find_package(hwy 1.0 REQUIRED)
find_package(SQLite3 REQUIRED)
# Archives, where there are any. Only what has to run on other machines, or inside of other programs, takes them.
find_library(KSCOUT_SQLITE_ARCHIVE libsqlite3.a)
find_library(KSCOUT_ZLIB_ARCHIVE libz.a)
mark_as_advanced(KSCOUT_SQLITE_ARCHIVE KSCOUT_ZLIB_ARCHIVE)
set(KSCOUT_SQLITE SQLite::SQLite3)
set(KSCOUT_ZLIB ZLIB::ZLIB)
if(KSCOUT_PORTABLE)
  if(NOT KSCOUT_SQLITE_ARCHIVE OR NOT KSCOUT_ZLIB_ARCHIVE)
    message(FATAL_ERROR "KSCOUT_PORTABLE needs libsqlite3.a and libz.a (Debian: libsqlite3-dev, zlib1g-dev)")
  endif()
  set(KSCOUT_SQLITE ${KSCOUT_SQLITE_ARCHIVE} ${CMAKE_DL_LIBS} m)
  set(KSCOUT_ZLIB ${KSCOUT_ZLIB_ARCHIVE})
endif()

# toml++ is compiled in (core/tomlplusplus.cpp): Debian has it as a shared library of C++, whose exceptions would cross into
# an extension of Python that may have a libstdc++ of its own.
find_path(KSCOUT_TOML_INCLUDE toml++/toml.h REQUIRED)
add_library(kscout_toml INTERFACE)
target_include_directories(kscout_toml SYSTEM INTERFACE ${KSCOUT_TOML_INCLUDE})
target_compile_definitions(kscout_toml INTERFACE TOML_HEADER_ONLY=0)

if(KSCOUT_LAB)
  find_path(KSCOUT_RAPIDJSON_INCLUDE rapidjson/reader.h REQUIRED)  # headers only; logs are read with it
  # The wheels of .venv, or in the folder KSCOUT_WHEELS; for a Python package those of the Python that builds it.
  if(KSCOUT_WHEELS)
    set(_pyarrow ${KSCOUT_WHEELS}/pyarrow)
    set(_lightgbm ${KSCOUT_WHEELS}/lightgbm)
  elseif(KSCOUT_PYTHON)
    find_package(Python 3.10 REQUIRED COMPONENTS Interpreter Development.Module)
    foreach(_wheel pyarrow lightgbm)
      execute_process(COMMAND ${Python_EXECUTABLE} -c
        "import importlib.util as u; print(u.find_spec('${_wheel}').submodule_search_locations[0])"
        OUTPUT_VARIABLE _${_wheel} OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    endforeach()
  else()
    file(GLOB _pyarrow ${CMAKE_SOURCE_DIR}/.venv/lib/python3*/site-packages/pyarrow)
    file(GLOB _lightgbm ${CMAKE_SOURCE_DIR}/.venv/lib/python3*/site-packages/lightgbm)
  endif()
  set(KSCOUT_ARROW_FOLDER ${_pyarrow})
  set(KSCOUT_LIGHTGBM_FOLDER ${_lightgbm}/lib)
  find_path(KSCOUT_ARROW_INCLUDE arrow/api.h PATHS ${KSCOUT_ARROW_FOLDER}/include NO_DEFAULT_PATH)
  file(GLOB KSCOUT_ARROW_LIBRARY ${KSCOUT_ARROW_FOLDER}/libarrow.so.*)
  file(GLOB KSCOUT_PARQUET_LIBRARY ${KSCOUT_ARROW_FOLDER}/libparquet.so.*)
  file(GLOB KSCOUT_LIGHTGBM_LIBRARY ${KSCOUT_LIGHTGBM_FOLDER}/lib_lightgbm.so)
  if(NOT KSCOUT_ARROW_INCLUDE OR NOT KSCOUT_ARROW_LIBRARY OR NOT KSCOUT_PARQUET_LIBRARY OR NOT KSCOUT_LIGHTGBM_LIBRARY)
    message(FATAL_ERROR "KSCOUT_LAB needs the wheels pyarrow and lightgbm in .venv: run ./dev setup, or configure with -DKSCOUT_LAB=OFF")
  endif()
  # Plots of `kscout report`: a wheel that is read at build time only; a bundle has its bytes. Without it, the verb says what is
  # missing.
  if(KSCOUT_PYTHON)
    set(KSCOUT_PLOTS_PYTHON ${Python_EXECUTABLE})
  else()
    set(KSCOUT_PLOTS_PYTHON ${CMAKE_SOURCE_DIR}/.venv/bin/python)
  endif()
  set(KSCOUT_PLOTS_WHEEL)  # its version
  if(EXISTS ${KSCOUT_PLOTS_PYTHON} AND NOT KSCOUT_WHEELS)
    execute_process(COMMAND ${KSCOUT_PLOTS_PYTHON} -c "import importlib.metadata as m; print(m.version('vl-convert-python'))"
                    OUTPUT_VARIABLE KSCOUT_PLOTS_WHEEL OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  endif()
  set(KSCOUT_PLOTS_FILE ${KSCOUT_WHEELS}/plot_library.js.gz)  # of a bundle
  if(NOT KSCOUT_PLOTS_WHEEL AND NOT EXISTS ${KSCOUT_PLOTS_FILE})
    message(STATUS "kscout report is built without its plots: the wheel vl-convert-python is missing (./dev setup)")
  endif()
  add_library(kscout_arrow INTERFACE)
  target_include_directories(kscout_arrow SYSTEM INTERFACE ${KSCOUT_ARROW_INCLUDE})
  target_link_libraries(kscout_arrow INTERFACE ${KSCOUT_PARQUET_LIBRARY} ${KSCOUT_ARROW_LIBRARY})
  add_library(kscout_lightgbm INTERFACE)
  target_link_libraries(kscout_lightgbm INTERFACE ${KSCOUT_LIGHTGBM_LIBRARY})
endif()
