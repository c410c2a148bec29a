# Installs BUILD to a folder of its own, moves it to TO and runs the programs there.
# Moving it proves that nothing installed points back into the build or the prefix.
include(${CMAKE_CURRENT_LIST_DIR}/step.cmake)
file(REMOVE_RECURSE ${TO} ${TO}.first)
step(${CMAKE_COMMAND} --install ${BUILD} --prefix ${TO}.first)
file(RENAME ${TO}.first ${TO})
step(${TO}/bin/kscout hardware)
if(LAB)  # starts its sibling
  step(${TO}/bin/kscout dataset --help)
endif()
