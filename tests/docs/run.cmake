# Runs a program of a page in a directory with corpus.txt, and compares its output with the file EXPECTED, if given.

file(REMOVE_RECURSE ${DIRECTORY})
file(MAKE_DIRECTORY ${DIRECTORY})
configure_file(${CORPUS} ${DIRECTORY}/corpus.txt COPYONLY)
execute_process(COMMAND ${PROGRAM} WORKING_DIRECTORY ${DIRECTORY} OUTPUT_VARIABLE printed ERROR_VARIABLE complaints
                RESULT_VARIABLE result)
message("${printed}${complaints}")
if(NOT result STREQUAL "0")
  message(FATAL_ERROR "the program failed: ${result}")
endif()
if(EXPECTED)
  file(READ ${EXPECTED} expected)
  if(NOT "${printed}" STREQUAL "${expected}")
    message(FATAL_ERROR "the output above differs from the output in the page. ${HINT}")
  endif()
endif()
