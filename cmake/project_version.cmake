# Sets ORT_MLAS_VERSION to the version that pyproject.toml states, so that a plain CMake build and a wheel agree.
file(STRINGS ${CMAKE_CURRENT_LIST_DIR}/../pyproject.toml _ort_mlas_version_line REGEX "^version = \"[^\"]+\"")
string(REGEX REPLACE "^version = \"([^\"]+)\".*" "\\1" ORT_MLAS_VERSION "${_ort_mlas_version_line}")
if(NOT ORT_MLAS_VERSION MATCHES "^[0-9]+\\.[0-9]+")
  message(FATAL_ERROR "pyproject.toml has no line 'version = \"X.Y.Z\"'")
endif()
