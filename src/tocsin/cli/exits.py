"""Exit codes, a promise to scripts. Usage errors (2) and Ctrl-C (130) are given by the parser and `main`."""

from __future__ import annotations

OK = 0
FAILED = 1
USAGE = 2
NOTHING_FOUND = 3
INTERRUPTED = 130
