"""Names of columns, with what the rows that were read say of them; values by a name or by a path. No torch.

Example:
    >>> names = ColumnNames.of([{"id": 1, "outputs": {"answer": "four"}}], "all rows")
    >>> names, sorted(names.paths), value_at({"id": 1, "outputs": {"answer": "four"}}, "outputs.answer")
    (('id', 'outputs'), ['outputs.answer'], 'four')
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from valor_gpu.errors import InputError

MOST_COLUMNS = 100_000
_MOST_PATHS = 10_000
_DEEPEST = 8  # keys of a path


class ColumnNames(tuple[str, ...]):
    """Names of columns in the order of their appearance.

    Attributes:
        paths: of the values within columns that hold objects, keys joined by dots; None where they are not known.
        seen: of which rows they are, in words; empty where the data name their columns.
        is_partial: whether further rows were not looked at, which may have more.
    """

    paths: frozenset[str] | None = None
    seen: str = ""
    is_partial: bool = False

    @classmethod
    def of(cls, rows: Iterable[Mapping[str, Any]], seen: str, header: Iterable[str] | None = None) -> ColumnNames:
        """The names of rows.

        Args:
            rows: values by column.
            seen: which rows these are, in words.
            header: names of columns, where the data have them beside the rows.

        Raises:
            InputError: more than 100,000 names.
        """
        names: dict[str, None] = dict.fromkeys(header or ())
        paths: dict[str, None] = {}
        for row in rows:
            if header is None:
                names.update(dict.fromkeys(row))
            for name, value in row.items():
                if isinstance(value, Mapping) and len(paths) <= _MOST_PATHS:
                    paths.update(dict.fromkeys(_paths(name, value, _DEEPEST)))
            if len(names) > MOST_COLUMNS:
                raise InputError(f"data must have at most {MOST_COLUMNS:,} columns but have more")
        found = cls(names)
        found.paths = frozenset(paths) if len(paths) <= _MOST_PATHS else None
        found.seen = "" if header is not None else seen
        return found


def _paths(name: str, value: Mapping[str, Any], depth: int) -> Iterable[str]:
    for key, each in value.items():
        path = f"{name}.{key}"
        yield path
        if depth > 1 and isinstance(each, Mapping):
            yield from _paths(path, each, depth - 1)


def root_of(name: str, names: Iterable[str]) -> str | None:
    """The column that holds what a path with dots leads to, the one of the longest name; None without any.

    Example:
        >>> root_of("a.b.c", ["a", "a.b"]), root_of("x", ["x"])
        ('a.b', None)
    """
    known = names if isinstance(names, (dict, set, frozenset)) else set(names)
    parts = name.split(".")
    return next((root for n in range(len(parts) - 1, 0, -1) if (root := ".".join(parts[:n])) in known), None)


def value_at(values: Mapping[str, Any], name: str) -> Any:
    """The value of a name or, where there is none, of a path with dots into an object; None where it leads nowhere.

    Example:
        >>> value_at({"a": {"b": {"c": 1}}}, "a.b.c"), value_at({"a.b": 2, "a": {}}, "a.b"), value_at({"a": "x"}, "a.b")
        (1, 2, None)
    """
    if name in values or "." not in name:
        return values.get(name)
    root = root_of(name, values.keys() if isinstance(values, dict) else values)
    if root is None:
        return None
    inner = values[root]
    return value_at(inner, name[len(root) + 1 :]) if isinstance(inner, Mapping) else None


def leads_to(values: Mapping[str, Any], name: str) -> bool:
    """Whether a name or a path is there, whatever its value.

    Example:
        >>> leads_to({"a": {"b": None}}, "a.b"), leads_to({"a": {"b": None}}, "a.c")
        (True, False)
    """
    if name in values:
        return True
    root = root_of(name, values)
    return root is not None and isinstance(values[root], Mapping) and leads_to(values[root], name[len(root) + 1 :])


def within_another(values: Mapping[str, Any], name: str) -> str | None:
    """The column that holds, at the path of this name, a second value beside the one of this very name; else None.

    Example:
        >>> within_another({"a.b": 1, "a": {"b": 2}}, "a.b"), within_another({"a.b": 1, "a": {}}, "a.b")
        ('a', None)
    """
    root = root_of(name, values) if name in values else None
    found = root is not None and isinstance(values[root], Mapping) and leads_to(values[root], name[len(root) + 1 :])
    return root if found else None
