"""Conditions on columns, and what joins them: expressions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu.checks import check_type
from valor_gpu.errors import InputError
from valor_gpu.valor.filters.fields import AREAS, FIELDS, GEOMETRIES, KIND, field_values, place_of
from valor_gpu.valor.filters.geometries import KINDS, Geometries, of_metadata
from valor_gpu.valor.filters.names import choose
from valor_gpu.valor.filters.relations import RELATIONS
from valor_gpu.valor.filters.values import COMPARE, holds, is_geometry, read_value

if TYPE_CHECKING:
    from valor_gpu.valor.columns import Columns, Rows

Mask = NDArray[np.bool_]

OPERATORS = (*COMPARE, *RELATIONS, "isnull", "isnotnull")
_TEXTS = ("datum.uid", "label.key", "label.value", KIND)


MAX_DEPTH = 100
"""Expressions inside one another: a few calls for each stay below Python's limit of 1000."""


def check_depth(name: str, depth: int) -> None:
    """Raises unless an expression of this depth can be evaluated."""
    if depth > MAX_DEPTH:
        raise InputError(
            f"{name} must hold at most {MAX_DEPTH} expressions inside one another but holds {depth} or more"
        )


class Expression:
    """What can be joined with ``&`` and ``|`` and turned round with ``~``."""

    def __and__(self, other: Expression) -> Expression:
        return And(self, other)

    def __or__(self, other: Expression) -> Expression:
        return Or(self, other)

    def __invert__(self) -> Expression:
        return Not(self)

    @property
    def depth(self) -> int:
        """How many expressions it holds inside one another, itself included."""
        return 1

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
        self.parts: tuple[Expression, ...] = ()
        for part in parts:
            check_type(type(self).__name__, part, Expression)
            # Joining in a loop makes one long expression of one level.
            self.parts += part.parts if type(part) is type(self) else (part,)  # type: ignore[attr-defined]
        self._depth = 1 + max(part.depth for part in self.parts)
        check_depth(type(self).__name__, self._depth)

    @property
    def depth(self) -> int:
        """See :class:`Expression`."""
        return self._depth

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

    def __post_init__(self) -> None:
        check_depth("Not", self.depth)

    def __invert__(self) -> Expression:
        return self.part

    @property
    def depth(self) -> int:
        """See :class:`Expression`."""
        return 1 + self.part.depth

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
        field: one of ``FIELDS``.
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
        choose("op", self.op, OPERATORS)
        choose("field", self.field, FIELDS)
        if (self.key is not None) != (".metadata" in self.field):
            raise InputError(f"key must name metadata and nothing else but got {self.key!r} with {self.field}")
        if self.op in ("isnull", "isnotnull"):
            if self.value is not None:
                raise InputError(f"value of {self.op} on {self.place} must be None but got {self.value!r}")
            return
        if self.value is None:
            raise InputError(f"value of {self.op} on {self.place} must be given but got None")
        object.__setattr__(self, "value", self._read_value())
        self._check_value()

    @property
    def place(self) -> str:
        """The field as messages name it."""
        return place_of(self.field, self.key)

    def _read_value(self) -> Any:
        place = f"value of {self.op} on {self.place}"
        if self.op != "isin":
            return read_value(place, self.value)
        try:
            if not isinstance(self.value, (str, bytes)):
                return frozenset(read_value(place, value) for value in self.value)
        except TypeError:
            pass
        raise InputError(f"{place} must be a list of hashable values but got {self.value!r}")

    def _check_value(self) -> None:
        name = f"value of {self.op} on {self.place}"
        placed = self.field in GEOMETRIES
        if self.op in RELATIONS:
            if not placed and not self.field.endswith(".metadata"):
                raise InputError(f"{self.op} must be asked of a geometry but is of {self.place}")
            if not is_geometry(self.value):
                raise InputError(f"{name} must be a geometry, an object or GeoJSON, but got {self.value!r}")
        elif placed or is_geometry(self.value):
            raise InputError(
                f"{self.place} must be asked {', '.join(RELATIONS)}, isnull or isnotnull of a geometry, or its "
                f"area, but is asked {self.op}"
            )
        if self.op == "contains" and self.field in _TEXTS:
            check_type(name, self.value, str)
        if self.field == KIND and self.op in ("eq", "ne", "isin"):
            for value in self.value if self.op == "isin" else [self.value]:
                choose(name, value, KINDS)
        if (self.field in AREAS or self.field == "score") and self.op not in ("isin", "contains"):
            check_type("value of a condition on " + self.place, self.value, (int, float))

    def mask(self, rows: Rows, columns: Columns) -> Mask:
        """Which rows pass, bool ``[rows]``."""
        values, index = field_values(self.field, self.key, rows, columns)
        if isinstance(values, np.ndarray):
            return self._of_numbers(values)[index]
        if self.op in RELATIONS:
            found = values if isinstance(values, Geometries) else of_metadata(self.place, values)
            return found.related(self.place, self.op, self.value)[index]
        if isinstance(values, Geometries):
            return (~values.present() if self.op == "isnull" else values.present())[index]
        return self._of(values)[index]

    def conditions(self) -> Iterator[Condition]:
        """Itself."""
        yield self

    def _of(self, values: Sequence[Any]) -> Mask:
        if self.op in ("isnull", "isnotnull"):
            wanted = self.op == "isnull"
            return np.fromiter(((value is None) == wanted for value in values), np.bool_, len(values))
        results: dict[Any, bool] = {}  # values repeat; comparing typed ones is slow
        return np.fromiter((self._holds(value, results) for value in values), np.bool_, len(values))

    def _holds(self, value: Any, results: dict[Any, bool]) -> bool:
        if type(value) is not str:
            return holds(self.place, self.op, value, self.value)
        if value not in results:
            results[value] = holds(self.place, self.op, value, self.value)
        return results[value]

    def _of_numbers(self, numbers: NDArray[np.float64]) -> Mask:
        missing: Mask = np.isnan(numbers)
        if self.op in ("isnull", "isnotnull"):
            return missing if self.op == "isnull" else ~missing
        if self.op in ("contains", "isin"):
            return self._of([None if number != number else number for number in numbers.tolist()])
        found: Mask = COMPARE[self.op](numbers, self.value)
        return found & ~missing
