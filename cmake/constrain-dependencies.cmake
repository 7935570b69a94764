# Finds OpenMP and a provider of matrix products, and links them to a target. Used by the build and by the installed
# package alike. What is not found is left out: the built-in GEMM is always there.

# A folder that compilers search anyway is not named again: nvcc would take it before its own headers.
function(constrain_include_system target folder)
  if(NOT folder IN_LIST CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES)
    target_include_directories(${target} SYSTEM INTERFACE ${folder})
  endif()
endfunction()

function(constrain_link_dependencies target)
  if(NOT DEFINED CONSTRAIN_OPENMP OR CONSTRAIN_OPENMP)
    find_package(OpenMP QUIET COMPONENTS CXX)
    if(OpenMP_CXX_FOUND)
      target_link_libraries(${target} INTERFACE OpenMP::OpenMP_CXX)
    endif()
  endif()

  set(wanted auto)
  if(DEFINED CONSTRAIN_GEMM)
    set(wanted ${CONSTRAIN_GEMM})
  endif()

  if(wanted STREQUAL "auto" OR wanted STREQUAL "onednn")
    find_path(CONSTRAIN_ONEDNN_INCLUDE NAMES dnnl.h)
    find_library(CONSTRAIN_ONEDNN_LIBRARY NAMES dnnl)
    if(CONSTRAIN_ONEDNN_INCLUDE AND CONSTRAIN_ONEDNN_LIBRARY)
      constrain_include_system(${target} ${CONSTRAIN_ONEDNN_INCLUDE})
      target_link_libraries(${target} INTERFACE ${CONSTRAIN_ONEDNN_LIBRARY})
      target_compile_definitions(${target} INTERFACE CONSTRAIN_WITH_ONEDNN)
      return()
    elseif(wanted STREQUAL "onednn")
      message(FATAL_ERROR "CONSTRAIN_GEMM is onednn and oneDNN is not found; install libdnnl-dev or use auto")
    endif()
  endif()

  if(wanted STREQUAL "auto" OR wanted STREQUAL "cblas")
    find_path(CONSTRAIN_CBLAS_INCLUDE NAMES cblas.h PATH_SUFFIXES openblas-openmp openblas)
    find_library(CONSTRAIN_CBLAS_LIBRARY NAMES openblas cblas PATH_SUFFIXES openblas-openmp)
    if(CONSTRAIN_CBLAS_INCLUDE AND CONSTRAIN_CBLAS_LIBRARY)
      constrain_include_system(${target} ${CONSTRAIN_CBLAS_INCLUDE})
      target_link_libraries(${target} INTERFACE ${CONSTRAIN_CBLAS_LIBRARY})
      target_compile_definitions(${target} INTERFACE CONSTRAIN_WITH_CBLAS)
    elseif(wanted STREQUAL "cblas")
      message(FATAL_ERROR "CONSTRAIN_GEMM is cblas and no CBLAS is found; install libopenblas-openmp-dev or use auto")
    endif()
  endif()
endfunction()

# Where MPI is not found the target stays as it is, and a parallel policy is refused with a sentence.
function(constrain_link_mpi target)
  find_package(MPI QUIET COMPONENTS CXX)
  if(MPI_CXX_FOUND)
    target_link_libraries(${target} INTERFACE MPI::MPI_CXX)
    target_compile_definitions(${target} INTERFACE CONSTRAIN_WITH_MPI)
  endif()
endfunction()

# What a .cu file needs beside nvcc. Where the Toolkit is not found the target stays as it is: a .cpp file that asks for
# device::cuda is refused with a sentence.
function(constrain_link_cuda target)
  find_package(CUDAToolkit 12 QUIET)
  if(CUDAToolkit_FOUND)
    target_link_libraries(${target} INTERFACE CUDA::cudart_static CUDA::cublasLt)
    # Some versions of CMake do not know how nvcc is told.
    target_compile_options(${target} INTERFACE $<$<COMPILE_LANGUAGE:CUDA>:-std=c++20>)
    # OpenMP's own target speaks to the C++ compiler alone; nvcc's host compiler need not be the same one, and knows no
    # -fopenmp=libomp where it is g++.
    if(TARGET OpenMP::OpenMP_CXX)
      string(REPLACE "=libomp" "" host_flags "${OpenMP_CXX_FLAGS}")
      target_compile_options(${target} INTERFACE "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=${host_flags}>")
    endif()
  endif()
endfunction()
