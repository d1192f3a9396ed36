"""docs/reliability.md and docs/security.md are true: every test that they name exists, and every fault of the campaign
is in the table."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.system.faults import FAULTS

ROOT = Path(__file__).parents[2]
PAGE, SECURITY = ((ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8") for name in ("reliability", "security"))
_TEST = re.compile(r"`(tests/[\w/]+\.py)(?:::(test_\w+))?`")
NAMED = sorted({(match.group(1), match.group(2) or "") for match in _TEST.finditer(PAGE + SECURITY)})


@pytest.mark.parametrize(("path", "name"), NAMED)
def test_a_test_that_is_named_exists(path: str, name: str) -> None:
    content = (ROOT / path).read_text(encoding="utf-8")
    assert not name or f"def {name}(" in content


@pytest.mark.parametrize("kind", FAULTS)
def test_a_fault_of_the_campaign_is_in_the_table(kind: str) -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("|") and f"`{kind}`" in line]
    assert len(rows) == 1
