# The companion library: what of the headers depends on no trainer (files, JSON, saved runs, records), compiled once and
# not in every translation unit. The code and its behaviour are the same.
#
# constrain_add_compiled(name [targets...]): a static library of that name. Programs that link to it must be compiled
# with its flags (instruction set, OpenMP, providers, -ffast-math): those of CMAKE_CXX_FLAGS, and of `targets`, to which
# it links. A program with others is compiled header-only, as without it.

set(CONSTRAIN_COMPILED_FOLDER ${CMAKE_CURRENT_LIST_DIR})

function(constrain_add_compiled name)
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/${name})
  file(CONFIGURE OUTPUT ${folder}/constrain.cpp CONTENT "#include <constrain/constrain.hpp>\n")
  file(CONFIGURE OUTPUT ${folder}/flags.cpp CONTENT "#include <constrain/base/variant.hpp>
extern char const flags[];
char const flags[] = \"CONSTRAIN_COMPILED_FOR_\" CONSTRAIN_TEXT(CONSTRAIN_FLAGS);\n")

  # The compiler says which flags those are: it compiles a text that names them.
  add_library(${name}_flags OBJECT EXCLUDE_FROM_ALL ${folder}/flags.cpp)
  target_link_libraries(${name}_flags PRIVATE constrain::constrain ${ARGN})
  target_compile_options(${name}_flags PRIVATE -fno-lto) # the text stands in an object file, not in bitcode
  set(include ${folder}/include/$<CONFIG>)
  set(header ${include}/${name}.hpp)
  add_custom_command(OUTPUT ${header}
                     COMMAND ${CMAKE_COMMAND} -D OBJECT=$<TARGET_OBJECTS:${name}_flags> -D HEADER=${header}
                             -P ${CONSTRAIN_COMPILED_FOLDER}/constrain-flags.cmake
                     DEPENDS $<TARGET_OBJECTS:${name}_flags> ${name}_flags VERBATIM)

  add_library(${name} STATIC EXCLUDE_FROM_ALL ${folder}/constrain.cpp ${header})
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ON) # a shared library may link to it
  target_compile_definitions(${name} PRIVATE CONSTRAIN_COMPANION
                             PUBLIC $<$<COMPILE_LANGUAGE:CXX>:CONSTRAIN_COMPILED="${name}.hpp">)
  target_include_directories(${name} PUBLIC ${include})
  target_link_libraries(${name} PUBLIC constrain::constrain ${ARGN})
endfunction()
