# Toolchain of the release builds: the clang of Zig, which brings C library stubs of any glibc version and links its own
# C++ runtime statically, so that one tool on one machine makes manylinux wheels for every processor.
#
#   ORT_MLAS_ZIG         path of the zig program
#   ORT_MLAS_ZIG_TARGET  <processor>-linux-gnu.<glibc version>, e.g. aarch64-linux-gnu.2.28
foreach(_name ORT_MLAS_ZIG ORT_MLAS_ZIG_TARGET)
  # CMake reads this file again in the projects of its compiler checks, which know only what it passes on.
  list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES ${_name})
  if(NOT ${_name})
    message(FATAL_ERROR "cmake/zig_toolchain.cmake needs -D${_name}=...; tools/release/build_wheels.py sets it")
  endif()
endforeach()
string(REGEX MATCH "^[^-]+" CMAKE_SYSTEM_PROCESSOR "${ORT_MLAS_ZIG_TARGET}")
set(CMAKE_SYSTEM_NAME Linux)

set(CMAKE_CXX_COMPILER "${ORT_MLAS_ZIG}" c++ -target "${ORT_MLAS_ZIG_TARGET}")
# One program for all tools, so the subcommand stands in the rules.
set(CMAKE_AR "${ORT_MLAS_ZIG}" CACHE FILEPATH "")
set(CMAKE_RANLIB "${ORT_MLAS_ZIG}" CACHE FILEPATH "")
set(CMAKE_CXX_ARCHIVE_CREATE "<CMAKE_AR> ar qc <TARGET> <LINK_FLAGS> <OBJECTS>")
set(CMAKE_CXX_ARCHIVE_APPEND "<CMAKE_AR> ar q <TARGET> <LINK_FLAGS> <OBJECTS>")
set(CMAKE_CXX_ARCHIVE_FINISH "<CMAKE_RANLIB> ranlib <TARGET>")
# The host's strip knows no foreign objects; the linker strips instead.
set(CMAKE_STRIP "" CACHE FILEPATH "")
set(CMAKE_MODULE_LINKER_FLAGS_INIT "-s")

set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
