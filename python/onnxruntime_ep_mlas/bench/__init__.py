"""Microbenchmarks: our kernels and provider against the stock provider, in one process.

Cases of one shape are timed in turn, in random order, many times over, so that what else the
machine does meets all of them; medians are compared with each other and with the peak of the
instruction that the kernels are made of, measured in the same minute.
"""

from .backends import BenchmarkError
from .results import Result, to_google_benchmark
from .settings import Settings
from .suites import SUITES, Suite, run
from .summary import Summary, summarise, to_markdown

__all__ = [
    "SUITES",
    "BenchmarkError",
    "Result",
    "Settings",
    "Suite",
    "Summary",
    "run",
    "summarise",
    "to_google_benchmark",
    "to_markdown",
]
