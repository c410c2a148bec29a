# Writes man pages and completion scripts into the folder OUT by asking the program KSCOUT, whose options they describe.
execute_process(COMMAND ${KSCOUT} --help OUTPUT_VARIABLE help COMMAND_ERROR_IS_FATAL ANY)
string(REGEX REPLACE ".*\nSubcommands:\n" "" help "${help}")
string(REGEX MATCHALL "(^|\n)  [a-z]+" verbs "${help}")

function(write_output file)  # write_output(FILE ARGUMENT...): nothing where the verb's program was not built
  execute_process(COMMAND ${KSCOUT} ${ARGN} OUTPUT_VARIABLE text RESULT_VARIABLE code ERROR_QUIET)
  if(code EQUAL 0)
    file(WRITE ${OUT}/${file} "${text}")
  endif()
endfunction()

file(REMOVE_RECURSE ${OUT})
write_output(man/man1/kscout.1 help --man)
foreach(verb ${verbs})
  string(STRIP "${verb}" verb)
  write_output(man/man1/kscout-${verb}.1 help --man ${verb})
endforeach()
write_output(share/bash-completion/completions/kscout completion bash)
write_output(share/zsh/site-functions/_kscout completion zsh)
write_output(share/fish/vendor_completions.d/kscout.fish completion fish)
