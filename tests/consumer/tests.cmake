# The installed package, and the programs outside that use it: a consumer of every interface, and the examples.
set(_package ${CMAKE_CURRENT_BINARY_DIR}/package)
add_test(NAME consumer.installs
  COMMAND ${CMAKE_COMMAND} -DBUILD=${CMAKE_BINARY_DIR} -DTO=${_package} -DLAB=${KSCOUT_LAB} -DC_COMPILER=${CMAKE_C_COMPILER}
          -DPRELOAD=$<TARGET_EXISTS:kscout_preload> -P ${CMAKE_CURRENT_LIST_DIR}/install.cmake)
set_tests_properties(consumer.installs PROPERTIES LABELS consumer TIMEOUT 300 FIXTURES_SETUP installed_package)
function(kscout_outside name source)
  add_test(NAME ${name}
    COMMAND ${CMAKE_COMMAND} -DSOURCE=${source} -DWORK=${CMAKE_CURRENT_BINARY_DIR}/${name} -DPACKAGE=${_package}
            -DC_COMPILER=${CMAKE_C_COMPILER} -DCXX_COMPILER=${CMAKE_CXX_COMPILER}
            -P ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/run.cmake)
  set_tests_properties(${name} PROPERTIES LABELS consumer TIMEOUT 300 FIXTURES_REQUIRED installed_package)
endfunction()
kscout_outside(consumer.builds_and_runs ${CMAKE_CURRENT_LIST_DIR})
kscout_outside(examples.cpp ${PROJECT_SOURCE_DIR}/examples/cpp)
kscout_outside(examples.c ${PROJECT_SOURCE_DIR}/examples/c)
