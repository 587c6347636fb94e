"""Frozen dataclasses behave as those of the standard library."""

from __future__ import annotations

import copy
import functools
import inspect
import pickle
from dataclasses import FrozenInstanceError, dataclass, field, fields, is_dataclass, replace
from typing import Any

import pytest

from valor_gpu._frozen import frozen, replaced


def made_by(decorator: Any) -> Any:
    """The same class, frozen by either."""

    @decorator
    class Made:
        first: int
        second: Any = 2
        third: list[int] = field(default_factory=list, metadata={"unit": "px"})
        hidden: int = field(default=4, repr=False)

        def __post_init__(self) -> None:
            assert self.first >= 0

    return Made


Ours, Theirs = made_by(frozen), made_by(dataclass(frozen=True, eq=False))
Ours.__qualname__ = "Ours"  # under which pickle finds it


@pytest.mark.parametrize("arguments", [((1,), {}), ((1, 5), {"third": [3]}), ((), {"first": 1, "hidden": 0})])
def test_instances_are_those_of_dataclasses(arguments: tuple[tuple[Any, ...], dict[str, Any]]) -> None:
    ours, theirs = (kind(*arguments[0], **arguments[1]) for kind in (Ours, Theirs))
    assert {name: getattr(ours, name) for name in vars(theirs)} == vars(theirs)
    assert repr(ours) == repr(theirs).replace("made_by.<locals>.Made", "Ours")
    assert ours != Ours(*arguments[0], **arguments[1])
    assert vars(replace(ours, first=7)) == {**vars(ours), "first": 7}
    assert vars(copy.deepcopy(ours)) == vars(pickle.loads(pickle.dumps(ours))) == vars(ours)


def test_the_class_is_a_dataclass_with_factories() -> None:
    assert is_dataclass(made_by(frozen))
    assert [f.name for f in fields(Ours)] == ["first", "second", "third", "hidden"]
    assert fields(Ours)[2].metadata == {"unit": "px"}
    assert Ours(1).third is not Ours(1).third
    with pytest.raises(AssertionError):
        Ours(-1)


def test_an_instance_with_other_fields_is_that_of_dataclasses() -> None:
    @frozen
    class Area:
        width: int
        height: int = 1

        @functools.cached_property
        def value(self) -> int:
            return self.width * self.height

        def __post_init__(self) -> None:
            if self.width < 0:
                raise ValueError("width must be 0 or more")

    small = Area(4)
    assert small.value == 4
    large = replaced(small, height=3)
    assert repr(large) == repr(replace(small, height=3)) and large.value == 12 and small.height == 1
    for make in (replaced, replace):
        with pytest.raises(TypeError, match="got an unexpected keyword argument 'depth'"):
            make(small, depth=1)
        with pytest.raises(ValueError, match="width must be 0 or more"):
            make(small, width=-1)


def test_nothing_is_assigned_or_deleted() -> None:
    made = Ours(1)
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'first'"):
        made.first = 2
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'first'"):
        del made.first


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((), {"second": 1}, r"Made\(\) missing required arguments: 'first'"),
        ((1,), {"fourth": 1}, r"Made\(\) got an unexpected keyword argument 'fourth'"),
        ((), {"fourth": 1}, r"Made\(\) got an unexpected keyword argument 'fourth'"),
        ((1,), {"first": 1}, r"Made\(\) got multiple values for argument 'first'"),
        ((1, 2, [], 4, 5), {}, r"Made\(\) takes at most 4 arguments but 5 were given"),
    ],
)
def test_wrong_arguments_are_named(args: tuple[Any, ...], kwargs: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        Ours(*args, **kwargs)


@frozen
class Signed:
    name: str
    sizes: list[int] = field(default_factory=list)
    level: int = 3


class Inherits(Signed):
    pass


class Renamed(Signed):
    def __init__(self, other: int) -> None:
        super().__init__(str(other))


def test_the_signature_is_that_of_the_fields() -> None:
    parameters = inspect.signature(Signed).parameters
    assert list(parameters) == ["name", "sizes", "level"] == list(inspect.signature(Inherits).parameters)
    assert parameters["name"].default is inspect.Parameter.empty and parameters["level"].default == 3
    assert parameters["sizes"].default is list and parameters["level"].annotation == "int"
    assert list(inspect.signature(Renamed).parameters) == ["other"]
