"""What runs in a worker process, `python -m tocsin.cli.bench.worker ROLE`: `crew` drives it by pipes."""

from __future__ import annotations

import gc
import json
import os
import sys
from typing import Any

from tocsin.cli.bench.roles import ROLES


def main() -> None:
    try:
        _run(sys.argv[1])
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:
        if os.environ.get("TOCSIN_TRACEBACK"):
            raise
        _say({"error": str(error) or type(error).__name__})
        sys.exit(1)


def _run(role: str) -> None:
    """Each step ends with a report; the next one begins when the crew says so."""
    for report in ROLES[role](_hear()):
        # What was built so far stays to the end: a collection during the measurement need not look at it.
        gc.collect()
        gc.freeze()
        _say({"report": report})
        _hear()


def _hear() -> dict[str, Any]:
    line = sys.stdin.buffer.readline()
    if not line:
        # The crew has gone or needs no more of us.
        sys.exit(0)
    message: dict[str, Any] = json.loads(line)
    return message


def _say(message: dict[str, Any]) -> None:
    sys.stdout.buffer.write(json.dumps(message).encode() + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
