# Runs PROGRAM on 1, 2, 3 and 4 ranks: each number of ranks saves a run, and every other number resumes it. MPIEXEC and
# NUMPROC start the ranks; runs are saved in DIRECTORY.

function(start ranks what directory)
  execute_process(COMMAND ${MPIEXEC} ${NUMPROC} ${ranks} ${PROGRAM} ${what} ${directory} RESULT_VARIABLE result)
  if(NOT result STREQUAL "0")
    message(FATAL_ERROR "${what} on ${ranks} ranks failed in ${directory}: ${result}")
  endif()
endfunction()

file(REMOVE_RECURSE ${DIRECTORY})
foreach(saved 1 2 3 4)
  file(MAKE_DIRECTORY ${DIRECTORY}/${saved})
  start(${saved} save ${DIRECTORY}/${saved})
  foreach(resumed 1 2 3 4)
    if(NOT resumed EQUAL saved)
      start(${resumed} resume ${DIRECTORY}/${saved})
    endif()
  endforeach()
endforeach()
