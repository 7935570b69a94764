# OBJECT: an object file with the text CONSTRAIN_COMPILED_FOR_<flags>. HEADER: written, defines that macro.
file(STRINGS ${OBJECT} found REGEX "CONSTRAIN_COMPILED_FOR_[a-z0-9_]+")
string(REGEX MATCH "CONSTRAIN_COMPILED_FOR_[a-z0-9_]+" macro "${found}")
if(NOT macro)
  message(FATAL_ERROR "${OBJECT} does not say for which flags it was compiled")
endif()
file(WRITE ${HEADER} "#pragma once\n#define ${macro} 1\n")
