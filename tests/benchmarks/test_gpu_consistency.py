"""A record of a GPU check that was changed is refused, and what remains doubtful is said."""

from __future__ import annotations

import copy
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks import gpu_record, gpu_table, report
from benchmarks.gpu_consistency import contradiction, doubts
from benchmarks.machine import RESULTS

Record = dict[str, Any]
STORED = next(
    record
    for record in map(json.loads, map(Path.read_text, sorted(RESULTS.glob("gpu_*.json"))))
    if gpu_table.rows(record)
)


@pytest.fixture
def record() -> Record:
    """A record that a GPU has made."""
    return copy.deepcopy(STORED)


def timed(record: Record) -> Record:
    """The check of the record's first row that was timed beside torchmetrics and the CPU."""
    return next(
        check
        for _, check in gpu_record.checks_of(record)
        for row in check.get("rows", ())
        if "cpu_route" in row and "share_of_copy" in row and row["targets"]
    )


def row(record: Record) -> Record:
    found: Record = timed(record)["rows"][0]
    return found


def test_the_stored_records_hold_together() -> None:
    for path in RESULTS.glob("gpu_*.json"):
        assert contradiction(json.loads(path.read_text())) == ""


def twice(record: Record) -> None:
    record["sections"]["timing"]["checks"].append(timed(record))


def row_twice(record: Record) -> None:
    timed(record)["rows"].append(row(record))


def merged(record: Record) -> None:
    """Checks of another record, whose runs are not in this one."""
    record["sections"]["sanitizer"]["checks"].append({**timed(record), "name": "of another", "rows": [], "run": 99})


def passed_by_quick_runs(record: Record) -> None:
    for run in record["runs"]:
        run["quick"] = True


CHANGES: list[tuple[Callable[[Record], object], str]] = [
    (lambda r: row(r)["seconds"].update(median=row(r)["seconds"]["min"]), "times_cpu_route is .*, but its parts give"),
    (lambda r: row(r)["seconds"].update(median=1e-9), "seconds is not above 0, or its median not between its min"),
    (lambda r: row(r)["seconds"].update(median=-1.0, min=-1.0), "seconds.median is -1.0, not a number from 0 to 1e30"),
    (lambda r: row(r)["device_seconds"].update(median=float("nan")), "device_seconds.median is nan, not a number"),
    (lambda r: row(r).update(bytes=10**400), "bytes is 10+, not a number from 0 to 1e30"),
    (lambda r: row(r).update(times_cpu_route=999.0), "times_cpu_route is 999, but its parts give"),
    (lambda r: row(r).update(share_of_copy=0.99), "share_of_copy is 0.99, but its parts give"),
    (lambda r: row(r).update(floor_seconds=1.0), "floor_seconds is 1, but its parts give"),
    (lambda r: row(r).update(met=not row(r)["met"]), "met and missed are not those of its targets"),
    (lambda r: row(r)["targets"][0].update(limit=1e9), "the target '.*' is not of what was measured"),
    (lambda r: row(r)["targets"][0].update(measured=1e-9), "the target '.*' is not of what was measured"),
    (twice, "check '.*' is there 2 times"),
    (row_twice, "row of '.*' is there 2 times"),
    (merged, "check 'of another' is of run 99, but there are"),
    (passed_by_quick_runs, "has quick False, but its run . has not"),
    (lambda r: r["runs"].clear(), "is of run ., but there are 0"),
    (lambda r: timed(r).update(detail="Traceback: wrong bits"), "passed, but says what is wrong: 'Traceback: wrong b"),
    (lambda r: timed(r).update(outcome="fail"), "has the outcome 'fail', but times"),
    (lambda r: timed(r).update(outcome="passed"), "has the outcome 'passed', not one of pass, fail"),
    (lambda r: r.update(date="yesterday"), "date must be a date of ISO 8601 in UTC but is 'yesterday'"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "said"), CHANGES, ids=[said[:30] for _, said in CHANGES])
def test_a_record_that_no_check_has_made_is_refused(
    change: Callable[[Record], object], said: str, record: Record, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change(record)
    (tmp_path / "gpu_a.json").write_text(json.dumps(record))
    with pytest.raises(gpu_table.BrokenResult, match=f"gpu_a.json must hold the record of a GPU check, but .*{said}"):
        gpu_table.newest(tmp_path)
    assert report.main(["--print", "--results", str(tmp_path)]) == 1
    assert "gpu_a.json" in capsys.readouterr().err


@pytest.mark.parametrize("entry", ["device", "commit", "versions", "machine", "date"])
def test_a_stored_record_that_was_changed_is_refused(entry: str, record: Record, tmp_path: Path) -> None:
    """Another card, or another commit, contradicts nothing: the digest tells it."""
    path = tmp_path / "gpu_a.json"
    gpu_record.store(record, path)
    found = json.loads(path.read_text())
    assert gpu_table.newest(tmp_path) == found and found == {**record, "digest": gpu_record.digest_of(record)}
    other = {"device": {**found["device"], "name": "NVIDIA B300"}, "date": "2031-01-01"}
    path.write_text(json.dumps(found | {entry: other.get(entry, found["commit"][::-1])}))
    if entry in ("versions", "machine"):
        path.write_text(json.dumps(found | {entry: {**found[entry], "torch": "9.9", "cpus": 1}}))
    with pytest.raises(gpu_table.BrokenResult, match="its digest is of other content: it was changed after it was"):
        gpu_table.newest(tmp_path)
    head = {**found, "sections": {}}
    changed = json.loads(path.read_text())
    assert gpu_record.earlier_record({**changed, "sections": {}}, [tmp_path]) is None and head["digest"]


def test_a_record_that_is_stored_again_has_the_digest_of_what_it_holds(record: Record, tmp_path: Path) -> None:
    path = tmp_path / "gpu_a.json"
    gpu_record.store(record, path)
    again = json.loads(path.read_text()) | {"stopped": "by a signal"}
    gpu_record.store(again, path)
    assert json.loads(path.read_text())["digest"] == gpu_record.digest_of(again) != again["digest"]


def test_the_page_says_what_a_digest_is_and_that_one_is_missing(record: Record, tmp_path: Path) -> None:
    record.pop("digest", None)
    assert "The record has no digest: nothing tells whether it was changed" in gpu_table.page_text(record)
    gpu_record.store(record, tmp_path / "gpu_a.json")
    shown = gpu_table.page_text(gpu_table.newest(tmp_path))
    assert "Its digest tells a change by accident, and is no proof that a GPU made these numbers." in shown


def test_a_commit_that_the_repository_has_not_is_named(record: Record, tmp_path: Path) -> None:
    def git(*words: str) -> str:
        command = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b", *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    assert "commit" not in doubts(record | {"commit": "c" * 40}, tmp_path)  # no repository: nobody can tell
    git("init", "-q")
    git("commit", "-q", "--allow-empty", "-m", "first")
    assert doubts(record | {"commit": "c" * 40}, tmp_path).endswith("This repository has no commit cccccccccc.")
    assert "commit" not in doubts(record | {"commit": git("rev-parse", "HEAD")}, tmp_path)
