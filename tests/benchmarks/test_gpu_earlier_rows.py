"""Rows of a GPU check that the newest run was stopped before are those of an earlier run, and say so."""

from __future__ import annotations

from typing import Any

from benchmarks import gpu_table


def record(date: str, commit: str, works: dict[str, float], card: str = "NVIDIA H100") -> dict[str, Any]:
    """A record with the rows of some works."""
    rows = [{"work": work, "seconds": {"median": seconds}} for work, seconds in works.items()]
    check = {"name": "times", "outcome": "pass", "quick": False, "rows": rows}
    return {"date": date, "commit": commit, "device": {"name": card}, "sections": {"timing": {"checks": [check]}}}


def test_missing_rows_are_of_the_newest_earlier_record_of_the_device() -> None:
    newest = record("2031-02-03", "c" * 40, {"box AP": 1.0})
    others = [
        record("2031-02-01", "a" * 40, {"box AP": 9.0, "mask AP": 3.0, "mIoU": 4.0}),
        record("2031-02-02", "b" * 40, {"mask AP": 2.0}),
        record("2031-02-02", "d" * 40, {"mIoU": 7.0}, card="another"),
    ]
    found = gpu_table._missing_rows(newest, others)
    assert [(row["work"], row["seconds"]["median"], row["made"]) for row in found] == [
        ("mask AP", 2.0, "commit bbbbbbbbbb, 2031-02-02"),
        ("mIoU", 4.0, "commit aaaaaaaaaa, 2031-02-01"),
    ]
    shown = gpu_table.rows({**newest, gpu_table.EARLIER: found})
    assert [row["work"] for row in shown] == ["box AP", "mask AP †", "mIoU †"]
