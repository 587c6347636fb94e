"""Fills the table of docs/design/041-power-of-the-tests.md."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from tools.mutant_table import Mutant

PAGE = Path("docs", "design", "041-power-of-the-tests.md")
COLUMNS = ("before", "after")
HEAD = "| mutant | file | what goes wrong | before | after |\n| --- | --- | --- | --- | --- |\n"


def rows_of(page: str) -> dict[str, list[str]]:
    """Both outcomes of each mutant in the table of the page; empty where the page has none."""
    rows = page.partition(HEAD)[2].partition("\n\n")[0].splitlines()
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    return {row[0].strip("`"): row[-2:] for row in cells}


def filled(page: str, column: str, outcomes: dict[str, str], mutants: Sequence[Mutant]) -> str:
    """The page with the outcomes in a column; raises ValueError where it has no table or the column is unknown."""
    if column not in COLUMNS or HEAD not in page:
        raise ValueError(
            f"the column must be one of {', '.join(COLUMNS)}, in a page with the table, but got {column!r}"
        )
    known, lines = rows_of(page), []
    for each in mutants:
        cells = known.get(each.name, ["", ""])
        cells[COLUMNS.index(column)] = outcomes.get(each.name, cells[COLUMNS.index(column)])
        lines.append(" | ".join([f"| `{each.name}`", f"`{each.path}`", each.why, *cells]).rstrip() + " |")
    before, _, rest = page.partition(HEAD)
    return f"{before}{HEAD}" + "\n".join(lines) + "\n\n" + rest.partition("\n\n")[2]


def fill(path: Path, column: str, file: Path, mutants: Sequence[Mutant]) -> int:
    """Writes the outcomes of a JSON file into the page; returns 1 if a mutant that was killed before lives after."""
    fates = json.loads(file.read_text())["mutants"]
    page = filled(path.read_text(), column, {fate["name"]: fate["outcome"] for fate in fates}, mutants)
    path.write_text(page)
    lost = [name for name, cells in rows_of(page).items() if cells[0] == "killed" and cells[1] not in ("", "killed")]
    print(
        f"{path}: {len(fates)} outcomes {column}" + "".join(f"\nkilled before but not after: {name}" for name in lost)
    )
    return int(bool(lost))
