#!/usr/bin/env bash
# Makes sure that the tools which pip can't bring are there: a C++20 compiler, Python with venv and headers, git.
# Installs what is missing with apt-get where it may, else says what to install. Quick and silent when all is there.
set -euo pipefail
python=${1:-python3}

has_compiler() { command -v "${CXX:-g++}" >/dev/null && command -v objdump >/dev/null; }
has_python() { "$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; }
has_venv() { "$python" -c 'import ensurepip, venv' 2>/dev/null; }
has_headers() {
  "$python" -c 'import pathlib, sys, sysconfig
sys.exit(not (pathlib.Path(sysconfig.get_path("include")) / "Python.h").exists())' 2>/dev/null
}

missing=()
has_compiler || missing+=(g++)
has_python || missing+=(python3)
has_venv || missing+=(python3-venv)
has_headers || missing+=(python3-dev)
command -v git >/dev/null || missing+=(git)
[ ${#missing[@]} -eq 0 ] && exit 0

as_root=()
[ "$(id -u)" -eq 0 ] || as_root=(sudo -n)
if ! command -v apt-get >/dev/null || ! "${as_root[@]}" true 2>/dev/null; then
  echo "missing on this system: ${missing[*]}" >&2
  echo "install them (Debian, Ubuntu: sudo apt-get install ${missing[*]}) and run make again" >&2
  exit 1
fi
echo "installing ${missing[*]}"
"${as_root[@]}" apt-get -q update
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends "${missing[@]}"
if ! { has_compiler && has_python && has_venv && has_headers; }; then
  echo "$python still lacks a part: needed are Python >= 3.10 with the modules venv and ensurepip and Python.h," >&2
  echo "and g++ with binutils; name another interpreter with make PYTHON=..." >&2
  exit 1
fi
