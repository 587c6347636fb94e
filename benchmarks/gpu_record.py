"""The record of a GPU check: where it lies, how it is written, and which of its checks stand.

A record is a dict of the machine and the sources, of ``runs``, of ``running``, of the ``digest`` of its content,
which a record put together from several machines has not, and of ``sections``: name to
``seconds``, ``ended`` (the last run that came to its end, 0 if none did) and ``checks``. Each check has the keys of
:class:`benchmarks.checks.Checks`, the ``run`` that made it, and ``failed_before`` if it failed in an earlier run.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.gpu_build import PROGRAMS
from testing.datasets import ROOT

Record = dict[str, Any]
SOURCES = ("csrc", "valor_gpu", "benchmarks", "testing", "tests")
LINK = Path("valor_gpu", "ops", "triton")
"""A link to ``csrc/triton``, which a copy may hold as a folder."""


def record_path(head: Record, folder: Path) -> Path:
    """Returns the path of a record: ``gpu_<device>_<date>_<sources>.json``; the folder is made if it is not there."""
    folder.mkdir(parents=True, exist_ok=True)
    return folder.resolve() / f"gpu_{_device(head)}_{head['date'][:10]}_{head['sources'][:8]}.json"


def earlier_record(head: Record, folders: Iterable[Path]) -> Record | None:
    """Returns the newest whole record of the same device, driver, torch and sources in ``folders``, or None."""
    found = []
    for folder in folders:
        for path in sorted(folder.glob(f"gpu_{_device(head)}_*_{head['sources'][:8]}.json")):
            try:
                record = json.loads(path.read_text())
            except (OSError, ValueError):
                continue
            if _is_whole(record) and all(_key(record)[name] == value for name, value in _key(head).items()):
                found.append(record)
    return max(found, key=lambda record: (len(record["runs"]), _passed(record)), default=None)


def _key(record: Record) -> Record:
    """A check that passed says nothing of another machine."""
    versions = record.get("versions", {})
    return {
        "sources": record["sources"],
        "device": record["device"],
        **{n: versions.get(n) for n in ("torch", "triton")},
    }


def _is_whole(record: Any) -> bool:
    """Whether what a file holds is a record: one of another version, or a damaged one, is not gone on with."""
    try:
        checks = [check for _, check in checks_of(record)]
        keys = {"name", "outcome", "detail", "seconds", "run", "quick"}
        runs = all({"asked", "quick", "chosen"} <= set(run) for run in record["runs"])
        stored = record.get("digest") in (None, digest_of(record))
        return stored and runs and bool(_key(record)) and all(keys <= set(check) for check in checks)
    except (KeyError, TypeError, AttributeError):
        return False


def _device(head: Record) -> str:
    return re.sub(r"[^a-z0-9]+", "-", head["device"]["name"].lower()).strip("-")


def _passed(record: Record) -> int:
    return sum(check["outcome"] == "pass" for _, check in checks_of(record))


def sources(root: Path = ROOT) -> str:
    """Returns a digest of everything that a check runs: a check of other sources does not stand."""
    digest = hashlib.sha256(b"".join(path.read_bytes() for name in PROGRAMS if (path := root / name).is_file()))
    for folder in SOURCES:
        for path in sorted((root / folder).rglob("*")):
            code = path.suffix in (".py", ".h", ".cpp", ".cu") and "__pycache__" not in path.parts
            if code and not _is_copy(path, root):
                digest.update(f"{path.relative_to(root)}\0".encode() + path.read_bytes())
    return digest.hexdigest()


def _is_copy(path: Path, root: Path) -> bool:
    """Whether a file in the place of the link is that of ``csrc/triton``, which the digest has."""
    if not path.is_relative_to(root / LINK):
        return False
    linked = root / "csrc" / "triton" / path.relative_to(root / LINK)
    return linked.is_file() and linked.read_bytes() == path.read_bytes()


def store(record: Record, path: Path) -> None:
    """Writes the record whole, or leaves the one before: a kill may come at any time."""
    scratch = path.with_suffix(f".{os.getpid()}.part")
    scratch.write_text(json.dumps({**record, "digest": digest_of(record)}, indent=1) + "\n")
    scratch.replace(path)


def digest_of(record: Record) -> str:
    """Returns the digest of all that a record holds, but for the digest that it was stored with.

    It tells a change by accident. It is no proof: whoever changes a record on purpose writes the digest anew.
    """
    content = {name: value for name, value in record.items() if name != "digest"}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def standing(record: Record, section: str, quick: bool, chosen: Collection[str] = ()) -> dict[str, Record]:
    """Returns by name the checks of a section that are not made again.

    These are checks that passed, but for those of a quick run in one that is not, and all of the run under way. A check
    of ``chosen`` stands only if the run under way has made it.
    """
    found, now = {}, len(record.get("runs", ()))
    for check in record.get("sections", {}).get(section, {"checks": []})["checks"]:
        passed = check["outcome"] == "pass" and check["quick"] <= quick and check["name"] not in chosen
        if passed or check["run"] == now:
            found[check["name"]] = check
    return found


def checks_of(record: Record) -> Iterator[tuple[str, Record]]:
    """Section and check, for all checks."""
    for name, section in record["sections"].items():
        for check in section["checks"]:
            yield name, check


def rows_of(record: Record, quick: bool = True) -> list[Record]:
    """Returns the timings of all checks that passed: rows of a work, op, phase or kernel.

    Args:
        record: of a GPU check.
        quick: those of quick runs as well.
    """
    passed = [check for _, check in checks_of(record) if check["outcome"] == "pass" and (quick or not check["quick"])]
    return [row for check in passed for row in check.get("rows", ())]
