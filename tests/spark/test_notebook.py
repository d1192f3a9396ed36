"""The notebook runs top to bottom, as a reader would run it: in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
NOTEBOOK = EXAMPLES / "data_pipeline.ipynb"


def cells() -> list[dict[str, Any]]:
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    assert notebook["nbformat"] == 4
    return list(notebook["cells"])


@pytest.mark.timeout(300)
def test_the_notebook_runs_top_to_bottom(tmp_path: Path) -> None:
    script = tmp_path / "notebook.py"
    code = ["".join(cell["source"]) for cell in cells() if cell["cell_type"] == "code"]
    script.write_text("\n\n".join(code), encoding="utf-8")
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    ended = subprocess.run(
        [sys.executable, str(script)],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=280, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    shown = ended.stdout
    assert "3000 messages" in shown
    assert "3000 rows read, 3 did not fit" in shown
    assert "3 from topic:prices: The value is not JSON. <html>503" in shown
    # Five minutes of three symbols; the last one is not complete yet.
    assert shown.count("2026-01-01") == 12
    assert "|2999|3000|" in shown.replace(" ", "")


def test_the_notebook_is_stored_without_results() -> None:
    for cell in cells():
        assert cell["cell_type"] == "markdown" or (cell["outputs"], cell["execution_count"]) == ([], None)


def test_the_notebook_is_in_the_list_of_examples() -> None:
    assert "examples/data_pipeline.ipynb" in (EXAMPLES.parent / "docs" / "index.md").read_text(encoding="utf-8")
