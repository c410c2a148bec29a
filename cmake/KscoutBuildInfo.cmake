# kscout_build_info(TARGET): core/build_info.h's functions for TARGET. Call it in the directory that creates TARGET.
# Git is asked at every build; only when its answer changed is one small file compiled again.
function(kscout_build_info target)
  string(TOUPPER "${CMAKE_BUILD_TYPE}" config)
  set(KSCOUT_FLAGS "${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${config}}")
  if(KSCOUT_SANITIZE)
    string(APPEND KSCOUT_FLAGS " -fsanitize=${KSCOUT_SANITIZE}")
  endif()
  string(STRIP "${KSCOUT_FLAGS}" KSCOUT_FLAGS)
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/build_info)
  configure_file(${PROJECT_SOURCE_DIR}/src/core/build_info.cpp.in ${folder}/build_info.cpp @ONLY)
  add_custom_target(kscout_git_version BYPRODUCTS ${folder}/kscout_git_version.h
    COMMAND ${CMAKE_COMMAND} -DOUT=${folder}/kscout_git_version.h -DROOT=${PROJECT_SOURCE_DIR}
            -P ${PROJECT_SOURCE_DIR}/cmake/git_version.cmake
    COMMENT "Asking git for the version" VERBATIM)
  target_sources(${target} PRIVATE ${folder}/build_info.cpp)
  set_source_files_properties(${folder}/build_info.cpp PROPERTIES INCLUDE_DIRECTORIES ${folder}
                              OBJECT_DEPENDS ${folder}/kscout_git_version.h)
  add_dependencies(${target} kscout_git_version)
endfunction()
