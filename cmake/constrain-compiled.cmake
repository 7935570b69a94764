# The companion library: the functions that depend on no trainer (files, JSON, saved runs, logs) and most CPU kernels of
# the models (constrain/train/compiled_kernels.hpp), compiled once instead of in every translation unit. Results are the
# same with and without it, if the program has the same options for optimization.
#
# constrain_add_compiled(name [targets...]) adds a static library `name`. It is compiled with CMAKE_CXX_FLAGS and the
# flags of `targets`, and links to them. A translation unit uses the library only if it has the same flags for the
# instruction set, OpenMP, the GEMM provider, MPI, NCCL, NVTX, fast math and libstdc++'s debug mode (CONSTRAIN_FLAGS in
# constrain/base/variant.hpp). Otherwise it compiles everything from the headers.

function(constrain_add_compiled name)
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/${name})
  foreach(part functions kernels)
    string(TOUPPER ${part} upper)
    file(CONFIGURE OUTPUT ${folder}/${part}.cpp CONTENT "#define CONSTRAIN_COMPANION_${upper}
#include <constrain/constrain.hpp>\n")
  endforeach()
  file(CONFIGURE OUTPUT ${folder}/flags.cpp CONTENT "#include <constrain/base/variant.hpp>
extern char const flags[];
char const flags[] = \"CONSTRAIN_COMPILED_FOR_\" CONSTRAIN_TEXT(CONSTRAIN_FLAGS);\n")

  # Only the compiler knows the value of CONSTRAIN_FLAGS. The object file below contains it as a string, which
  # constrain-flags.cmake reads.
  add_library(${name}_flags OBJECT EXCLUDE_FROM_ALL ${folder}/flags.cpp)
  target_link_libraries(${name}_flags PRIVATE constrain::constrain ${ARGN})
  target_compile_options(${name}_flags PRIVATE -fno-lto) # with LTO the string would be in bitcode
  set(include ${folder}/include/$<CONFIG>)
  set(header ${include}/${name}.hpp)
  add_custom_command(OUTPUT ${header}
                     COMMAND ${CMAKE_COMMAND} -D OBJECT=$<TARGET_OBJECTS:${name}_flags> -D HEADER=${header}
                             -P ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/constrain-flags.cmake
                     DEPENDS $<TARGET_OBJECTS:${name}_flags> ${name}_flags VERBATIM)

  add_library(${name} STATIC EXCLUDE_FROM_ALL ${folder}/functions.cpp ${folder}/kernels.cpp ${header})
  # Shared libraries may link to it. Its two sources include the same headers as different parts of the library.
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ON UNITY_BUILD OFF)
  target_compile_definitions(${name} PUBLIC $<$<COMPILE_LANGUAGE:CXX>:CONSTRAIN_COMPILED="${name}.hpp">)
  target_include_directories(${name} PUBLIC ${include})
  target_link_libraries(${name} PUBLIC constrain::constrain ${ARGN})
endfunction()
