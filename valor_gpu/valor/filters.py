"""Filters: conditions on datums, annotations, labels and scores, joined by and, or and not.

A condition compares a field: ``datum_uid``, ``datum_metadata[name]``, ``annotation_metadata[name]``, ``label_key``,
``label_value`` or ``score``. It is evaluated once for each datum, annotation or label, then spread over the rows.
Where the field is missing (no such metadata, a score of ground truths) every comparison is false; only ``isnull`` is
true.
"""

from __future__ import annotations

import difflib
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu.checks import check_choice, check_type
from valor_gpu.errors import InputError
from valor_gpu.valor.columns import Columns, Rows

Mask = NDArray[np.bool_]

_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "gt": operator.gt,
    "gte": operator.ge,
    "lt": operator.lt,
    "lte": operator.le,
    "contains": lambda value, wanted: wanted in value,
    "isin": lambda value, wanted: value in wanted,
}
OPERATORS = (*_COMPARE, "isnull", "isnotnull")
_FIELDS = ("datum.uid", "datum.metadata", "annotation.metadata", "label.key", "label.value", "score")


class Expression:
    """What can be joined with ``&`` and ``|`` and turned round with ``~``."""

    def __and__(self, other: Expression) -> Expression:
        return And(self, other)

    def __or__(self, other: Expression) -> Expression:
        return Or(self, other)

    def __invert__(self) -> Expression:
        return Not(self)

    def __bool__(self) -> bool:
        raise InputError(
            f"expressions must be joined by &, | and ~ but {self!r} was asked for its truth, as and, or, not and "
            "chains such as 1 < field < 3 do"
        )

    def mask(self, rows: Rows, columns: Columns) -> Mask:
        """Which rows pass, bool ``[rows]``."""
        raise NotImplementedError

    def fields(self) -> set[str]:
        """Names of the fields that are compared."""
        return {condition.field for condition in self.conditions()}

    def conditions(self) -> Iterator[Condition]:
        """The comparisons that it is made of."""
        raise NotImplementedError


class _Joined(Expression):
    """Several expressions as one."""

    join: Callable[[Any, Any], Any]

    def __init__(self, *parts: Expression) -> None:
        if not parts:
            raise InputError(f"{type(self).__name__} must have at least one expression but has none")
        for part in parts:
            check_type(type(self).__name__, part, Expression)
        self.parts = parts

    def mask(self, rows: Rows, columns: Columns) -> Mask:
        masks = [part.mask(rows, columns) for part in self.parts]
        found: Mask = type(self).join.reduce(masks)  # type: ignore[attr-defined]
        return found

    def conditions(self) -> Iterator[Condition]:
        for part in self.parts:
            yield from part.conditions()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self.parts))})"


class And(_Joined):
    """Every expression holds."""

    join = np.logical_and


class Or(_Joined):
    """At least one expression holds."""

    join = np.logical_or


@dataclass(frozen=True)
class Not(Expression):
    """The expression does not hold."""

    part: Expression

    def mask(self, rows: Rows, columns: Columns) -> Mask:
        """Which rows pass, bool ``[rows]``."""
        return ~self.part.mask(rows, columns)

    def conditions(self) -> Iterator[Condition]:
        """The comparisons that it is made of."""
        return self.part.conditions()


@dataclass(frozen=True)
class Condition(Expression):
    """One comparison.

    Args:
        op: one of ``OPERATORS``.
        field: ``datum.uid``, ``datum.metadata``, ``annotation.metadata``, ``label.key``, ``label.value`` or ``score``.
        value: what the field is compared with; of ``isin`` several values; none of ``isnull`` and ``isnotnull``.
        key: the name of the metadata.

    Raises:
        InputError: no such operator or field, or a value that the operator cannot take.
    """

    op: str
    field: str
    value: Any = None
    key: str | None = None

    def __post_init__(self) -> None:
        check_choice("op", self.op, OPERATORS)
        check_choice("field", self.field, _FIELDS)
        if (self.key is not None) != self.field.endswith("metadata"):
            raise InputError(f"key must name metadata and nothing else but got {self.key!r} with {self.field}")
        if self.op in _COMPARE and self.value is None:
            raise InputError(f"value of {self.op} on {self._place} must be given but got None")
        if self.op == "isin":
            object.__setattr__(self, "value", self._members())
        if self.op == "contains" and self.field in ("datum.uid", "label.key", "label.value"):
            check_type(f"value of contains on {self._place}", self.value, str)

    @property
    def _place(self) -> str:
        """The field as messages name it."""
        return self.field if self.key is None else f"{self.field} {self.key}"

    def _members(self) -> frozenset[Any]:
        try:
            if not isinstance(self.value, (str, bytes)):
                return frozenset(self.value)
        except TypeError:
            pass
        raise InputError(f"value of isin on {self._place} must be a list of hashable values but got {self.value!r}")

    def mask(self, rows: Rows, columns: Columns) -> Mask:
        """Which rows pass, bool ``[rows]``."""
        if self.field == "score":
            return self._of_scores(rows.score)
        if self.field == "label.key":
            return self._of(key for key, _ in columns.labels)[rows.label]
        if self.field == "label.value":
            return self._of(value for _, value in columns.labels)[rows.label]
        if self.field == "datum.uid":
            return self._of(columns.datums)[rows.datum]
        entries = columns.datum_metadata if self.field == "datum.metadata" else rows.metadata
        return self._of((entry or {}).get(str(self.key)) for entry in entries)[
            rows.datum if self.field == "datum.metadata" else rows.annotation
        ]

    def conditions(self) -> Iterator[Condition]:
        """Itself."""
        yield self

    def _of(self, values: Any) -> Mask:
        return np.fromiter(map(self._holds, values), np.bool_)

    def _holds(self, value: Any) -> bool:
        if self.op in ("isnull", "isnotnull"):
            return (value is None) == (self.op == "isnull")
        if value is None:
            return False
        try:
            return bool(_COMPARE[self.op](value, self.value))
        except TypeError:
            raise InputError(
                f"{self._place} must compare with {self.value!r} by {self.op} but holds {value!r}"
            ) from None

    def _of_scores(self, scores: NDArray[np.float64]) -> Mask:
        missing: Mask = np.isnan(scores)
        if self.op in ("isnull", "isnotnull"):
            return missing if self.op == "isnull" else ~missing
        if self.op in ("contains", "isin"):
            return self._of(scores.tolist())
        check_type("value of a condition on score", self.value, (int, float))
        found: Mask = _COMPARE[self.op](scores, self.value)
        return found & ~missing


class Field:
    """A field to compare: ``==``, ``!=``, ``<`` and so on make a :class:`Condition`.

    Example:
        >>> datum_metadata["weather"] == "rain"
        Condition(op='eq', field='datum.metadata', value='rain', key='weather')
    """

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, name: str, key: str | None = None) -> None:
        self._name, self._key = name, key

    def _condition(self, op: str, value: Any = None) -> Condition:
        return Condition(op, self._name, value, self._key)

    def __eq__(self, value: object) -> Condition:  # type: ignore[override]
        return self._condition("eq", value)

    def __ne__(self, value: object) -> Condition:  # type: ignore[override]
        return self._condition("ne", value)

    def __gt__(self, value: Any) -> Condition:
        return self._condition("gt", value)

    def __ge__(self, value: Any) -> Condition:
        return self._condition("gte", value)

    def __lt__(self, value: Any) -> Condition:
        return self._condition("lt", value)

    def __le__(self, value: Any) -> Condition:
        return self._condition("lte", value)

    def contains(self, value: Any) -> Condition:
        """The field holds ``value``: part of a text, or member of a list."""
        return self._condition("contains", value)

    def isin(self, values: Iterable[Any]) -> Condition:
        """The field is one of ``values``."""
        return self._condition("isin", values)

    def isnull(self) -> Condition:
        """The field is missing."""
        return self._condition("isnull")

    def isnotnull(self) -> Condition:
        """The field is there."""
        return self._condition("isnotnull")


class _Metadata:
    """Fields by the name of the metadata."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getitem__(self, key: str) -> Field:
        return Field(self._name, key)


datum_uid = Field("datum.uid")
datum_metadata = _Metadata("datum.metadata")
annotation_metadata = _Metadata("annotation.metadata")
label_key = Field("label.key")
label_value = Field("label.value")
score = Field("score")


@dataclass(frozen=True)
class Filter:
    """What an evaluation keeps.

    Args:
        datums: of both sides; may compare ``datum_uid`` and ``datum_metadata``.
        groundtruths: rows of ground truths.
        predictions: rows of predictions. What is left need not sum to 1.

    Example:
        >>> night = Filter(datums=datum_metadata["time"] == "night", predictions=score >= 0.1)
    """

    datums: Expression | None = None
    groundtruths: Expression | None = None
    predictions: Expression | None = None

    def __post_init__(self) -> None:
        for name in ("datums", "groundtruths", "predictions"):
            check_type(name, getattr(self, name), (Expression, type(None)))
        other = (set() if self.datums is None else self.datums.fields()) - {"datum.uid", "datum.metadata"}
        if other:
            raise InputError(f"datums must compare datum.uid and datum.metadata only but compares {sorted(other)}")

    @classmethod
    def from_dict(cls, tree: Mapping[str, Any]) -> Filter:
        """From trees of ``{"op": "and", "args": [...]}``, ``{"op": "not", "args": expression}`` and conditions.

        A condition is ``{"op": "gt", "lhs": {"name": "datum.metadata", "key": "hour"}, "rhs": {"value": 3}}``.

        Raises:
            InputError: another key, operator or field, another number of expressions in ``not`` than one, or a
                condition without ``rhs`` whose operator needs one.

        Example:
            >>> tree = {"op": "eq", "lhs": {"name": "label.key"}, "rhs": {"value": "k"}}
            >>> Filter.from_dict({"groundtruths": tree}).groundtruths
            Condition(op='eq', field='label.key', value='k', key=None)
        """
        for name in tree:
            check_choice("filter", name, ("datums", "groundtruths", "predictions"))
        return cls(**{name: _expression(part) for name, part in tree.items() if part is not None})

    def masks(self, columns: Columns) -> tuple[Mask, Mask, Mask]:
        """Which datums, rows of ground truths and rows of predictions pass.

        Raises:
            InputError: a key of metadata that nothing has.
        """
        for expression, rows in (
            (self.datums, columns.groundtruths),
            (self.groundtruths, columns.groundtruths),
            (self.predictions, columns.predictions),
        ):
            for condition in () if expression is None else expression.conditions():
                _check_key(condition, columns, rows)
        every = np.arange(len(columns.datums), dtype=np.int32)
        datums = np.ones(len(every), np.bool_)
        if self.datums is not None:
            datums = self.datums.mask(Rows(every, every, every, np.zeros(0)), columns)
        sides = []
        for expression, rows in ((self.groundtruths, columns.groundtruths), (self.predictions, columns.predictions)):
            keep = datums[rows.datum]
            sides.append(keep if expression is None else keep & expression.mask(rows, columns))
        return datums, sides[0], sides[1]


def _check_key(condition: Condition, columns: Columns, rows: Rows) -> None:
    """Raises when a condition compares metadata that no datum or annotation has; there may be a typing error."""
    entries = {"datum.metadata": columns.datum_metadata, "annotation.metadata": rows.metadata}.get(condition.field)
    if entries is None or len(rows) == 0 or any(condition.key in entry for entry in entries if entry):
        return
    known = sorted({key for entry in entries for key in entry or ()})
    near = difflib.get_close_matches(str(condition.key), known) or known
    raise InputError(
        f"{condition.field} {condition.key!r} must be a key that some "
        f"{condition.field.split('.')[0]} has but none has it; there is {', '.join(map(repr, near)) or 'no metadata'}"
    )


def _expression(tree: Any) -> Expression:
    if not isinstance(tree, Mapping) or "op" not in tree:
        raise InputError(f"filter must be a dict with 'op' but got {tree!r}")
    op: Any = tree["op"]
    if op in ("and", "or", "not"):
        return _join(op, tree)
    field, value = (_side(tree, name) for name in ("lhs", "rhs"))
    return Condition(op, field.get("name", ""), value.get("value"), field.get("key"))


def _join(op: str, tree: Mapping[str, Any]) -> Expression:
    args: Any = tree.get("args")
    if args is None:
        raise InputError(f"filter {op!r} must have 'args' but has {sorted(tree)}")
    if op == "not" and isinstance(args, Mapping):
        args = [args]
    check_type(f"args of filter {op!r}", args, (list, tuple))
    if op == "not":
        if len(args) != 1:
            raise InputError(f"filter 'not' must have one expression but has {len(args)}")
        return Not(_expression(args[0]))
    return (And if op == "and" else Or)(*map(_expression, args))


def _side(tree: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    side = tree.get(name)
    if side is None:
        return {}
    check_type(f"{name} of filter {tree['op']!r}", side, Mapping)
    found: Mapping[str, Any] = side
    return found
