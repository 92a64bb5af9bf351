#!/usr/bin/env bash
# Builds the package with AddressSanitizer and UndefinedBehaviorSanitizer and runs the kernel and provider tests on it.
# usage: run_sanitized_tests.sh PYTHON BUILD_FOLDER [pytest arguments]
set -euo pipefail
cd "$(dirname "$0")/.."
python=$1
build=$2
shift 2
cxx=${CXX:-g++}
site=$PWD/$build/site

echo "building with sanitizers in $build"
# Into a folder of its own: the ordinary installation stays as it is. Frame pointers and line numbers make reports
# readable. The rest keeps the compile time of the kernels' fully unrolled tiles bearable, some ten times shorter:
# -O1, checks of memory accesses as calls, and of "undefined" all but null, object-size and vptr, whose faults
# AddressSanitizer stops as well.
undefined=alignment,bool,bounds,builtin,enum,integer-divide-by-zero,nonnull-attribute,pointer-overflow,return
undefined+=,returns-nonnull-attribute,shift,signed-integer-overflow,unreachable,vla-bound
flags="-O1 -g1 -fno-sanitize-address-use-after-scope --param asan-instrumentation-with-call-threshold=50"
"$python" -m pip install -q --no-deps --no-build-isolation --upgrade --target "$site" \
  -C build-dir="$build/cmake" \
  -C cmake.build-type=RelWithDebInfo \
  -C cmake.define.CMAKE_CXX_FLAGS_RELWITHDEBINFO="$flags" \
  -C cmake.define.CMAKE_CXX_COMPILER="$cxx" \
  -C cmake.define.ORT_MLAS_SANITIZE="address,$undefined" \
  -C install.strip=false .

for library in "$site"/onnxruntime_ep_mlas/*.so; do
  if ! nm -D "$library" | grep __asan_init >/dev/null; then
    echo "$library is not instrumented: the sanitizers would find nothing" >&2
    exit 1
  fi
done

# Python itself is not instrumented, so the runtime has to be loaded before it. libstdc++ comes along because the
# runtime looks up its throw function once, at start. Leaks are not looked for: CPython never frees much of what it
# allocates, and a report can't tell that from ours. ONNX Runtime frees with its own allocator's operators, so
# mismatched operator pairs across libraries are not ours either.
runtime="$("$cxx" -print-file-name=libasan.so) $("$cxx" -print-file-name=libstdc++.so)"
env PYTHONPATH="$site" PYTHONDONTWRITEBYTECODE=1 PYTHONMALLOC=malloc LD_PRELOAD="$runtime" \
  ASAN_OPTIONS=detect_leaks=0:abort_on_error=1:alloc_dealloc_mismatch=0:strict_string_checks=1 \
  UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1 \
  "$python" -m pytest -p no:cacheprovider -m 'not uninstrumented' --hypothesis-profile=sanitizers --sample=3 "$@"
