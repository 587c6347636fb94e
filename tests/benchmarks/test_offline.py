"""The benchmark of offline evaluation."""

from __future__ import annotations

import pytest

from benchmarks import offline, report, run


def test_quick_run_of_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offline, "ENGINES", {"local": ("local", None)})
    arguments = run.parse(["offline", "--quick", "--repeats", "1"])
    result = offline.benchmark(arguments)
    assert [(row["case"], row["status"], row["size"]) for row in result["rows"]] == [
        ("coco", "ok", 10_000),
        ("parquet", "ok", 10_000),
    ]
    lines = report.TEXTS["offline"]([result]).splitlines()
    assert lines[2].startswith("| coco, 10,000 detections, local | ")
    assert lines[2].count("|") == lines[0].count("|")


def test_other_bytes_get_no_number() -> None:
    found = {"seconds": 1.0, "merge_cpu_seconds": 1.0, "shard_cpu_seconds": 1.0, "peak_bytes": 1, "state_bytes": 1}
    good = offline._row("coco", 10, "local", [{**found, "failed": 0, "bytes": b"a"}], b"a")
    assert good["status"] == "ok"
    for other in ({"failed": 0, "bytes": b"b"}, {"failed": 1, "bytes": b"a"}):
        row = offline._row("coco", 10, "pool of 2", [{**found, **other}], b"a")
        assert row["status"] == "mismatch"
        assert "seconds" not in row
