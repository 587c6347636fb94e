"""Predictions of a classifier in a file: names of classes to indices, every odd value is an error with its line.

Imports no torch.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from valor_gpu.errors import InputError
from valor_gpu.inputs._table import WHOLE_NUMBER, whole_text
from valor_gpu.inputs.files import InputFile, Path
from valor_gpu.inputs.tables import Numbers, Table, column_names, read_table

IGNORED = -1
"""Target of a row that is left out."""

_SHOWN = 8  # names in a message


@dataclass(frozen=True)
class Columns:
    """Which columns of a file hold what; of ``scores``, ``prefix`` and ``pred`` exactly one is given.

    Attributes:
        target: true classes by name.
        scores: one column of scores (or lists of scores), or one per class.
        prefix: scores are the columns whose names begin with it; the rest of a name is that of the class.
        pred: predicted classes by name.
        weight: of each row.
        cluster: of each row, as text: rows of one cluster belong together.
    """

    target: str
    scores: tuple[str, ...] = ()
    prefix: str | None = None
    pred: str | None = None
    weight: str | None = None
    cluster: str | None = None


@dataclass(frozen=True, eq=False)
class Predictions:
    """N rows of predictions.

    Attributes:
        names: of the C classes; of a single column of scores, the second class is that of high scores.
        target: int64 ``[N]``, class index, or :data:`IGNORED`.
        scores: float64 ``[N, C]``; ``[N]`` of a single column; None where classes are predicted.
        labels: int64 ``[N]``, predicted class indices, or None.
        weight: float64 ``[N]`` or None.
        clusters: of the rows, or None.
    """

    names: tuple[str, ...]
    target: NDArray[np.int64]
    scores: Numbers | None = None
    labels: NDArray[np.int64] | None = None
    weight: Numbers | None = None
    clusters: tuple[str, ...] | None = None

    @property
    def binary(self) -> bool:
        """Whether there is one score per row."""
        return self.scores is not None and self.scores.ndim == 1


def read_predictions(
    path: Path, columns: Columns, labels: Sequence[str] | None = None, ignore: str | None = None
) -> Predictions:
    r"""Reads a file of predictions, see :func:`valor_gpu.inputs.tables.read_table` for its formats.

    Args:
        path: of the file; ``-`` reads standard input.
        columns: which ones to read.
        labels: names of the classes in the order of the scores. Default: the names of the score columns, after the
            prefix; 0, 1, ... for a column of lists; 0 and 1 for a single column; all that occur where classes are
            predicted, numbers before words.
        ignore: rows with this target are left out; one that is neither a class nor a target is an error.

    Raises:
        InputError: there is no row, a column is missing, predicted classes or their targets are fractions or empty, or
            no target is ever predicted (unless ``labels`` names them), a target or prediction is none of the classes,
            a score or weight is not a finite number, or a weight is negative; the message has the file, line and
            column.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder) / "a.jsonl"
        ...     _ = path.write_text('{"target": "cat", "guess": "dog"}\n{"target": "dog", "guess": "dog"}')
        ...     data = read_predictions(path, Columns("target", pred="guess"))
        >>> data.names, data.target.tolist(), data.labels.tolist()
        (('cat', 'dog'), [0, 1], [1, 1])
    """
    file = InputFile(path)
    scores = _score_columns(file, columns)
    texts = [column for column in (columns.target, columns.pred, columns.cluster) if column is not None]
    groups = [group for group in (scores, [columns.weight] if columns.weight else []) if group]
    table = read_table(file, texts, groups)
    if (
        labels is None
        and columns.pred is not None
        and all(map(WHOLE_NUMBER.fullmatch, {*table.texts[0], *table.texts[1]} - {"", ignore}))
    ):
        table = replace(table, texts=tuple(list(map(whole_text, cells)) for cells in table.texts))
        ignore = None if ignore is None else whole_text(ignore)
    if not table.texts[0]:
        raise InputError(f"{file.name} must have at least one row of predictions but has none")
    if columns.pred is not None and labels is None:
        _check_predicted_classes(table, columns.target, columns.pred, ignore)
    matrix = table.numbers[0] if scores else None
    names = _class_names(table, columns, scores, matrix, labels, ignore)
    if ignore is not None and ignore not in names and whole_text(ignore) not in set(map(whole_text, table.texts[0])):
        held = _listed(sorted(set(table.texts[0]), key=_order))
        raise InputError(f"ignore must be a class of column {columns.target!r} but got {ignore!r}: it holds {held}")
    target = _indices(table, columns.target, table.texts[0], names, ignore)
    weight = _weights(table, columns.weight, table.numbers[-1][:, 0]) if columns.weight else None
    clusters = None if columns.cluster is None else _clusters(table, columns.cluster)
    if matrix is None:
        predicted = _indices(table, texts[1], table.texts[1], names, None)
        return Predictions(names, target, labels=predicted, weight=weight, clusters=clusters)
    scores_of = matrix[:, 0] if matrix.shape[1] == 1 else matrix
    return Predictions(names, target, scores_of, weight=weight, clusters=clusters)


def _clusters(table: Table, column: str) -> tuple[str, ...]:
    cells = tuple(table.texts[-1])
    if "" in cells:
        raise InputError(f"{table.place(cells.index(''))}, column {column!r} must hold a cluster but is empty")
    return cells


def _score_columns(file: InputFile, columns: Columns) -> list[str]:
    if columns.prefix is None:
        return list(columns.scores)
    known = column_names(file)
    others = (columns.target, columns.weight, columns.cluster)
    found = [name for name in known if name.startswith(columns.prefix) and name not in others]
    if not found:
        raise InputError(f"{file.name} must have columns that begin with {columns.prefix!r} but has {_listed(known)}")
    return found


def _check_predicted_classes(table: Table, target: str, pred: str, ignore: str | None) -> None:
    """Raises where columns hold no classes, so that all numbers would be 0: scores, or other names than the targets."""
    known, predicted = set(table.texts[0]) - {ignore}, set(table.texts[1])
    for column, texts in zip((target, pred), table.texts):
        if "" in texts and ignore != "":
            raise InputError(
                f"{table.place(texts.index(''))}, column {column!r} must hold a class but is empty: ignore the empty"
                " class if such targets are to be left out, or name the classes as labels"
            )
        row = next((n for n, text in enumerate(texts) if _is_fraction(text)), None)
        if row is not None:
            raise InputError(
                f"{table.place(row)}, column {column!r} must hold classes but got {texts[row]!r}, a fraction: give"
                " scores as scores, or name the classes as labels"
            )
    if known and known.isdisjoint(predicted):
        held, shown = (_listed(sorted(texts, key=_order)) for texts in (known, predicted))
        raise InputError(
            f"{table.name}, column {pred!r} must hold the classes of column {target!r} ({held}) but has none of them:"
            f" it holds {shown}; if that is right, name all classes as labels"
        )


def _is_fraction(text: str) -> bool:
    return re.fullmatch(r"[-+]?\d*\.\d+([eE][-+]?\d+)?|[-+]?\d+[eE]-\d+", text) is not None and float(text) % 1 != 0


def _class_names(
    table: Table,
    columns: Columns,
    scores: Sequence[str],
    matrix: Numbers | None,
    labels: Sequence[str] | None,
    ignore: str | None,
) -> tuple[str, ...]:
    width = None if matrix is None else max(matrix.shape[1], 2)
    if labels is not None:
        names = tuple(labels)
        if width not in (None, len(names)):
            raise InputError(f"labels must name {width} classes in the order of the scores but names {len(names)}")
    elif width is None:
        found = {*table.texts[0], *table.texts[1]} - {ignore}
        names = tuple(sorted(found, key=_order))
    elif len(scores) == width:
        names = tuple(name.removeprefix(columns.prefix or "") for name in scores)
    else:
        names = tuple(map(str, range(width)))
    if len(set(names)) != len(names) or len(names) < 2:
        raise InputError(f"{table.name} must have at least two classes of different names but got {_listed(names)}")
    return names


def _order(name: str) -> tuple[bool, float, str]:
    """Numbers by value, then words."""
    try:
        return False, float(name), name
    except ValueError:
        return True, 0.0, name


def _listed(names: Sequence[str]) -> str:
    more = f", ... ({len(names)} in all)" if len(names) > _SHOWN else ""
    return f"{', '.join(names[:_SHOWN]) or 'none'}{more}"


def _indices(
    table: Table, column: str, texts: Sequence[str], names: Sequence[str], ignore: str | None
) -> NDArray[np.int64]:
    """Class index of every text: of the name that it is, else of the one that is the same number."""
    exact = {name: i for i, name in enumerate(names)}
    if ignore is not None:
        exact[ignore] = IGNORED
    # Of two names that are one number, such as 1 and 1.0, each is itself alone.
    index = {whole_text(name): i for name, i in exact.items()} if len(set(map(whole_text, exact))) == len(exact) else {}
    index |= exact
    found = [index.get(text, index.get(whole_text(text))) for text in texts]
    if None in found:
        row = found.index(None)
        raise InputError(
            f"{table.place(row)}, column {column!r} must be one of the classes {_listed(names)} but got {texts[row]!r}"
        )
    return np.array(found, np.int64)


def _weights(table: Table, column: str, weight: Numbers) -> Numbers:
    bad = weight < 0
    if bad.any():
        row = int(bad.argmax())
        raise InputError(
            f"{table.place(row)}, column {column!r} must hold a number of at least 0 but got {weight[row]}"
        )
    return weight
