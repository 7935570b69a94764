# Runs a program of a page in a directory that has corpus.txt and compares what it prints with the file EXPECTED, where
# that is given.

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
    message(FATAL_ERROR "above stands what the program prints; the page says otherwise. ${HINT}")
  endif()
endif()
