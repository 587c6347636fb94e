"""The benchmark of retrieval: engines agree, and what its rows become in docs/benchmarks.md."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import report, retrieval


def test_engines_agree() -> None:
    pytest.importorskip("torchmetrics")
    given = retrieval.documents(20, 15, 3)
    mine = retrieval.ours(*given, threads=1)
    for other in (retrieval.by_torch(*given), retrieval.by_torchmetrics(*given)):
        np.testing.assert_allclose(mine, other, rtol=0, atol=retrieval._TOLERANCE)
    np.testing.assert_allclose(retrieval.by_metric(*given), [mine.mean()], rtol=0, atol=retrieval._TOLERANCE)


def test_report() -> None:
    def row(tool: str, seconds: float, timed: int = 8000, status: str = "ok") -> dict[str, object]:
        times = {"median": seconds, "least": seconds}
        return {
            "case": "medium", "queries": 8000, "documents": 40, "tool": tool, "status": status, "seconds": times,
            "peak_bytes": 12 << 20, "input_bytes": 6 << 20, "timed_queries": timed,
        }  # fmt: skip

    rows = [
        row("valor_gpu", 0.02), row("metric", 0.04), row("torch", 0.1, status="differs by 1.0e-01"),
        row("torchmetrics", 4.0, 500),
    ]  # fmt: skip
    result = {
        "rows": rows, "threads": 2, "repeats": 5, "slow_repeats": 1, "versions": {"torch": "2"},
        "machine": {"processor": "a CPU"}, "commit": "0" * 40, "date": "2027-01-01",
    }  # fmt: skip
    lines = report.TEXTS["retrieval"]([result]).splitlines()
    ours = "**0.02 s**, 2.0x memory | 0.04 s (2x), 2.0x memory"
    assert lines[2] == f"| 8,000 queries of 40 documents | {ours} | differs by 1.0e-01 | 4 s (200x) |"
