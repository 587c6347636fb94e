"""The record of a GPU check: where it lies, how it is written, what its end says."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any


def record_path(head: dict[str, Any], folder: Path) -> Path:
    """Where the record is written: ``gpu_<device>_<date>.json``; the folder is made if it is not there."""
    name = re.sub(r"[^a-z0-9]+", "-", head["device"]["name"].lower()).strip("-")
    folder.mkdir(parents=True, exist_ok=True)
    return folder.resolve() / f"gpu_{name}_{head['date'][:10]}.json"


def store(result: dict[str, Any], path: Path) -> None:
    """Writes the record whole, or leaves the one before: a kill may come at any time."""
    scratch = path.with_suffix(".part")
    scratch.write_text(json.dumps(result, indent=1) + "\n")
    scratch.replace(path)


def summarise(result: dict[str, Any]) -> int:
    """Prints what failed, what was not made and what took longer than it may; returns the exit code."""
    checks = [check for section in result["sections"].values() for check in section["checks"]]
    by_outcome = {o: [c["name"] for c in checks if c["outcome"] == o] for o in ("fail", "skipped", "unavailable")}
    missed = [row["work"] for row in gpu_rows(result) if row.get("met") is False]
    for name, section in result["sections"].items():
        print(f"{name}: {len(section['checks'])} checks, {section.get('seconds', 0):.0f} s")
    absent = [name for name in result["asked"] if name not in result["sections"]]
    print(f"{sum(check['outcome'] == 'pass' for check in checks)} of {len(checks)} checks passed")
    for word, names in (
        ("failed", by_outcome["fail"]), ("not made, no time was left", by_outcome["skipped"]),
        ("not made, not available here", by_outcome["unavailable"]), ("section not begun", absent),
        ("over its target", missed),
    ):  # fmt: skip
        for name in names:
            print(f"{word}: {name}")
    return 1 if by_outcome["fail"] or absent else 0


def gpu_rows(result: dict[str, Any]) -> list[dict[str, Any]]:
    """What a GPU check has timed as a user sees it: all sections of the record, without phases and single ops."""
    kinds = ("timings", "budgets", "classification", "masks")
    return [row for section in result["sections"].values() for kind in kinds for row in section.get(kind, ())]
