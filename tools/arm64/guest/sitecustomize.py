"""Runs at the start of every ARM64 Python of the bed."""

import os
import sys

# The host can't execute the ARM64 interpreter by its own name; it can execute the launcher.
launcher = os.environ.get("ARM64_BED_LAUNCHER")
if launcher:
    sys.executable = launcher
