"""Files of judged documents and of ranked documents: TREC lines, JSON lines and tables. Imports no torch.

Ids are texts: ``007`` stays ``007``. Columns of TREC lines lie between white space of ASCII.
"""

from __future__ import annotations

import math
import os
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu._frozen import frozen
from valor_gpu.errors import InputError
from valor_gpu.inputs._table import listed
from valor_gpu.inputs._text_tables import _objects
from valor_gpu.inputs._trec_lines import TREC_COLUMNS, by_arrow, trec_lines
from valor_gpu.inputs.files import InputFile
from valor_gpu.inputs.tables import column_names, read_table
from valor_gpu.inputs.text_lines import text_lines

Ints = NDArray[np.int64]
Triple = tuple[str, str, float, int]
"""Query, document, number and line."""

JUDGEMENTS, RUN = "judgements", "run"
_TABLES = (".csv", ".tsv", ".parquet")
_JSON_LINES = (".jsonl", ".ndjson", ".json")
_QUERY = ("query_id", "qid", "topic_id", "topic", "query")
_DOCUMENT = ("document_id", "doc_id", "docno", "docid", "doc", "document", "corpus_id")
_NUMBER = {
    JUDGEMENTS: ("relevance", "rel", "query_relevance_label", "relevance_label", "grade", "label", "score"),
    RUN: ("score", "relevance_score", "sim"),
}
"""Names of columns and keys, in the order in which they are looked for."""
_LIST = {JUDGEMENTS: "retrieval_ground_truth", RUN: "retrieved_documents"}
"""Keys of the lists of rows that hold all documents of a query, Azure's."""
_WORD = {JUDGEMENTS: "relevance", RUN: "score"}
_LARGEST = 2.0**53  # whole numbers up to here are floats


@frozen
class DocumentRows:
    """Rows of a file: a document of a query and its number.

    Attributes:
        queries: ids of queries, each once, in the order in which they came.
        documents: ids of documents, likewise.
        query: int64 ``[N]``, the place of each row's query among ``queries``.
        document: int64 ``[N]``, the place of its document.
        numbers: float64 ``[N]``, finite: whole grades of relevance, or scores.
    """

    queries: Sequence[str]
    documents: Sequence[str]
    query: Ints
    document: Ints
    numbers: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.query)


def read_judgements(path: str) -> DocumentRows:
    r"""Reads which documents are relevant to which query.

    Args:
        path: of TREC lines (query, an unused word, document, grade); of JSON lines with ``query_id``, ``doc_id`` and
            ``relevance``, or with ``query_id`` and the list ``retrieval_ground_truth`` of objects with ``document_id``
            and ``query_relevance_label``; of a table ``.csv``, ``.tsv`` or ``.parquet`` with such columns; any of the
            texts also ``.gz``; or ``-``. Every other ending is TREC's.

    Raises:
        InputError: a row lacks an id or a whole number as grade, a document is judged twice for a query, or the file is
            damaged; it names file and line.
        OSError: the file cannot be read.
        MissingExtraError: Parquet without pyarrow.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder) / "judged.qrels"
        ...     _ = path.write_text("007 0 a 2\n007 0 b 0\n")
        ...     rows = read_judgements(str(path))
        >>> rows.queries, rows.documents, rows.numbers.tolist()
        (['007'], ['a', 'b'], [2.0, 0.0])
    """
    return _read(path, JUDGEMENTS)


def read_run(path: str) -> DocumentRows:
    r"""Reads the documents that a model retrieved for each query.

    Args:
        path: of TREC lines (query, an unused word, document, rank, score, name of the run; the rank is not read); of
            JSON lines with ``query_id``, ``doc_id`` and ``score``, or with ``query_id`` and the list
            ``retrieved_documents`` of objects with ``document_id`` and ``relevance_score``; or of a table, as for
            :func:`read_judgements`.

    Raises:
        InputError: a row lacks an id or a finite score, a document comes twice for a query, or the file is damaged; it
            names file and line.
        OSError: the file cannot be read.
        MissingExtraError: Parquet without pyarrow.
    """
    return _read(path, RUN)


def _read(path: str, kind: str) -> DocumentRows:
    file = InputFile(path)
    with nullcontext() if file.is_stream else file.unchanged():
        form = _form(file, kind)
        if form == "trec":
            quick = by_arrow(file, kind)
            if quick is not None:
                found = DocumentRows(*quick)
                if not _twice(found).size and _in_range(found, kind):
                    return found
        rows = {"trec": trec_lines, "json": _json_rows, "table": _table_rows}[form](file, kind)
        unit = "row" if file.path.lower().endswith(".parquet") else "line"
        return _collected(f"{file.name}, {unit} ", rows, kind)


def _form(file: InputFile, kind: str) -> str:
    """The form of a file by the ending of its name, or of what has no name by its first character."""
    name = os.path.splitext(file.path.lower().removesuffix(".gz"))[1]
    if name in _JSON_LINES:
        return "json"
    if name in _TABLES:
        return "trec" if name == ".tsv" and _is_trec(column_names(file), kind) else "table"
    if file.is_standard_input:
        with text_lines(file, "\n") as lines:
            first = next((line for _, line in lines if line.strip()), "")
        return "json" if first.lstrip().startswith("{") else "trec"
    return "trec"


def _is_trec(header: Sequence[str], kind: str) -> bool:
    """Whether the first line of a ``.tsv`` file names no column, as in files of MS MARCO."""
    return len(header) == TREC_COLUMNS[kind] and _named(header, _QUERY) is None


def _plain_name(name: object) -> str:
    return str(name).strip().casefold().replace("-", "_").replace(" ", "_")


def _named(names: Iterable[Any], wanted: Sequence[str]) -> Any:
    """The first of ``names`` that means something wanted; None where none does."""
    by_name = {_plain_name(name): name for name in names}
    return next((by_name[each] for each in wanted if each in by_name), None)


# ------------------------------------------------------------------------------------------------------ JSON and tables


def _json_rows(file: InputFile, kind: str) -> Iterator[Triple]:
    for line, found in _objects(file):
        place = f"{file.name}, line {line}"
        query = _text(place, found, _QUERY)
        if _LIST[kind] not in found:
            yield query, _text(place, found, _DOCUMENT), _json_number(place, found, kind), line
            continue
        documents = found[_LIST[kind]]
        if not isinstance(documents, list) or not all(isinstance(each, dict) for each in documents):
            raise InputError(f"{place}, {_LIST[kind]!r} must be a list of objects but is {documents!r:.60}")
        for number, each in enumerate(documents):
            inner = f"{place}, {_LIST[kind]}[{number}]"
            yield query, _text(inner, each, _DOCUMENT), _json_number(inner, each, kind), line


def _text(place: str, found: Mapping[str, Any], names: Sequence[str]) -> str:
    """An id: a text that is not empty, or the digits of a whole number."""
    name = _named(found, names)
    if name is None:
        raise InputError(f"{place} must have {names[0]!r} but has {listed(list(found)) or 'nothing'}")
    value = found[name]
    if isinstance(value, bool) or not isinstance(value, (str, int)) or value == "":
        raise InputError(f"{place}, {name!r} must be a text or a whole number but is {value!r:.60}")
    return str(value)


def _json_number(place: str, found: Mapping[str, Any], kind: str) -> float:
    name = _named(found, _NUMBER[kind])
    if name is None:
        raise InputError(f"{place} must have {_WORD[kind]!r} but has {listed(list(found)) or 'nothing'}")
    value = found[name]
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InputError(f"{place}, {name!r} must be a number but is {value!r:.60}")
    try:
        return float(value)
    except OverflowError:
        return math.inf  # which is rejected with its line


def _table_rows(file: InputFile, kind: str) -> Iterator[Triple]:
    names = column_names(file)
    columns = [_named(names, wanted) for wanted in (_QUERY, _DOCUMENT, _NUMBER[kind])]
    for column, wanted in zip(columns, (_QUERY[0], "doc_id", _WORD[kind])):
        if column is None:
            raise InputError(f"{file.name} must have a column {wanted!r} but has {listed(names)}")
    table = read_table(file, columns[:2], [columns[2:]])
    lines = range(1, len(table.texts[0]) + 1) if table.lines is None else table.lines
    for row, (query, document, number, line) in enumerate(zip(*table.texts, table.numbers[0][:, 0].tolist(), lines)):
        if not query or not document:
            raise InputError(f"{table.place(row)} must have a query and a document but lacks one")
        yield query, document, number, line


# ------------------------------------------------------------------------------------------------------------ collected


def _collected(place: str, rows: Iterable[Triple], kind: str) -> DocumentRows:
    """The rows, where a message calls one by ``place`` and its line."""
    queries: dict[str, int] = {}
    documents: dict[str, int] = {}
    query, document, numbers, lines = array("q"), array("q"), array("d"), array("q")
    for which, what, number, line in rows:
        query.append(queries.setdefault(which, len(queries)))
        document.append(documents.setdefault(what, len(documents)))
        numbers.append(number)
        lines.append(line)
    codes, values = [np.array(each, np.int64) for each in (query, document)], np.array(numbers, np.float64)
    found = DocumentRows(list(queries), list(documents), codes[0], codes[1], values)
    _check_range(found, kind, place, lines)
    _check_once(found, place, lines)
    return found


def _in_range(found: DocumentRows, kind: str) -> bool:
    return not _wrong(found, kind).size


def _wrong(found: DocumentRows, kind: str) -> Ints:
    """Rows whose number is none of their kind."""
    numbers = found.numbers
    good = np.isfinite(numbers)
    if kind == JUDGEMENTS:
        good &= (numbers == np.trunc(numbers)) & (np.abs(numbers) < _LARGEST)
    return np.flatnonzero(~good)


def _check_range(found: DocumentRows, kind: str, place: str, lines: Sequence[int]) -> None:
    wrong = _wrong(found, kind)
    if wrong.size:
        need = "a whole number as relevance" if kind == JUDGEMENTS else "a finite number as score"
        row = int(wrong[0])
        raise InputError(f"{place}{lines[row]} must have {need} but has {found.numbers[row]:g}")


def _check_once(found: DocumentRows, place: str, lines: Sequence[int]) -> None:
    twice = _twice(found)
    if not twice.size:
        return
    keys = _keys(found)
    order = np.argsort(keys, kind="stable")
    again = order[1:][keys[order[1:]] == keys[order[:-1]]]
    second = int(again.min())
    first = int(np.flatnonzero(keys == keys[second])[0])
    document, query = found.documents[found.document[second]], found.queries[found.query[second]]
    raise InputError(
        f"{place}{lines[second]} must have another document of query {query!r} but {document!r} came in"
        f" {place.rpartition(', ')[2]}{lines[first]} before"
    )


def _keys(found: DocumentRows) -> Ints:
    """A number for each pair of query and document."""
    keys: Ints = found.query * max(len(found.documents), 1) + found.document
    return keys


def _twice(found: DocumentRows) -> Ints:
    """Pairs of query and document that come more than once."""
    keys = np.sort(_keys(found))
    twice: Ints = keys[1:][keys[1:] == keys[:-1]]
    return twice
