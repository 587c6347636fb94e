"""Names that steer a terminal, or begin like a formula, do neither in the text and the tables of results."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from valor_gpu.exports.column_table import ColumnTable
from valor_gpu.exports.intervals import interval_note
from valor_gpu.exports.texts import FORMULAS, spreadsheet_cell
from valor_gpu.report.panoptic import image_table
from valor_gpu.stats import Interval, Intervals

FORMULA_NAMES = ["=1+1", "+2", "-3", "@SUM(A1)", "\t=tab", "\r=1", "\n=1", " =1", "\u3000=1", "\uff1d1", "\u00a0+1"]
PLAIN = ["cat", "a=1", "'=1", "", " cat", "1-2"]


@pytest.mark.parametrize("steering", ["\x1b[31mred", "nul\x00", "line\nbreak", "\u202eover", "\r", "\u2028"])
def test_no_name_steers_the_terminal(steering: str) -> None:
    intervals = Intervals({f"map_per_class/{steering}": Interval(0.1, 0.2, 0.1, 0.0)}, {"replicates": 5})
    note = interval_note("map_per_class", {steering: 0.15}, intervals)
    assert note.isprintable() and note.startswith("widest ") and note.endswith(" (0.1000 to 0.2000)")


def test_no_text_of_a_table_is_a_formula(tmp_path: Path) -> None:
    """A formula is what LibreOffice and Excel run: a text that begins with one of these signs, behind blanks too."""
    names = [*FORMULA_NAMES, *PLAIN]
    table = ColumnTable({"class": names, "iou": [-0.5] * len(names)})
    table.to_csv(tmp_path / "guarded.csv")
    table.to_csv(tmp_path / "plain.csv", guard=False)
    rows = {}
    for name in ("guarded", "plain"):
        with (tmp_path / f"{name}.csv").open(encoding="utf-8", newline="") as file:
            rows[name] = list(csv.DictReader(file))
    assert [row["class"] for row in rows["plain"]] == names
    assert [row["class"] for row in rows["guarded"]] == [*(f"'{name}" for name in FORMULA_NAMES), *PLAIN]
    assert {row["iou"] for row in rows["guarded"]} == {"-0.5"}
    assert not any(row["class"].lstrip().startswith(FORMULAS) for row in rows["guarded"])


def test_no_file_name_of_a_table_of_images_is_a_formula() -> None:
    text = image_table([("=cmd.png", 1, 2.0), ("a.png", -1, float("nan"))])
    assert [row[0] for row in csv.reader(io.StringIO(text))][1:] == ["'=cmd.png", "a.png"]
    assert spreadsheet_cell(-1) == -1 and spreadsheet_cell(None) is None
