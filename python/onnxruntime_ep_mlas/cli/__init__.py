"""The command `ort-mlas`: what runs here, quantise a model, check it, measure it.

Exit codes: 0 done; 1 a check failed (parity, a threshold, an impossible benchmark row); 2 the
command could not do what was asked. With --json, standard output holds JSON and nothing else.
"""

from .app import main

__all__ = ["main"]
