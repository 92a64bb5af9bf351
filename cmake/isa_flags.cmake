# Adds one translation unit with its own ISA flags to a target. Everything else is built for the baseline, so that code
# which runs before dispatch can't contain an instruction that the machine lacks.
function(ort_mlas_add_isa_source target source)
  target_sources(${target} PRIVATE ${source})
  set(flags ${ARGN})
  if(MSVC)
    # clang-cl knows these flags, which are clang's own, behind a prefix.
    list(TRANSFORM flags PREPEND "/clang:")
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # GCC warns about its own AVX-512 headers, which pass deliberately undefined vectors (GCC bug 105593).
    list(APPEND flags -Wno-maybe-uninitialized)
  endif()
  set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "${flags}")
endfunction()
