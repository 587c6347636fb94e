"""Filters as dicts, the form of Valor's client and of JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.valor.filters.conditions import OPERATORS, And, Condition, Expression, Not, Or, check_depth
from valor_gpu.valor.filters.fields import FIELDS
from valor_gpu.valor.filters.names import choose

SIDES = ("datums", "groundtruths", "predictions")
_BOTH = ("annotations", "labels")
_ABSENT = ("datasets", "models", "embeddings")
_JOINS = {"and": And, "or": Or}
_ALIASES = {"label.score": "score"}
_TREE = {"op", "args"}
_CONDITION = {"op", "lhs", "lhs_key", "rhs", "rhs_key"}


def expressions(tree: Mapping[str, Any]) -> dict[str, Expression]:
    """The expressions of a filter by side; ``annotations`` and ``labels`` join those of both sides.

    Args:
        tree: see :meth:`valor_gpu.valor.filters.Filter.from_dict`.

    Raises:
        InputError: naming the place in the tree.
    """
    found = {}
    for name, part in tree.items():
        choose("filter", name, (*SIDES, *_BOTH, *_ABSENT))
        if part is None:
            continue
        if name in _ABSENT:
            raise InputError(f"filter {name!r} must be None, there are no {name} here to choose from, but got {part!r}")
        found[name] = _expression(name, part)
    both = [found.pop(name) for name in _BOTH if name in found]
    if both:
        for side in SIDES[1:]:
            parts = ([found[side]] if side in found else []) + both
            found[side] = parts[0] if len(parts) == 1 else And(*parts)
    return found


def _expression(place: str, tree: Any) -> Expression:
    if not isinstance(tree, Mapping) or "op" not in tree:
        raise InputError(f"filter {place} must be a dict with 'op' but got {tree!r}")
    op = choose(f"filter {place}.op", tree["op"], (*OPERATORS, *_JOINS, "not"))
    known = _TREE if op in _JOINS or op == "not" else _CONDITION
    for name in tree:
        choose(f"filter {place}", name, sorted(known))
    return _joined(place, op, tree) if known is _TREE else _condition(place, tree)


def _joined(place: str, op: str, tree: Mapping[str, Any]) -> Expression:
    args: Any = tree.get("args")
    if args is None:
        raise InputError(f"filter {place} must have 'args' for {op!r} but has {sorted(tree)}")
    if isinstance(args, Mapping) and (op == "not" or "op" in args):
        args = [args]  # Valor's client writes one expression without a list
    if not isinstance(args, (list, tuple)):
        raise InputTypeError(f"filter {place}.args must be list or tuple but got {type(args).__name__}")
    if not args or (op == "not" and len(args) > 1):
        wanted = "one expression" if op == "not" else "at least one expression"
        raise InputError(f"filter {place}.args must have {wanted} for {op!r} but has {len(args)}")
    check_depth(f"filter {place.split('.')[0]}", place.count(".args[") + 2)
    parts = [_expression(f"{place}.args[{number}]", part) for number, part in enumerate(args)]
    return Not(parts[0]) if op == "not" else _JOINS[op](*parts)


def _condition(place: str, tree: Mapping[str, Any]) -> Condition:
    name, key = _field(place, tree)
    value = _value(place, tree)
    try:
        return Condition(tree["op"], name, value, key)
    except InputError as error:
        raise type(error)(f"filter {place}: {error}") from None


def _field(place: str, tree: Mapping[str, Any]) -> tuple[str, str | None]:
    """Name and key of ``lhs``: a dict of both, or a name beside ``lhs_key``."""
    side: Any = tree.get("lhs")
    key = tree.get("lhs_key")
    if isinstance(side, Mapping):
        if key is not None:
            raise InputError(f"filter {place} must have the key in 'lhs' or in 'lhs_key' but has both")
        for part in side:
            choose(f"filter {place}.lhs", part, ("name", "key"))
        side, key = side.get("name"), side.get("key")
    name = _ALIASES.get(str(side), side)
    return choose(f"filter {place}.lhs", name, FIELDS), key


def _value(place: str, tree: Mapping[str, Any]) -> Any:
    """The value of ``rhs``: of type and value, or of a value alone."""
    side = tree.get("rhs")
    if tree.get("rhs_key") is not None:
        raise InputError(f"filter {place} must compare with a value but 'rhs_key' is {tree['rhs_key']!r}")
    if side is None:
        return None
    if not isinstance(side, Mapping):
        raise InputTypeError(f"filter {place}.rhs must be a dict but got {type(side).__name__}")
    for part in side:
        choose(f"filter {place}.rhs", part, ("type", "value"))
    if side.get("value") is None:
        return None
    if side.get("type") is None or tree["op"] == "isin":
        return side["value"]
    return {"type": side["type"], "value": side["value"]}
