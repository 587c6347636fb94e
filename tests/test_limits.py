"""docs/limits.md names every fixed limit that an error message quotes, with the number of the code."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "limits.md").read_text()
_QUOTED = re.compile(r"(?:at most|1 to|fewer than|more than|below) \{(_?[A-Z][A-Z_]+)\b")

NO_LIMIT_OF_DATA = {
    "valor_gpu/offline/collecting.py": "how many conflicts a message shows",
    "valor_gpu/web/views/compare.py": "runs side by side on a page",
    "valor_gpu/evaluation/prompts/prompty.py": "depth of a configuration",
    "valor_gpu/evaluation/engine/parts.py": "parts of one metric",
    "valor_gpu/evaluation/evaluators/custom.py": "parts of one metric",
    "valor_gpu/store/records.py": "integers of SQLite",
    "valor_gpu/store/search.py": "a text that is looked for",
    "valor_gpu/valor/filters/conditions.py": "depth of a filter",
    "valor_gpu/evaluation/prompts/_budget.py": "in docs/evaluation/targets.md",
    "valor_gpu/evaluation/prompts/_filters.py": "in docs/evaluation/targets.md",
    "valor_gpu/evaluation/prompts/_sandbox.py": "in docs/evaluation/targets.md",
}
"""Sources whose messages quote a constant that is no limit of what users evaluate."""

IN_OTHER_WORDS = {
    "LARGEST_EXPANSION": "256 times",
    "LONGEST": "600 s",  # of a trial
    "LONGEST_NAME": "names of 500 characters",
    "MOST": "200 MB",
    "MOST_BYTES": "64 MiB",
    "MOST_MEMORY": "1 GB of memory",
    "PADDING_BUCKET": "254 different ones",  # the last value of the byte stands for padding
}


def quoted() -> list[tuple[str, str]]:
    """Module and constant of every limit that a message quotes."""
    found = set()
    for source in (ROOT / "valor_gpu").rglob("*.py"):
        name = source.relative_to(ROOT).as_posix()
        if name not in NO_LIMIT_OF_DATA:
            found |= {(name[:-3].replace("/", "."), constant) for constant in _QUOTED.findall(source.read_text())}
    return sorted(found)


def test_the_sources_without_limits_quote_constants() -> None:
    assert all(_QUOTED.search((ROOT / name).read_text()) for name in NO_LIMIT_OF_DATA)


@pytest.mark.parametrize(("module", "constant"), quoted())
def test_the_page_has_the_limit(module: str, constant: str) -> None:
    value = getattr(importlib.import_module(module), constant)
    assert IN_OTHER_WORDS.get(constant, f"{value:,}") in PAGE, f"{constant} of {module} is {value:,}"
