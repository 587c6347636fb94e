"""Frozen dataclasses that are quick to define.

``dataclass(frozen=True)`` writes the methods of a class as text and compiles it, which takes 0.3 to 0.6 ms: a tenth of
``valor-gpu detect`` on a small file went into that. Here all classes share methods that look at the fields.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, FrozenInstanceError, dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

_Class = TypeVar("_Class", bound=type)
_Instance = TypeVar("_Instance")

if TYPE_CHECKING:
    from typing import dataclass_transform
else:

    def dataclass_transform(**_: Any) -> Callable[[_Class], _Class]:
        """Of Python 3.11; only type checkers need it."""
        return lambda function: function


@dataclass_transform(eq_default=False, frozen_default=True, field_specifiers=(field,))
def frozen(cls: _Class) -> _Class:
    """What ``dataclass(frozen=True, eq=False)`` does; a method that the class itself defines stays.

    Fields of base classes, ``field(init=False)``, ``kw_only`` and ``slots`` are not for it. :mod:`dataclasses` knows
    the class: ``replace``, ``fields`` and ``is_dataclass`` serve.

    Example:
        >>> @frozen
        ... class Size:
        ...     width: int
        ...     height: int = 1
        >>> Size(4), Size(height=3, width=2).height
        (Size(width=4, height=1), 3)
        >>> Size(4).width = 5
        Traceback (most recent call last):
        dataclasses.FrozenInstanceError: cannot assign to field 'width'
    """
    dataclass(init=False, repr=False, eq=False)(cls)
    for name, method in (("__init__", _initialiser(cls)), *_METHODS.items()):
        if name not in vars(cls):
            setattr(cls, name, method)
            if name == "__init__":
                cls.__signature__ = _OwnSignature(method)  # type: ignore[attr-defined]
    return cls


def replaced(instance: _Instance, **changes: Any) -> _Instance:
    """What ``dataclasses.replace`` gives of an instance of a :func:`frozen` class, in a fifth of the time.

    Example:
        >>> @frozen
        ... class Size:
        ...     width: int
        ...     height: int = 1
        >>> replaced(Size(4), height=2)
        Size(width=4, height=2)
    """
    kind: Any = type(instance)
    fields, now = kind.__dataclass_fields__, vars(instance)
    values = {name: now[name] for name in fields} | changes  # not what was computed from other fields
    if len(values) != len(fields):
        raise TypeError(_wrong_arguments(kind.__name__, tuple(fields), (), changes, values))
    new = kind.__new__(kind)
    vars(new).update(values)
    if after := getattr(kind, "__post_init__", None):
        after(new)
    return new  # type: ignore[no-any-return]


def _initialiser(cls: Any) -> Callable[..., None]:
    fields = cls.__dataclass_fields__
    names = tuple(fields)
    defaults = {name: f.default for name, f in fields.items() if f.default is not MISSING}
    factories = [(name, f.default_factory) for name, f in fields.items() if f.default_factory is not MISSING]
    after = getattr(cls, "__post_init__", None)

    def initialise(self: Any, *args: Any, **kwargs: Any) -> None:
        given = dict(zip(names, args)) if args else {}
        given.update(kwargs)
        values = {**defaults, **given}
        for name, make in factories:
            if name not in values:
                values[name] = make()
        if values.keys() != fields.keys() or len(args) + len(kwargs) != len(given):
            raise TypeError(_wrong_arguments(cls.__name__, names, args, kwargs, values))
        vars(self).update(values)
        if after is not None:
            after(self)

    initialise.__name__, initialise.__qualname__ = "__init__", f"{cls.__qualname__}.__init__"
    return initialise


class _OwnSignature:
    """The ``__signature__`` of a class, made when somebody asks; the initialiser itself takes any arguments."""

    def __init__(self, initialiser: object) -> None:
        self._initialiser = initialiser

    def __get__(self, instance: object, owner: Any) -> Any:
        if owner.__init__ is not self._initialiser:
            raise AttributeError("__signature__")  # of a subclass with a constructor of its own
        from inspect import Parameter, Signature

        parameters = []
        for name, each in owner.__dataclass_fields__.items():
            default = Parameter.empty if each.default is MISSING else each.default
            default = default if each.default_factory is MISSING else each.default_factory
            kind = Parameter.POSITIONAL_OR_KEYWORD
            parameters.append(Parameter(name, kind, default=default, annotation=each.type))
        return Signature(parameters)


def _wrong_arguments(
    name: str, names: tuple[str, ...], args: tuple[Any, ...], kwargs: dict[str, Any], values: dict[str, Any]
) -> str:
    """What is wrong with the arguments of a constructor, as Python says it of a function."""
    if len(args) > len(names):
        return f"{name}() takes at most {len(names)} arguments but {len(args)} were given"
    twice = [field for field in names[: len(args)] if field in kwargs]
    if twice:
        return f"{name}() got multiple values for argument {twice[0]!r}"
    unknown = [field for field in values if field not in names]
    if unknown:
        return f"{name}() got an unexpected keyword argument {unknown[0]!r}"
    missing = [field for field in names if field not in values]
    return f"{name}() missing required arguments: {', '.join(map(repr, missing))}"


def _representation(self: Any) -> str:
    shown = ", ".join(f"{name}={getattr(self, name)!r}" for name, f in self.__dataclass_fields__.items() if f.repr)
    return f"{type(self).__qualname__}({shown})"


def _set(self: Any, name: str, value: Any) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _delete(self: Any, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


_METHODS = {"__repr__": _representation, "__setattr__": _set, "__delattr__": _delete}
