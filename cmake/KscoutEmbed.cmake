# kscout_embed(TARGET SYMBOL FILES...): puts data files into TARGET as bytes.
# Call it in the directory that creates TARGET. C++ reads them through core/files.h: embedded("families/native_gemm.toml").
function(kscout_embed target symbol)
  set(out ${CMAKE_CURRENT_BINARY_DIR}/${symbol}.cpp)
  set(paths)
  foreach(file ${ARGN})
    cmake_path(ABSOLUTE_PATH file BASE_DIRECTORY ${PROJECT_SOURCE_DIR} NORMALIZE)
    list(APPEND paths ${file})
  endforeach()
  add_custom_command(
    OUTPUT ${out}
    COMMAND ${CMAKE_COMMAND} -DOUT=${out} -DSYMBOL=${symbol} -DROOT=${PROJECT_SOURCE_DIR} "-DFILES=${paths}"
            -P ${PROJECT_SOURCE_DIR}/cmake/embed_files.cmake
    DEPENDS ${paths} ${PROJECT_SOURCE_DIR}/cmake/embed_files.cmake
    COMMENT "Embedding ${symbol}" VERBATIM)
  target_sources(${target} PRIVATE ${out})
endfunction()
