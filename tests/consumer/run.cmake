# Installs BUILD to a folder of its own, moves it, builds the consumer against it and runs it.
# Moving it proves that nothing installed points back into the build or the prefix.
function(step)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE failed OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(failed)
    message(FATAL_ERROR "${ARGN}\n${output}")
  endif()
endfunction()

file(REMOVE_RECURSE ${WORK})
step(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/first)
file(RENAME ${WORK}/first ${WORK}/moved)
step(${CMAKE_COMMAND} -S ${SOURCE} -B ${WORK}/build -G Ninja -DCMAKE_CXX_COMPILER=${COMPILER}
     -DCMAKE_PREFIX_PATH=${WORK}/moved)
step(${CMAKE_COMMAND} --build ${WORK}/build)
step(${WORK}/build/consumer)
step(${WORK}/moved/bin/kscout hardware)
if(LAB)  # starts its sibling
  step(${WORK}/moved/bin/kscout dataset --help)
endif()
file(REMOVE_RECURSE ${WORK})
