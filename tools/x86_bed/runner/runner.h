#pragma once

#include <cstddef>
#include <string>

// To standard output, unbuffered.
void WriteAll(const void* data, size_t bytes);
[[noreturn]] void Fail(const std::string& why);

// Standard input holds cases one after the other, as tests/x86_bed/emulated_cases.py writes them.
void RunCases();
