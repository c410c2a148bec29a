# Writes OUT, a header with what git calls the tree in ROOT, if that changed. Without git or history: what a bundle's
# git_version.txt says, else "unknown".
# safe.directory: a container's root may build a tree that somebody else owns.
execute_process(COMMAND git -c safe.directory=* -C ${ROOT} describe --tags --always --dirty
                OUTPUT_VARIABLE version ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed)
if(failed AND EXISTS ${ROOT}/git_version.txt)
  file(STRINGS ${ROOT}/git_version.txt version LIMIT_COUNT 1)
  set(failed 0)
endif()
if(failed OR NOT version MATCHES "^[-A-Za-z0-9._/+]+$")
  set(version "unknown")
endif()
file(CONFIGURE OUTPUT ${OUT} CONTENT "#define KSCOUT_GIT_VERSION \"${version}\"\n" @ONLY)
