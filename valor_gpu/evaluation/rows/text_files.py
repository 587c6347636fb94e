"""Predicted and reference texts in files, as rows of ``answer`` and ``ground_truth``: lines, or columns of tables.

Example:
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "texts.csv"
    ...     _ = path.write_text("prediction,truth" + chr(10) + "a red cat,a cat")
    ...     column = open_column("--predictions", str(path), None, "answer")
    ...     other = open_column("--references", str(path), "truth", "ground_truth")
    ...     [row.values for row in text_rows(column, [other])]
    [{'answer': 'a red cat', 'ground_truth': 'a cat'}]
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from valor_gpu.checks import near_names
from valor_gpu.errors import InputError
from valor_gpu.evaluation.rows._source_rows import SourceRow
from valor_gpu.evaluation.rows.data import FORMATS, open_data
from valor_gpu.evaluation.rows.fields import ANSWER, GROUND_TRUTH, names_of
from valor_gpu.inputs.files import InputFile, source_name
from valor_gpu.inputs.text_lines import check_length, check_text, text_lines

_LINE = ""  # the column of files without columns
_JSON_LINES = (".jsonl", ".ndjson", ".json")


@dataclass(frozen=True)
class TextColumn:
    """Where texts come from.

    Attributes:
        option: what messages call it.
        path: of the file, or ``-``.
        rows: of the file, read anew by every iteration.
        column: to take of each row; empty where a line is a text.
    """

    option: str
    path: str
    rows: Iterable[SourceRow]
    column: str


def is_table(path: str) -> bool:
    """Whether a file has columns, by the ending of its name."""
    ending = os.path.splitext(path.lower().removesuffix(".gz"))[1]
    return ending in FORMATS or ending in _JSON_LINES


def open_column(option: str, path: str, column: str | None, field: str) -> TextColumn:
    """Opens texts.

    Args:
        option: what messages call them.
        path: a file with one text per line, or a table (csv, tsv, JSON lines, parquet); ``-`` is standard input.
        column: of the table; a file of another name is JSON lines where a column is named. None: the lines; of a table
            the column whose name means ``field``, or the only one.
        field: ``answer`` or ``ground_truth``.

    Raises:
        InputError: the file is not there or cannot be read, or has no such column.
    """
    if column is None and not is_table(path):
        return TextColumn(option, path, _Lines(_input_file(option, path)), _LINE)
    source = open_data(path)
    if column is not None:
        if column not in source.columns:
            there = ", ".join(source.columns)
            hint = near_names(column, source.columns)
            raise InputError(f"{option} must be a column of {source.name} but {column!r} is none of {there}{hint}")
        return TextColumn(option, path, source, column)
    named = names_of(field, source.columns) or (source.columns if len(source.columns) == 1 else ())
    if len(named) != 1:
        got = f"{', '.join(named)} may be it" if named else f"has the columns {', '.join(source.columns)}"
        raise InputError(
            f"{option} must name the column of its texts but {source.name} {got}: give --{option[2:-1]}-column"
        )
    return TextColumn(option, path, source, named[0])


def _input_file(option: str, path: str) -> InputFile:
    if os.path.isdir(path):
        raise InputError(f"{option} must be a file but {path} is a folder")
    try:
        return InputFile(path)
    except FileNotFoundError:
        raise InputError(f"{option} must be a file but {path} does not exist") from None


@dataclass(frozen=True)
class _Lines:
    """Lines of a file as rows; a line ends with a line feed, perhaps after a carriage return."""

    file: InputFile

    def __iter__(self) -> Iterator[SourceRow]:
        with text_lines(self.file, "\n") as lines:
            for number, line in lines:
                place = f"{self.file.name}, line {number}"
                try:
                    check_length(place, len(line))
                    check_text(place, line)
                    yield SourceRow(number, {_LINE: line.removesuffix("\n").removesuffix("\r")}, line=number)
                except InputError as error:
                    yield SourceRow(number, {}, str(error), number)


def text_rows(predictions: TextColumn, references: Sequence[TextColumn]) -> Iterator[SourceRow]:
    """Joins predictions and references row by row; a file that several columns name is read once.

    Args:
        predictions: the predicted texts.
        references: one or several columns; a row has as many reference texts as its cells hold, and lists hold several.

    Yields:
        a row with ``answer`` and ``ground_truth`` (a text, or a list of them), None where there is none; or with the
        error of the first file that could not be read there.

    Raises:
        InputError: after the last row, files with different numbers of rows.
    """
    columns = [predictions, *references]
    files = {column.path: column for column in reversed(columns)}
    counts = dict.fromkeys(files, 0)
    for number, parts in enumerate(zip_longest(*(column.rows for column in files.values())), 1):
        found = {path: part for path, part in zip(files, parts) if part is not None}
        for path in found:
            counts[path] += 1
        if len(found) == len(files):
            yield _joined(number, found, predictions, references)
    for path, column in files.items():
        if counts[path] != counts[predictions.path]:
            need = f"as many rows as {source_name(predictions.path)} ({counts[predictions.path]:,})"
            raise InputError(f"{column.option} must have {need} but {source_name(path)} has {counts[path]:,}")


def _joined(
    number: int, parts: Mapping[str, SourceRow], predictions: TextColumn, references: Sequence[TextColumn]
) -> SourceRow:
    error = next((part.error for part in parts.values() if part.error), "")
    if error:
        return SourceRow(number, {}, error)
    cells = [parts[column.path].values.get(column.column) for column in references]
    answer = parts[predictions.path].values.get(predictions.column)
    return SourceRow(number, {ANSWER: answer, GROUND_TRUTH: _together(cells)})


def _together(cells: list[Any]) -> Any:
    """The references of a row: the cell itself where there is one, else all texts of all cells; None for none."""
    if len(cells) == 1:
        return cells[0]
    texts = [text for cell in cells if cell is not None for text in (cell if isinstance(cell, list) else [cell])]
    return texts or None
