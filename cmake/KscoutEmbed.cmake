# kscout_embed(TARGET SYMBOL [ROOT folder] FILES...): puts data files into TARGET as bytes; their names are relative to ROOT (default:
# the project's folder).
# Call it in the directory that creates TARGET. C++ reads them through core/files.h: embedded("families/native_gemm.toml").
function(kscout_embed target symbol)
  cmake_parse_arguments(arg "" "ROOT" "" ${ARGN})
  if(NOT arg_ROOT)
    set(arg_ROOT ${PROJECT_SOURCE_DIR})
  endif()
  set(out ${CMAKE_CURRENT_BINARY_DIR}/${symbol}.cpp)
  set(paths)
  foreach(file ${arg_UNPARSED_ARGUMENTS})
    cmake_path(ABSOLUTE_PATH file BASE_DIRECTORY ${PROJECT_SOURCE_DIR} NORMALIZE)
    list(APPEND paths ${file})
  endforeach()
  add_custom_command(
    OUTPUT ${out}
    COMMAND ${CMAKE_COMMAND} -DOUT=${out} -DSYMBOL=${symbol} -DROOT=${arg_ROOT} "-DFILES=${paths}"
            -P ${PROJECT_SOURCE_DIR}/cmake/embed_files.cmake
    DEPENDS ${paths} ${PROJECT_SOURCE_DIR}/cmake/embed_files.cmake
    COMMENT "Embedding ${symbol}" VERBATIM)
  target_sources(${target} PRIVATE ${out})
endfunction()
