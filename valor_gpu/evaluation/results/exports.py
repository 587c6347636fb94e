r"""All rows of a run as one table (csv) or as nested JSON lines, streamed from the store. Standard library alone.

``eval_results.jsonl`` (:mod:`valor_gpu.evaluation.artifacts`) is flat, as Azure writes it; the files here have
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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from valor_gpu.checks import check_type
from valor_gpu.evaluation.results.files import replaced_files
from valor_gpu.exports.texts import spreadsheet_cell
from valor_gpu.store.records import Feedback, StoredRow, StoredScore
from valor_gpu.store.runs import Run

_FIXED = ("number", "key", "status", "error")
_PARTS = ("status", "level", "reason")
_FEEDBACK = ("evaluator", "author", "value", "passed", "note", "created")


def export_jsonl(run: Run, file: str | os.PathLike[str]) -> int:
    """Writes a line of JSON for each row, with all that is stored of it.

    Args:
        run: of a store, in any state.
        file: is replaced when everything is written; its folder is made.

    Returns:
        How many rows were written. A line has ``number``, ``key``, ``status``, ``error``, ``inputs``, ``outputs`` and
        ``scores``: evaluator to a list with ``repeat``, ``value``, ``status``, ``reason``, ``level``, ``details``,
        ``usage`` and ``seconds`` of each repeat; and, where people said something of the row, ``feedback``: a list with
        ``evaluator`` (empty for the row as a whole), ``author``, ``value``, ``passed``, ``note`` and ``created``.

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
        said = _said(run)
        for row, scores in _rows(run):
            line = json.dumps(_nested(row, scores, said.get(row.number, ())), ensure_ascii=False, allow_nan=False)
            files["rows"].write(line + "\n")
            written += 1
    return written


def _said(run: Run) -> dict[int, list[Feedback]]:
    """What people say, by row."""
    found: dict[int, list[Feedback]] = {}
    for each in run.feedback():
        found.setdefault(each.row, []).append(each)
    return found


def _nested(row: StoredRow, scores: Iterable[StoredScore], said: Sequence[Feedback]) -> dict[str, Any]:
    found: dict[str, list[dict[str, Any]]] = {}
    for score in scores:
        parts = {name: getattr(score, name) for name in ("repeat", "value", "status", "reason", "level")}
        more = {name: getattr(score, name) for name in ("details", "usage", "seconds")}
        found.setdefault(score.evaluator, []).append({**parts, **more})
    fixed = {name: getattr(row, name) for name in _FIXED}
    words = [{name: getattr(each, name) for name in _FEEDBACK} for each in said]
    feedback = {"feedback": words} if words else {}
    return {**fixed, "inputs": row.inputs, "outputs": row.outputs, "scores": found, **feedback}


def export_csv(run: Run, file: str | os.PathLike[str], *, guard: bool = True) -> int:
    """Writes a table with one line for each row.

    The columns are ``number``, ``key``, ``status``, ``error``, ``inputs.<column>``, ``outputs.<name>``, and for every
    evaluator ``scores.<evaluator>`` with its value (empty where there is none), ``.status``, ``.level`` and
    ``.reason``; the second repeat is ``scores.<evaluator>@2``. What people said is in ``feedback.<evaluator>.<author>``
    (``feedback..<author>`` for the row as a whole) with their score, ``.passed`` and ``.note``. Texts are written as
    they are but for what the module says; lists and objects as JSON; true and false as words. The file is UTF-8 with a
    byte order mark, by which spreadsheets know it, and lines end in a carriage return and a line feed.

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
    said = _said(run)
    people = list(dict.fromkeys((each.evaluator, each.author) for found in said.values() for each in found))
    for name, author in people:
        heads += [f"feedback.{name}.{author}{part}" for part in ("", ".passed", ".note")]
    written = 0
    with replaced_files({"rows": Path(file)}) as files:
        files["rows"].write("\ufeff")
        table = csv.writer(files["rows"], lineterminator="\r\n")
        table.writerow([cell_of(head, guard) for head in heads])
        for row, scores in _rows(run):
            by_place = {(score.evaluator, score.repeat): score for score in scores}
            cells = [row.number, row.key, row.status, row.error]
            cells += [_of(row.inputs, name) for name in inputs] + [_of(row.outputs, name) for name in outputs]
            for place in evaluators:
                score = by_place.get(place)
                cells += ["", "", "", ""] if score is None else [_value(score), *_words(score)]
            cells += _opinions(people, said.get(row.number, ()))
            table.writerow([cell_of(cell, guard) for cell in cells])
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


def _opinions(people: Sequence[tuple[str, str]], said: Sequence[Feedback]) -> list[Any]:
    """Cells of score, verdict and note of each evaluator and author."""
    by_place = {(each.evaluator, each.author): each for each in said}
    cells: list[Any] = []
    for place in people:
        each = by_place.get(place)
        cells += ["", "", ""] if each is None else [_or_empty(each.value), _or_empty(each.passed), each.note]
    return cells


def _or_empty(value: Any) -> Any:
    return "" if value is None else value


def _value(score: StoredScore) -> float | str:
    return "" if score.value is None else score.value


def _words(score: StoredScore) -> tuple[str, ...]:
    return tuple(getattr(score, part) for part in _PARTS)


def cell_of(value: Any, guard: bool = True) -> Any:
    """A cell as csv: numbers as they are, all else as text that a spreadsheet does not run."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = text.replace("\0", "\\x00")
    return spreadsheet_cell(text) if guard else text
