"""Class hierarchies as users hold them, to the ancestors of every class. Imports no torch."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from valor_gpu.checks import check_type
from valor_gpu.errors import InputError

Name = str | int
_INT32 = range(-(2**31), 2**31)
_NESTED_KEYS = ("LabelName", "Subcategory", "Part")


@dataclass(frozen=True, eq=False)
class ClassHierarchy:
    """What every class also is: a car is a vehicle.

    Attributes:
        ancestors: label to the labels of its parents, their parents and so on, each once, ascending; ``{}`` without a
            hierarchy.
        names: label to name, where the user gave names.
        known: every label that may occur, None for any.
    """

    ancestors: Mapping[int, tuple[int, ...]]
    names: Mapping[int, str]
    known: frozenset[int] | None

    @classmethod
    def of(cls, hierarchy: Mapping[Any, Any] | None, class_labels: Mapping[str, int] | None) -> ClassHierarchy:
        """Reads a hierarchy in one of its two forms.

        Args:
            hierarchy: the JSON of Open Images, nodes ``{"LabelName": ..., "Subcategory": [...], "Part": [...]}``; or a
                dict from a class to its parent or to a list of parents; None: no class has a parent. A part is no kind
                of its whole, so ``Part`` makes no parent. The root of the nested form stands for everything: it is a
                class only if ``class_labels`` has it.
            class_labels: name to integer label; None if classes are named by their labels.

        Raises:
            InputError: a class is its own ancestor, has no label, or the hierarchy is malformed.

        Example:
            >>> tree = ClassHierarchy.of({"car": "vehicle", "bus": "vehicle"}, {"vehicle": 0, "car": 1, "bus": 2})
            >>> tree.ancestors
            {1: (0,), 2: (0,)}
        """
        labels = _class_labels(class_labels)
        if hierarchy is None:
            return cls({}, _names(labels), frozenset(labels.values()) if labels is not None else None)
        check_type("hierarchy", hierarchy, Mapping)  # type: ignore[type-abstract]
        nested = any(key in hierarchy for key in _NESTED_KEYS)
        parents = _nested_parents(hierarchy, labels) if nested else _plain_parents(hierarchy, labels)
        names = _names(labels)
        known = frozenset(labels.values()) if labels is not None else frozenset(parents) if nested else None
        return cls({k: v for k, v in _ancestors(parents, names).items() if v}, names, known)

    @property
    def depth(self) -> int:
        """The largest number of ancestors that a class has."""
        return max(map(len, self.ancestors.values()), default=0)

    @property
    def digest(self) -> str:
        """Text by which configurations compare: how many classes have ancestors, and a hash of all that counts."""
        known = None if self.known is None else sorted(self.known)
        content = repr((sorted(self.ancestors.items()), known))
        return f"{len(self.ancestors)} classes with ancestors, {hashlib.sha256(content.encode()).hexdigest()[:12]}"

    def name(self, label: int) -> str:
        """What results call a class."""
        return self.names.get(label, str(label))


def _class_labels(class_labels: Mapping[str, int] | None) -> dict[str, int] | None:
    if class_labels is None:
        return None
    check_type("class_labels", class_labels, Mapping)  # type: ignore[type-abstract]
    seen: dict[int, str] = {}
    for name, label in class_labels.items():
        check_type("a name in class_labels", name, str)
        _check_label(f"class_labels[{name!r}]", label)
        if label in seen:
            raise InputError(f"class_labels must give every class its own label but {seen[label]!r} and {name!r}"
                             f" have {label}")  # fmt: skip
        seen[label] = name
    return dict(class_labels)


def _check_label(name: str, label: object) -> None:
    if isinstance(label, bool) or not isinstance(label, int) or label not in _INT32:
        raise InputError(f"{name} must be an int that fits in int32 but is {label!r}")


def _names(labels: Mapping[str, int] | None) -> dict[int, str]:
    return {label: name for name, label in (labels or {}).items()}


def _label(name: Any, labels: Mapping[str, int] | None, where: str) -> int:
    """The label of a class that the hierarchy names."""
    if labels is None:
        if isinstance(name, str):
            raise InputError(
                f"class_labels must give the integer label of every class, since {where} is named {name!r}"
            )
        _check_label(where, name)
        return int(name)
    if isinstance(name, str) and name in labels:
        return labels[name]
    raise InputError(f"{where} must be a name in class_labels but is {name!r}")


def _plain_parents(hierarchy: Mapping[Any, Any], labels: Mapping[str, int] | None) -> dict[int, set[int]]:
    """Label to labels of its parents, from class to parent or parents."""
    parents: dict[int, set[int]] = {}
    for child, above in hierarchy.items():
        many = above if isinstance(above, Iterable) and not isinstance(above, (str, bytes, Mapping)) else [above]
        label, place = _label(child, labels, "a class in hierarchy"), f"a parent of {child!r} in hierarchy"
        parents[label] = {_label(name, labels, place) for name in many}
    return parents


def _nested_parents(root: Mapping[str, Any], labels: Mapping[str, int] | None) -> dict[int, set[int]]:
    """Label to labels of its parents, from nested nodes."""
    parents: dict[int, set[int]] = {}
    nodes: list[tuple[Mapping[str, Any], int | None, str]] = [(root, None, "hierarchy")]
    seen: set[int] = set()  # nodes that were walked: an object may stand in several places, or inside of itself
    while nodes:  # no recursion: a file may be nested deeper than Python's stack
        node, parent, where = nodes.pop()
        check_type(where, node, Mapping)  # type: ignore[type-abstract]
        name, own = node.get("LabelName"), None
        if node is not root or (name in labels if isinstance(name, str) and labels is not None else False):
            own = _label(name, labels, f"{where}['LabelName']")
            parents.setdefault(own, set()).update(() if parent is None else (parent,))
        if id(node) in seen:
            continue
        seen.add(id(node))
        nodes += [(child, own, f"{where}['Subcategory'][{i}]") for i, child in _children(node, "Subcategory", where)]
        nodes += [(part, None, f"{where}['Part'][{i}]") for i, part in _children(node, "Part", where)]
    return parents


def _children(node: Mapping[str, Any], key: str, where: str) -> Iterator[tuple[int, Any]]:
    children = node.get(key, [])
    check_type(f"{where}[{key!r}]", children, (list, tuple))
    return enumerate(children)


def _ancestors(parents: Mapping[int, set[int]], names: Mapping[int, str]) -> dict[int, tuple[int, ...]]:
    """Label to all its ancestors; a class that is reached by two ways counts once."""
    found: dict[int, set[int]] = {}
    for start in parents:
        path = [start]
        while path:
            label = path[-1]
            missing = next((p for p in sorted(parents.get(label, ())) if p not in found), None)
            if missing is None:
                above = parents.get(label, set())
                found[label] = above.union(*(found[p] for p in above))
                path.pop()
            elif missing in path:
                cycle = [*path[path.index(missing) :], missing]
                text = " -> ".join(repr(names.get(c, c)) for c in cycle)
                raise InputError(f"hierarchy must have no cycle but {text} (from class to parent)")
            else:
                path.append(missing)
    return {label: tuple(sorted(found[label])) for label in sorted(parents)}
