"""What a store holds of finished results stays as it is, byte for byte."""

from __future__ import annotations

import json
from pathlib import Path

from tests.store.stored_runs import GOLDEN, document


def test_stored_runs_are_those_of_the_golden_file(tmp_path: Path) -> None:
    found, expected = document(tmp_path), GOLDEN.read_text(encoding="utf-8")
    assert json.loads(found) == json.loads(expected)
    assert found == expected
