# Finds the ONNX Runtime C and C++ API headers and defines the interface target `onnxruntime_headers`. Headers only: a
# plugin execution provider is handed the API by the runtime that loads it and links no runtime library.
#
# Looked for in this order:
#   1. ONNXRUNTIME_INCLUDE_DIR (CMake variable, else environment variable): the folder of onnxruntime_c_api.h
#   2. the system's include folders
#   3. Debian's package, fetched by a private apt (tools/fetch_ort_headers.py); kept in ORT_MLAS_HEADER_CACHE
#   4. the project's release archive on GitHub
set(ORT_MLAS_MINIMUM_ORT_API 23)  # 1.23: first release whose plugin-EP API has graph compilation by plugins
set(_ort_archive_version 1.23.2)
set(_ort_archive_sha256_x64 1fa4dcaef22f6f7d5cd81b28c2800414350c10116f5fdd46a2160082551c5f9b)
set(_ort_archive_sha256_aarch64 7c63c73560ed76b1fac6cff8204ffe34fe180e70d6582b5332ec094810241e5c)

# ORT_API_VERSION of the header in a folder, 0 when there is none.
function(_ort_api_version folder result)
  set(version 0)
  if(folder AND EXISTS "${folder}/onnxruntime_c_api.h")
    file(STRINGS "${folder}/onnxruntime_c_api.h" line REGEX "^#define[ \t]+ORT_API_VERSION[ \t]+[0-9]+")
    if(line MATCHES "ORT_API_VERSION[ \t]+([0-9]+)")
      set(version ${CMAKE_MATCH_1})
    endif()
  endif()
  set(${result} ${version} PARENT_SCOPE)
endfunction()

set(_ort_found "")
set(_ort_notes "")

# A folder that the user names is used or refused, never passed over.
if(NOT ONNXRUNTIME_INCLUDE_DIR AND DEFINED ENV{ONNXRUNTIME_INCLUDE_DIR})
  set(ONNXRUNTIME_INCLUDE_DIR $ENV{ONNXRUNTIME_INCLUDE_DIR})
endif()
if(ONNXRUNTIME_INCLUDE_DIR)
  _ort_api_version("${ONNXRUNTIME_INCLUDE_DIR}" _ort_api)
  if(_ort_api LESS ORT_MLAS_MINIMUM_ORT_API)
    message(FATAL_ERROR "ONNXRUNTIME_INCLUDE_DIR=${ONNXRUNTIME_INCLUDE_DIR} has no onnxruntime_c_api.h of API version "
      "${ORT_MLAS_MINIMUM_ORT_API} or newer (found ${_ort_api}); name the folder of the headers of onnxruntime >= 1.23, "
      "or leave the variable unset")
  endif()
  set(_ort_found "${ONNXRUNTIME_INCLUDE_DIR}")
endif()

if(NOT _ort_found)
  find_path(ORT_MLAS_SYSTEM_ORT_INCLUDE_DIR onnxruntime_c_api.h
    PATH_SUFFIXES onnxruntime onnxruntime/core/session)
  mark_as_advanced(ORT_MLAS_SYSTEM_ORT_INCLUDE_DIR)
  _ort_api_version("${ORT_MLAS_SYSTEM_ORT_INCLUDE_DIR}" _ort_api)
  if(_ort_api GREATER_EQUAL ORT_MLAS_MINIMUM_ORT_API)
    set(_ort_found "${ORT_MLAS_SYSTEM_ORT_INCLUDE_DIR}")
  elseif(_ort_api GREATER 0)
    list(APPEND _ort_notes "system headers in ${ORT_MLAS_SYSTEM_ORT_INCLUDE_DIR} are of API ${_ort_api}, too old")
  else()
    list(APPEND _ort_notes "no system headers")
  endif()
endif()

if(NOT _ort_found)
  # In a checkout the ignored build/ folder is shared by all builds, isolated pip builds included; an unpacked source
  # archive may be read-only or thrown away, so there the headers go to the build tree.
  if(EXISTS "${PROJECT_SOURCE_DIR}/.git")
    set(_ort_cache_default "${PROJECT_SOURCE_DIR}/build/ort-headers")
  else()
    set(_ort_cache_default "${PROJECT_BINARY_DIR}/ort-headers")
  endif()
  set(ORT_MLAS_HEADER_CACHE "${_ort_cache_default}" CACHE PATH "Folder for fetched ONNX Runtime headers")
  find_package(Python QUIET COMPONENTS Interpreter)
  if(Python_Interpreter_FOUND)
    execute_process(
      COMMAND ${Python_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tools/fetch_ort_headers.py ${ORT_MLAS_HEADER_CACHE}
        --minimum-api ${ORT_MLAS_MINIMUM_ORT_API}
      RESULT_VARIABLE _ort_exit OUTPUT_VARIABLE _ort_folder ERROR_VARIABLE _ort_error
      OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_STRIP_TRAILING_WHITESPACE)
    if(_ort_exit EQUAL 0)
      set(_ort_found "${_ort_folder}")
    else()
      list(APPEND _ort_notes "${_ort_error}")
    endif()
  else()
    list(APPEND _ort_notes "no Python interpreter to run tools/fetch_ort_headers.py")
  endif()
endif()

if(NOT _ort_found)
  string(REPLACE ";" "\n  " _ort_notes_text "${_ort_notes}")
  message(STATUS "ONNX Runtime headers not found locally, taking the release archive:\n  ${_ort_notes_text}")
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
    set(_ort_archive_arch aarch64)
  else()
    set(_ort_archive_arch x64)
  endif()
  include(FetchContent)
  if(POLICY CMP0135)
    cmake_policy(SET CMP0135 NEW)
  endif()
  # SOURCE_SUBDIR names no folder: the archive is populated and none of its CMake files is read.
  FetchContent_Declare(onnxruntime_archive
    URL https://github.com/microsoft/onnxruntime/releases/download/v${_ort_archive_version}/onnxruntime-linux-${_ort_archive_arch}-${_ort_archive_version}.tgz
    URL_HASH SHA256=${_ort_archive_sha256_${_ort_archive_arch}}
    SOURCE_SUBDIR headers-only)
  FetchContent_MakeAvailable(onnxruntime_archive)
  _ort_api_version("${onnxruntime_archive_SOURCE_DIR}/include" _ort_api)
  if(_ort_api GREATER_EQUAL ORT_MLAS_MINIMUM_ORT_API)
    set(_ort_found "${onnxruntime_archive_SOURCE_DIR}/include")
  endif()
endif()

if(_ort_found)
  _ort_api_version("${_ort_found}" OnnxRuntimeHeaders_VERSION)
endif()
set(OnnxRuntimeHeaders_INCLUDE_DIR "${_ort_found}")
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(OnnxRuntimeHeaders REQUIRED_VARS OnnxRuntimeHeaders_INCLUDE_DIR)
if(OnnxRuntimeHeaders_FOUND AND NOT TARGET onnxruntime_headers)
  message(STATUS "ONNX Runtime headers: ${_ort_found} (API ${OnnxRuntimeHeaders_VERSION})")
  add_library(onnxruntime_headers INTERFACE IMPORTED)
  target_include_directories(onnxruntime_headers SYSTEM INTERFACE "${_ort_found}")
endif()
