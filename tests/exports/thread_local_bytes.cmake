# Fails when FILE has more than MOST bytes of thread-local storage.
execute_process(COMMAND ${READELF} --program-headers --wide ${FILE} OUTPUT_VARIABLE headers COMMAND_ERROR_IS_FATAL ANY)
# Type, offset, virtual address, physical address, size in the file, size in memory.
if(headers MATCHES "\n +TLS +0x[0-9a-f]+ +0x[0-9a-f]+ +0x[0-9a-f]+ +0x[0-9a-f]+ +(0x[0-9a-f]+)")
  math(EXPR bytes "${CMAKE_MATCH_1}")
  if(bytes GREATER MOST)
    message(FATAL_ERROR "${FILE} has ${bytes} bytes of thread-local storage, at most ${MOST} may be")
  endif()
endif()
