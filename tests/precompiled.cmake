# Programs that include the whole library read it from a precompiled header, which takes a second less than parsing it.

# constrain_add_precompiled(name target...): `name` has the precompiled header of programs that link to these targets.
function(constrain_add_precompiled name)
  set(source ${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp)
  file(CONFIGURE OUTPUT ${source} CONTENT "")
  add_library(${name} OBJECT ${source})
  target_link_libraries(${name} PRIVATE ${ARGN} constrain_warnings)
  target_compile_options(${name} PRIVATE -Og)
  target_precompile_headers(${name} PRIVATE <constrain/constrain.hpp>)
endfunction()

# includes_whole_library(source result): "yes" if the source includes the whole library, itself or in a header of the
# tests; "changed" if a macro of the library is defined before, which the precompiled header would not see; otherwise "no".
function(includes_whole_library source result)
  file(STRINGS ${source} lines REGEX "^#(include|define)")
  get_filename_component(folder ${source} DIRECTORY)
  set(found no)
  foreach(line IN LISTS lines)
    if(line MATCHES "^#define CONSTRAIN")
      set(found changed)
    elseif(line STREQUAL "#include <constrain/constrain.hpp>")
      set(found yes)
    elseif(line MATCHES "^#include \"(.+)\"")
      foreach(header ${folder}/${CMAKE_MATCH_1} ${PROJECT_SOURCE_DIR}/tests/${CMAKE_MATCH_1})
        if(EXISTS ${header})
          includes_whole_library(${header} found)
          break()
        endif()
      endforeach()
    endif()
    if(NOT found STREQUAL no)
      break()
    endif()
  endforeach()
  set(${result} ${found} PARENT_SCOPE)
endfunction()

# constrain_use_precompiled(target source precompiled): the program `target` uses the header of `precompiled`, if its
# source includes the whole library and has no compile options. Sources are read when CMake configures.
function(constrain_use_precompiled target source precompiled)
  get_filename_component(path ${source} ABSOLUTE)
  get_source_file_property(options ${source} COMPILE_OPTIONS)
  includes_whole_library(${path} whole)
  if(whole STREQUAL yes AND NOT options)
    target_precompile_headers(${target} REUSE_FROM ${precompiled})
  endif()
endfunction()
