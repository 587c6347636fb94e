r"""All rows of a run as one table (csv) or as nested JSON lines, streamed from the store. Standard library alone.

``eval_results.jsonl`` (:mod:`valor_gpu.evaluation.results.files`) is flat, as Azure writes it; the files here have
everything that is stored. JSON lines are without loss. The csv is for spreadsheets, and differs from the data where a
spreadsheet would do something with it:

- a text that a spreadsheet would take for a formula, because it begins with ``=``, ``+``, ``-``, ``@``, a tab or the
  end of a line, gets an apostrophe before it (``guard=False`` leaves it out). Numbers stay numbers, negative ones too;
- NUL and lone surrogates, which a csv of UTF-8 cannot hold, are written as ``\x00`` and ``\udc80``.
"""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from valor_gpu.checks import check_type
from valor_gpu.evaluation.results.files import replaced_files
from valor_gpu.store.records import StoredRow, StoredScore
from valor_gpu.store.runs import Run

FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""What a cell begins with that spreadsheets run as a formula, also in its wide form, or drop and then run."""
_FIXED = ("number", "key", "status", "error")
_PARTS = ("status", "level", "reason")


def export_jsonl(run: Run, file: str | os.PathLike[str]) -> int:
    """Writes a line of JSON for each row, with all that is stored of it.

    Args:
        run: of a store, in any state.
        file: is replaced when everything is written; its folder is made.

    Returns:
        How many rows were written. A line has ``number``, ``key``, ``status``, ``error``, ``inputs``, ``outputs`` and
        ``scores``: evaluator to a list with ``repeat``, ``value``, ``status``, ``reason``, ``level``, ``details``,
        ``usage`` and ``seconds`` of each repeat.

    Raises:
        InputError: the folder is none.
        OSError: the file cannot be written.

    Example:
        >>> import pathlib, tempfile
        >>> from valor_gpu.store import Store
        >>> with tempfile.TemporaryDirectory() as folder, Store(folder + "/store.sqlite") as store:
        ...     run = store.create_run("capitals", {})
        ...     _ = run.add_rows([StoredRow(1, "fr", {"question": "France?"})])
        ...     _ = run.add_scores([StoredScore(1, "f1_score", 0, 0.5)])
        ...     n = export_jsonl(run, folder + "/rows.jsonl")
        ...     row = json.loads(pathlib.Path(folder, "rows.jsonl").read_text())
        >>> n, row["inputs"], row["scores"]["f1_score"][0]["value"]
        (1, {'question': 'France?'}, 0.5)
    """
    check_type("run", run, Run)
    written = 0
    with replaced_files({"rows": Path(file)}) as files:
        for row, scores in _rows(run):
            line = json.dumps(_nested(row, scores), ensure_ascii=False, allow_nan=False)
            files["rows"].write(line + "\n")
            written += 1
    return written


def _nested(row: StoredRow, scores: Iterable[StoredScore]) -> dict[str, Any]:
    found: dict[str, list[dict[str, Any]]] = {}
    for score in scores:
        parts = {name: getattr(score, name) for name in ("repeat", "value", "status", "reason", "level")}
        more = {name: getattr(score, name) for name in ("details", "usage", "seconds")}
        found.setdefault(score.evaluator, []).append({**parts, **more})
    fixed = {name: getattr(row, name) for name in _FIXED}
    return {**fixed, "inputs": row.inputs, "outputs": row.outputs, "scores": found}


def export_csv(run: Run, file: str | os.PathLike[str], *, guard: bool = True) -> int:
    """Writes a table with one line for each row.

    The columns are ``number``, ``key``, ``status``, ``error``, ``inputs.<column>``, ``outputs.<name>``, and for every
    evaluator ``scores.<evaluator>`` with its value (empty where there is none), ``.status``, ``.level`` and
    ``.reason``; the second repeat is ``scores.<evaluator>@2``. Texts are written as they are but for what the module
    says; lists and objects as JSON; true and false as words. The file is UTF-8 with a byte order mark, by which
    spreadsheets know it, and lines end in a carriage return and a line feed.

    Args:
        run: of a store, in any state.
        file: is replaced when everything is written; its folder is made.
        guard: whether texts that a spreadsheet would run as a formula get an apostrophe.

    Returns:
        How many rows were written.

    Raises:
        InputError: the folder is none.
        OSError: the file cannot be written.

    Example:
        >>> import pathlib, tempfile
        >>> from valor_gpu.store import Store
        >>> with tempfile.TemporaryDirectory() as folder, Store(folder + "/store.sqlite") as store:
        ...     run = store.create_run("sums", {})
        ...     _ = run.add_rows([StoredRow(1, "a", {"question": "=1+1", "weight": -1})])
        ...     _ = export_csv(run, folder + "/rows.csv")
        ...     print(pathlib.Path(folder, "rows.csv").read_text("utf-8-sig"))
        number,key,status,error,inputs.question,inputs.weight
        1,a,ok,,'=1+1,-1
        <BLANKLINE>
    """
    check_type("run", run, Run)
    check_type("guard", guard, bool)
    inputs, outputs, evaluators = _columns(run)
    heads = [*_FIXED, *(f"inputs.{name}" for name in inputs), *(f"outputs.{name}" for name in outputs)]
    for name, repeat in evaluators:
        column = f"scores.{name}" + (f"@{repeat + 1}" if repeat else "")
        heads += [column, *(f"{column}.{part}" for part in _PARTS)]
    written = 0
    with replaced_files({"rows": Path(file)}) as files:
        files["rows"].write("\ufeff")
        table = csv.writer(files["rows"], lineterminator="\r\n")
        table.writerow([_cell(head, guard) for head in heads])
        for row, scores in _rows(run):
            by_place = {(score.evaluator, score.repeat): score for score in scores}
            cells = [row.number, row.key, row.status, row.error]
            cells += [_of(row.inputs, name) for name in inputs] + [_of(row.outputs, name) for name in outputs]
            for place in evaluators:
                score = by_place.get(place)
                cells += ["", "", "", ""] if score is None else [_value(score), *_words(score)]
            table.writerow([_cell(cell, guard) for cell in cells])
            written += 1
    return written


def _rows(run: Run) -> Iterator[tuple[StoredRow, list[StoredScore]]]:
    """Every row with its scores; both are streams in the order of rows."""
    scores = run.scores()
    ahead = next(scores, None)
    for row in run.stream_rows():
        found = []
        while ahead is not None and ahead.row <= row.number:
            if ahead.row == row.number:
                found.append(ahead)
            ahead = next(scores, None)
        yield row, found


def _columns(run: Run) -> tuple[list[str], list[str], list[tuple[str, int]]]:
    """Names of inputs and outputs, and evaluators with their repeats, in the order in which they come up."""
    inputs: dict[str, None] = dict.fromkeys((run.config.get("data") or {}).get("columns") or ())
    outputs: dict[str, None] = {}
    found: dict[tuple[str, int], None] = {}
    for row, scores in _rows(run):
        inputs.update(dict.fromkeys(row.inputs))
        outputs.update(dict.fromkeys(row.outputs))
        found.update(dict.fromkeys((score.evaluator, score.repeat) for score in scores))
    order = [each["name"] for each in run.config.get("evaluators") or ()]
    places = {name: place for place, name in enumerate(order)}
    evaluators = sorted(found, key=lambda place: (places.get(place[0], len(places)), place))
    return list(inputs), list(outputs), evaluators


def _of(values: Mapping[str, Any], name: str) -> Any:
    value = values.get(name)
    return "" if value is None else value


def _value(score: StoredScore) -> float | str:
    return "" if score.value is None else score.value


def _words(score: StoredScore) -> tuple[str, ...]:
    return tuple(getattr(score, part) for part in _PARTS)


def _cell(value: Any, guard: bool) -> Any:
    """A cell as csv: numbers as they are, all else as text that a spreadsheet does not run."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = text.replace("\0", "\\x00")
    # Spreadsheets skip blanks, also wide ones, before the sign that makes a formula.
    begins = text if text.startswith(FORMULAS) else text.lstrip()
    return f"'{text}" if guard and begins.startswith(FORMULAS) else text
