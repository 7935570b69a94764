# Finds the string CONSTRAIN_COMPILED_FOR_<flags> in the object file OBJECT, and writes a header HEADER that defines a
# macro with this name.
file(STRINGS ${OBJECT} found REGEX "CONSTRAIN_COMPILED_FOR_[a-z0-9_]+")
string(REGEX MATCH "CONSTRAIN_COMPILED_FOR_[a-z0-9_]+" macro "${found}")
if(NOT macro)
  message(FATAL_ERROR "${OBJECT} does not contain the flags it was compiled with")
endif()
file(WRITE ${HEADER} "#pragma once\n#define ${macro} 1\n")
