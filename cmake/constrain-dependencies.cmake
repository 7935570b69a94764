# Functions that find the optional dependencies and link them to a target. The build and the installed package use them.
# Targets are installed without these dependencies ($<BUILD_INTERFACE:...>), since the user's machine may lack them.

# Adds `folder` as a system include directory, unless it is one of the compiler's default directories: nvcc would search
# such a directory before its own headers.
function(constrain_include_system target folder)
  if(NOT folder IN_LIST CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES)
    target_include_directories(${target} SYSTEM INTERFACE $<BUILD_INTERFACE:${folder}>)
  endif()
endfunction()

# Links OpenMP, unless CONSTRAIN_OPENMP is off, and the GEMM provider that CONSTRAIN_GEMM selects: auto (the default),
# onednn, cblas or builtin. If auto finds no provider, the library uses its built-in GEMM.
function(constrain_link_dependencies target)
  if(NOT DEFINED CONSTRAIN_OPENMP OR CONSTRAIN_OPENMP)
    find_package(OpenMP QUIET COMPONENTS CXX)
    if(OpenMP_CXX_FOUND)
      target_link_libraries(${target} INTERFACE $<BUILD_INTERFACE:OpenMP::OpenMP_CXX>)
    endif()
  endif()

  set(wanted auto)
  if(DEFINED CONSTRAIN_GEMM)
    set(wanted ${CONSTRAIN_GEMM})
  endif()
  if(NOT wanted MATCHES "^(auto|onednn|cblas|builtin)$")
    message(FATAL_ERROR "CONSTRAIN_GEMM is ${wanted}; set it to auto, onednn, cblas or builtin")
  endif()

  if(wanted STREQUAL "auto" OR wanted STREQUAL "onednn")
    find_path(CONSTRAIN_ONEDNN_INCLUDE NAMES dnnl.h)
    find_library(CONSTRAIN_ONEDNN_LIBRARY NAMES dnnl)
    if(CONSTRAIN_ONEDNN_INCLUDE AND CONSTRAIN_ONEDNN_LIBRARY)
      constrain_include_system(${target} ${CONSTRAIN_ONEDNN_INCLUDE})
      target_link_libraries(${target} INTERFACE $<BUILD_INTERFACE:${CONSTRAIN_ONEDNN_LIBRARY}>)
      target_compile_definitions(${target} INTERFACE $<BUILD_INTERFACE:CONSTRAIN_WITH_ONEDNN>)
      return()
    elseif(wanted STREQUAL "onednn")
      message(FATAL_ERROR "CONSTRAIN_GEMM is onednn, but oneDNN is not found; install libdnnl-dev or use auto")
    endif()
  endif()

  if(wanted STREQUAL "auto" OR wanted STREQUAL "cblas")
    find_path(CONSTRAIN_CBLAS_INCLUDE NAMES cblas.h PATH_SUFFIXES openblas-openmp openblas)
    find_library(CONSTRAIN_CBLAS_LIBRARY NAMES openblas cblas PATH_SUFFIXES openblas-openmp)
    if(CONSTRAIN_CBLAS_INCLUDE AND CONSTRAIN_CBLAS_LIBRARY)
      constrain_include_system(${target} ${CONSTRAIN_CBLAS_INCLUDE})
      target_link_libraries(${target} INTERFACE $<BUILD_INTERFACE:${CONSTRAIN_CBLAS_LIBRARY}>)
      target_compile_definitions(${target} INTERFACE $<BUILD_INTERFACE:CONSTRAIN_WITH_CBLAS>)
    elseif(wanted STREQUAL "cblas")
      message(FATAL_ERROR "CONSTRAIN_GEMM is cblas, but no CBLAS is found; install libopenblas-openmp-dev or use auto")
    endif()
  endif()
endfunction()

# Links MPI. If MPI is not found, the target is unchanged, and a trainer with a parallel policy does not compile: the
# error says that MPI is missing.
function(constrain_link_mpi target)
  find_package(MPI QUIET COMPONENTS CXX)
  if(MPI_CXX_FOUND)
    target_link_libraries(${target} INTERFACE $<BUILD_INTERFACE:MPI::MPI_CXX>)
    target_compile_definitions(${target} INTERFACE $<BUILD_INTERFACE:CONSTRAIN_WITH_MPI>)
  endif()
endfunction()

# Links what .cu files need besides nvcc: the CUDA runtime and cuBLASLt. If the CUDA Toolkit is not found, the target is
# unchanged. A .cpp file that uses device::cuda does not compile in either case: the error says that nvcc must compile
# it.
function(constrain_link_cuda target)
  find_package(CUDAToolkit 12 QUIET)
  if(CUDAToolkit_FOUND)
    target_link_libraries(${target} INTERFACE $<BUILD_INTERFACE:CUDA::cudart_static> $<BUILD_INTERFACE:CUDA::cublasLt>)
    # Some versions of CMake do not know nvcc's flag for C++20.
    target_compile_options(${target} INTERFACE $<BUILD_INTERFACE:$<$<COMPILE_LANGUAGE:CUDA>:-std=c++20>>)
    # OpenMP::OpenMP_CXX has flags only for C++ files. In CUDA files, nvcc must pass these flags to its host compiler.
    # This may be g++, which does not know clang's -fopenmp=libomp.
    if(TARGET OpenMP::OpenMP_CXX)
      string(REPLACE "=libomp" "" host_flags "${OpenMP_CXX_FLAGS}")
      target_compile_options(${target} INTERFACE "$<BUILD_INTERFACE:$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=${host_flags}>>")
    endif()
  endif()
endfunction()

# Links NCCL, from the system or from the CUDA Toolkit's directories. If NCCL is not found, the target is unchanged, and
# a trainer with a parallel policy and device::cuda does not compile: the error says that NCCL is missing.
function(constrain_link_nccl target)
  find_path(CONSTRAIN_NCCL_INCLUDE NAMES nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS} PATHS /usr/local/cuda/include)
  find_library(CONSTRAIN_NCCL_LIBRARY NAMES nccl HINTS ${CUDAToolkit_LIBRARY_DIR} PATHS /usr/local/cuda/lib64
                                                                                      /usr/local/cuda/lib)
  if(CONSTRAIN_NCCL_INCLUDE AND CONSTRAIN_NCCL_LIBRARY)
    constrain_include_system(${target} ${CONSTRAIN_NCCL_INCLUDE})
    target_link_libraries(${target} INTERFACE $<BUILD_INTERFACE:${CONSTRAIN_NCCL_LIBRARY}>)
    target_compile_definitions(${target} INTERFACE $<BUILD_INTERFACE:CONSTRAIN_WITH_NCCL>)
  endif()
endfunction()
