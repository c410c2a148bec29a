# Builds the project SOURCE in WORK against the package installed in PACKAGE, and its target `check`, which runs it.
include(${CMAKE_CURRENT_LIST_DIR}/step.cmake)
file(REMOVE_RECURSE ${WORK})
step(${CMAKE_COMMAND} -S ${SOURCE} -B ${WORK} -G Ninja -DCMAKE_C_COMPILER=${C_COMPILER} -DCMAKE_CXX_COMPILER=${CXX_COMPILER}
     -DCMAKE_PREFIX_PATH=${PACKAGE})
step(${CMAKE_COMMAND} --build ${WORK} --target check)
file(REMOVE_RECURSE ${WORK})
