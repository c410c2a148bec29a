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
# Its manual: a man page for every verb, and completion.
foreach(file man/man1/kscout.1 man/man1/kscout-run.1 bash-completion/completions/kscout zsh/site-functions/_kscout
        fish/vendor_completions.d/kscout.fish)
  file(SIZE ${TO}/share/${file} _size)  # an error where it is missing
  if(_size EQUAL 0)
    message(FATAL_ERROR "${file} is empty")
  endif()
endforeach()
if(LAB)
  file(STRINGS ${TO}/share/man/man1/kscout-train.1 _options REGEX "warm")
  if(NOT _options)
    message(FATAL_ERROR "kscout-train.1 has no options")
  endif()
endif()
