"""Writes what torchmetrics 1.9.0 finds in the cases of testing/torchmetrics_cases.py, which tests compare with.

Its classes are run where they are installed, with torchvision beside them (``make setup``):

    python -m tools.make_torchmetrics_goldens
"""

from __future__ import annotations

import gzip
import importlib
import json
import warnings
from importlib.metadata import version

import testing.prepare  # noqa: F401  (it lets torchvision be imported)
from testing.goldens import DATA
from testing.torchmetrics_cases import cases, inputs_of, value_of

RELEASE = "1.9.0"
FILE = DATA / "torchmetrics_golden.json.gz"


def main() -> None:
    """Writes the file."""
    if (came := version("torchmetrics")) != RELEASE:
        raise SystemExit(f"torchmetrics must be {RELEASE} but is {came}")
    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for case in cases():
            kind = getattr(importlib.import_module(f"torchmetrics.{case.package}"), case.name)
            found[case.id] = {"inputs": inputs_of(case), "value": value_of(kind, case)}
    text = json.dumps(
        {"note": f"made by tools/make_torchmetrics_goldens.py with torchmetrics {RELEASE}", "cases": found}
    )
    FILE.write_bytes(gzip.compress(text.encode(), mtime=0))
    print(FILE, len(found), "cases", FILE.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
