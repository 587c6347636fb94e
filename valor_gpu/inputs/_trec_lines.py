"""Lines of TREC: judgements of four columns and runs of six, between white space of ASCII. Imports no torch.

Other white space, such as a no-break space, is part of an id, as in trec_eval.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from valor_gpu.errors import InputError
from valor_gpu.inputs.files import InputFile
from valor_gpu.inputs.text_lines import check_length, check_text, text_lines

TREC_COLUMNS = {"judgements": 4, "run": 6}
"""How many columns a line has, by the kind of the file."""
_PLACES = {"judgements": (0, 2, 3), "run": (0, 2, 4)}
"""Columns of the query, the document and the number."""
_NAMES = {
    "judgements": "query, 0, document and relevance",
    "run": "query, Q0, document, rank, score and name of the run",
}
_BLANKS = r" \t\n\v\f\r"  # what C's isspace takes; str.split also takes no-break spaces and \x1c to \x1f
_WORDS = re.compile(f"[^{_BLANKS}]+")
_SHOWN = 60  # characters of a line in a message
_QUICK = 1 << 20  # bytes from which loading pyarrow pays


def trec_lines(file: InputFile, kind: str) -> Iterator[tuple[str, str, float, int]]:
    """Query, document, number and line of every line that is not blank.

    Args:
        file: of text, perhaps gzip.
        kind: ``judgements`` or ``run``.

    Raises:
        InputError: a line has another number of columns, or no number where one must be.
    """
    width, (first, second, third) = TREC_COLUMNS[kind], _PLACES[kind]
    with text_lines(file, "\n") as lines:
        for number, line in lines:
            plain = line.isascii() and line[:-1].isprintable()  # where str.split, three times as fast, splits alike
            cells = line.split() if plain else _WORDS.findall(line)
            if len(cells) != width or not line.isascii():
                if not cells:
                    continue
                _check_line(f"{file.name}, line {number}", line, len(cells), kind)
            text = cells[third]
            try:
                value = float(text)
            except ValueError:
                value = float("nan")
            if value != value or "_" in text or not text.isascii():
                word = "relevance" if kind == "judgements" else "score"
                raise InputError(f"{file.name}, line {number} must have a number as {word} but has {text[:_SHOWN]!r}")
            yield cells[first], cells[second], value, number


def _check_line(place: str, line: str, count: int, kind: str) -> None:
    check_length(place, len(line))
    check_text(place, line, 0)
    if count != TREC_COLUMNS[kind]:
        raise InputError(
            f"{place} must have {TREC_COLUMNS[kind]} columns ({_NAMES[kind]}) but has {count}:"
            f" {line.strip()[:_SHOWN]!r}"
        )


def by_arrow(file: InputFile, kind: str) -> tuple[list[str], list[str], Any, Any, Any] | None:
    """Reads lines whose columns all have one and the same character between them, by pyarrow.

    Args:
        file: of text, perhaps gzip.
        kind: ``judgements`` or ``run``.

    Returns:
        Ids of queries and of documents, places of each row among them, and numbers; None where pyarrow is not there or
        cannot read the file so: line by line it may be readable, or its errors get their lines.
    """
    if importlib.util.find_spec("pyarrow") is None:
        return None
    with file.open() as stream:
        head = stream.read(_QUICK)
    if len(head) < _QUICK:
        return None
    import pyarrow
    from pyarrow import compute, csv

    first = head.partition(b"\n")[0]
    names = [str(place) for place in range(TREC_COLUMNS[kind])]
    wanted = [names[place] for place in _PLACES[kind]]
    few = dict.fromkeys(names, pyarrow.dictionary(pyarrow.int32(), pyarrow.string()))  # of the others, a few values
    types = few | dict(zip(wanted, (pyarrow.large_string(), pyarrow.large_string(), pyarrow.float64())))
    try:
        with file.open() as stream:
            table = csv.read_csv(
                stream,
                csv.ReadOptions(column_names=names),
                csv.ParseOptions(delimiter="\t" if b"\t" in first else " ", quote_char=False, double_quote=False),
                csv.ConvertOptions(column_types=types, null_values=[]),
            )
    except pyarrow.ArrowException:
        return None
    coded = [table.column(name).combine_chunks().dictionary_encode() for name in wanted[:2]]
    others = [chunk for name in names if name not in wanted for chunk in table.column(name).chunks]
    for column in (*coded, *others):
        # A blank in a cell, or a cell without a character, is a line that is not as the first one.
        if compute.any(compute.match_substring_regex(column.dictionary, f"^$|[{_BLANKS}]")).as_py():
            return None
    places = [column.indices.to_numpy(zero_copy_only=False).astype(np.int64) for column in coded]
    texts = [column.dictionary.to_pylist() for column in coded]
    return (*texts, *places, table.column(wanted[2]).to_numpy())
