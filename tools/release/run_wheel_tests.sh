#!/usr/bin/env bash
# Builds the x86-64 release wheel, installs it into an environment of its own and tests what is installed there.
# usage: run_wheel_tests.sh PYTHON FOLDER [pytest arguments]
set -euo pipefail
cd "$(dirname "$0")/../.."
python=$1
folder=$2
shift 2

rm -rf "$folder"
"$python" tools/release/build_wheels.py x86_64 --output "$folder/dist"
"$python" -m venv "$folder/venv"
wheel=$(echo "$folder"/dist/*.whl)
"$folder/venv/bin/python" -m pip --disable-pip-version-check install -q "$wheel[test]"
"$folder/venv/bin/python" -m pytest -p no:cacheprovider "$@"
