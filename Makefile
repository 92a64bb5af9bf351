# What a user and a developer run. Every target sets up what it needs first and is quick when nothing changed.
#   make demo    the main job, on a real model        make check   linters, types, sanitizers
#   make test    all tests                             make bench   microbenchmarks
#   make wheels  release wheels, x86-64 and ARM64      make cycles  models and counts of the ARM64 kernels
# Variables: PYTHON (interpreter to start from), VENV, BUILD, CXX, PYTEST_ARGS.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV ?= .venv
BUILD ?= build
PYTEST_ARGS ?=
HYPOTHESIS_PROFILE ?= default

PY := $(VENV)/bin/python
PIP := $(PY) -m pip --disable-pip-version-check
STAMPS := $(VENV)/.stamps
# Stated once, in pyproject.toml. cmake and ninja are needed by name because the build isn't isolated, which is what
# makes a rebuild incremental.
BUILD_REQUIRES := $(shell sed -n 's/^requires = \[\(.*\)\]$$/\1/p' pyproject.toml | tr ',' ' ')
SOURCES := CMakeLists.txt pyproject.toml README.md LICENSE \
  $(shell find cmake onnxruntime_mlas python -type f -not -name '*.pyc' -not -name '*.so')
CPP_FILES = $(shell git ls-files '*.h' '*.cpp')
PY_FOLDERS := python tests tools $(wildcard bench)

.PHONY: help setup demo test bench check lint-python lint-cpp lint-workflows test-sanitizers test-x86-bed test-arm64 \
  test-wheels wheels cycles clean

help:
	@sed -n 's/^#   //p' Makefile

$(STAMPS)/venv: tools/install_system_packages.sh
	tools/install_system_packages.sh $(PYTHON)
	test -x $(PY) || $(PYTHON) -m venv $(VENV)
	$(PIP) install -q --upgrade pip
	mkdir -p $(@D) && touch $@

$(STAMPS)/build-requires: pyproject.toml | $(STAMPS)/venv
	$(PIP) install -q $(BUILD_REQUIRES) cmake ninja
	touch $@

# Reinstalled whenever a source changes; CMake then rebuilds only what depends on it.
$(STAMPS)/package: $(SOURCES) | $(STAMPS)/build-requires
	@echo "building and installing the package into $(VENV) (the first time takes a few minutes)"
	$(PIP) install -q --no-build-isolation -C build-dir=$(BUILD)/wheel '.[bench,test]'
	touch $@

$(STAMPS)/dev: pyproject.toml | $(STAMPS)/package
	$(PIP) install -q --no-build-isolation -C build-dir=$(BUILD)/wheel '.[dev]'
	touch $@

setup: $(STAMPS)/build-requires $(STAMPS)/package

demo: setup
	$(PY) tools/demo.py --output $(BUILD)/demo.json

# A run that PYTEST_ARGS narrows leaves the emulated ARM64 CPUs out.
test: setup
	ORT_MLAS_BUILD_DIR=$(BUILD)/wheel $(PY) -m pytest --hypothesis-profile=$(HYPOTHESIS_PROFILE) $(PYTEST_ARGS)
	$(if $(PYTEST_ARGS),,$(PY) tools/arm64/run_tests.py)

# Parts of `make test`: kernels of ISAs that this machine may lack, on emulated CPUs.
test-x86-bed: setup
	$(PY) tools/x86_bed/bed.py build
	$(PY) -m pytest $(PYTEST_ARGS) tests/x86_bed

test-arm64: setup
	$(PY) -m pytest $(PYTEST_ARGS) tests/arm64
	$(PY) tools/arm64/run_tests.py

# What a release consists of, for both processors, into dist/.
wheels: setup
	$(PY) tools/release/build_wheels.py

# The x86-64 one as it is installed; test-arm64 does the same for the other.
test-wheels: setup
	tools/release/run_wheel_tests.sh $(PY) $(BUILD)/wheel-tests tests/packaging/test_installed_files.py tests/provider

bench: setup
	$(VENV)/bin/ort-mlas bench --suite all --output $(BUILD)/bench

# Models and counts of the ARM64 kernels, on no ARM64 machine.
cycles: setup
	$(PY) tools/cycles/report.py --output $(BUILD)/cycles/report

check: lint-python lint-cpp lint-workflows test-sanitizers

lint-python: $(STAMPS)/dev
	$(PY) -m ruff check $(PY_FOLDERS)
	$(PY) -m ruff format --check $(PY_FOLDERS)
	$(PY) -m mypy

# clang-tidy takes what the package is built from on this processor, with the flags of that build.
lint-cpp: $(STAMPS)/dev
	$(VENV)/bin/clang-format --dry-run --Werror $(CPP_FILES)
	sed -n 's/^ *"file": "\(.*\)",$$/\1/p' $(BUILD)/wheel/compile_commands.json | \
	  xargs -P 2 -n 1 $(VENV)/bin/clang-tidy -p $(BUILD)/wheel --quiet

# actionlint hands the scripts of `run:` to shellcheck, which it finds on PATH.
lint-workflows: $(STAMPS)/dev
	PATH="$(abspath $(VENV))/bin:$$PATH" $(VENV)/bin/actionlint

test-sanitizers: setup
	tools/run_sanitized_tests.sh $(PY) $(BUILD)/sanitizers tests/kernels tests/provider

clean:
	rm -rf $(BUILD) .hypothesis .mypy_cache .pytest_cache .ruff_cache
	if [ -d $(STAMPS) ]; then rm -rf $(VENV); fi
