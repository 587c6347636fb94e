"""The table of one row per workload: six rows in README.md, all of them on the page, no loss left out."""

from __future__ import annotations

import re
from typing import Any

from benchmarks import gpu_table, report
from benchmarks.summary import lines, readme_block, summary
from testing.datasets import ROOT


def result(*rows: tuple[str, str, str, float]) -> dict[str, Any]:
    """Returns a stored result from (case, path, engine, seconds)."""
    keys = ("case", "path", "tool")
    sizes = {"images": 7, "rows": 8, "classes": 9, "status": "ok"}
    return {"rows": [{**dict(zip(keys, row)), **sizes, "seconds": {"median": row[3]}} for row in rows]}


FAST = [("val2017", "files", "valor_gpu", 0.5), ("val2017", "files", "pycocotools", 5.0)]
SLOW = [("folder", "PNG files", "valor_gpu", 2.0), ("folder", "PNG files", "hotcoco", 1.0)]
OWN = [("valor-5k", "objects", "valor_gpu", 2.0), ("valor-5k", "objects", "valor_gpu, from frames", 1.0),
       ("valor-5k", "objects", "valor-lite", 9.0)]  # fmt: skip
HEAD = "| | valor_gpu | fastest other engine | reference |\n| --- | --- | --- | --- |\n"
FIRST = "| COCO AP from JSON files, 7 images | **0.500 s** | pycocotools 10x | pycocotools 10x |"


def test_the_readme_names_every_row_in_which_another_engine_is_faster() -> None:
    results = {"detection": [result(*FAST)], "segmentation": [result(*SLOW)], "valor_detection": [result(*OWN)]}
    assert readme_block(results) == (
        f"{HEAD}{FIRST}\n\nvalor_gpu is the fastest engine in 2 of 3 rows of the summary. Others are faster at: mIoU"
        " from 7 pairs of PNG files (hotcoco 0.5x). [docs/benchmarks.md](docs/benchmarks.md) has every row, all"
        " engines, memory and conditions."
    )
    assert summary(results).splitlines()[2:] == [
        FIRST,
        "| mIoU from 7 pairs of PNG files | **2 s** | hotcoco 0.5x | not run |",
        "| Valor's AP and AR from objects, 7 images | **2 s** | valor_gpu, from frames 0.5x | valor-lite 4.5x |",
    ]


def test_without_a_loss_the_sentence_names_none() -> None:
    assert "fastest engine in 1 of 1 row of the summary. [docs" in readme_block({"detection": [result(*FAST)]})
    alone = result(("folder", "PNG files", "valor_gpu", 2.0))
    assert lines({"segmentation": [alone]}) == []  # nothing to compare with


def test_the_readme_has_six_rows_of_each_table_and_the_page_has_all() -> None:
    readme, page = (ROOT / "README.md").read_text(), (ROOT / "docs/benchmarks.md").read_text()
    results, gpu = report.collected(), gpu_table.newest()
    for block in ("benchmarks", "gpu"):
        text = readme.split(f"<!-- {block}:begin -->")[1].split(f"<!-- {block}:end -->")[0]
        rows = re.findall(r"^\| (.+?) \| \*\*(.+?)\*\*", text, re.MULTILINE)
        assert len(rows) == 6
        assert all(f"| {name} |" in page and f"**{ours}**" in page for name, ours in rows)
        assert "(docs/benchmarks.md)" in text
    assert summary(results) in page and len(lines(results)) > 6
    assert gpu is not None and all(f"| {row['work']} |" in page for row in gpu_table.rows(gpu))
