"""Docstrings completed from base classes."""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import pydoc
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import pytest

import valor_gpu
from valor_gpu import options
from valor_gpu.argument_docs import arguments_of, documented
from valor_gpu.classification import Precision, StatScores
from valor_gpu.classification.ratio_base import RatioMetric


class Base:
    """Counts.

    Args:
        first: of two.
            Its second line.
        low, high: limits.
        unused: of the base alone.
    """


@documented
class Derived(Base):
    """Computes.

    Source: Somebody, 1999.

    Args:
        own: new here.

    Raises:
        ValueError: never.
    """

    def __init__(self, high: int, own: int, first: int, unheard_of: int = 0) -> None: ...


def test_arguments_come_in_the_order_of_the_signature_and_before_the_next_section() -> None:
    assert Derived.__doc__ == (
        "Computes.\n\nSource: Somebody, 1999.\n\nArgs:\n    low, high: limits.\n    own: new here.\n"
        "    first: of two.\n        Its second line.\n\nRaises:\n    ValueError: never."
    )


def test_further_positions_come_before_keywords() -> None:
    @arguments_of(Derived, lambda: None)
    def compare(first: int, /, *others: int, low: int = 0, **options: int) -> None:
        """Compares.

        Args:
            options: further keywords.
            others: further numbers.
        """

    names = re.findall(r"^ {4}(\w.*?):", str(compare.__doc__), re.M)
    assert names == ["first", "others", "low, high", "options"]


def test_entry_of_the_class_itself_stands_and_what_is_no_parameter_stays() -> None:
    @documented
    class Again(Derived):
        """Computes again.

        Args:
            first: as here.
            state: no parameter.
        """

    assert inspect.getdoc(Again) == (
        "Computes again.\n\nArgs:\n    low, high: limits.\n    own: new here.\n    first: as here.\n"
        "    state: no parameter.\n\nRaises:\n    ValueError: never."
    )


def test_class_without_docstring_keeps_none() -> None:
    @documented
    class Plain(Base):
        pass

    assert vars(Plain)["__doc__"] is None


def test_metric_lists_the_keywords_of_its_options_and_those_of_every_metric_in_one_entry() -> None:
    class Informedness(RatioMetric):
        """Computes informedness."""

    class Scores(StatScores):
        """Computes scores."""

    for kind in (Informedness, Scores):
        names = [line.strip().partition(":")[0] for line in str(kind.__doc__).splitlines() if line.startswith("    ")]
        assert {"num_classes", "ignore_index", "activation", "validate_args", "kwargs"} <= set(names)
        assert "compute_on_cpu" not in names
    assert "validate_args: has no effect" in pydoc.render_doc(Informedness)


def test_examples_stay_examples() -> None:
    assert Precision.__doc__ is not None and ">>> metric = Precision()\n" in Precision.__doc__


@pytest.mark.parametrize("kind", [RatioMetric, StatScores])
def test_documented_twice_is_documented_once(kind: type) -> None:
    before = kind.__doc__
    assert documented(kind).__doc__ == before


def test_function_takes_entries_of_the_first_source_that_has_them() -> None:
    @arguments_of(Derived, Base)
    def compute(first: int, low: int, other: int) -> None:
        """Computes at once."""

    assert compute.__doc__ == (
        "Computes at once.\n\nArgs:\n    first: of two.\n        Its second line.\n    low, high: limits."
    )


def test_class_takes_entries_of_a_function() -> None:
    @arguments_of(Derived)
    class Scaled:
        """Scales.

        Raises:
            TypeError: no number.
        """

        def __init__(self, first: int) -> None: ...

    assert Scaled.__doc__ == (
        "Scales.\n\nArgs:\n    first: of two.\n        Its second line.\n\nRaises:\n    TypeError: no number."
    )


def test_class_without_raises_takes_that_of_the_nearest_base_class_before_its_examples() -> None:
    @documented
    class Silent(Derived):
        """Computes in silence.

        Example:
            >>> 1
            1

        The end.
        """

        def __init__(self) -> None: ...

    assert Silent.__doc__ == (
        "Computes in silence.\n\nRaises:\n    ValueError: never.\n\nExample:\n    >>> 1\n    1\n\nThe end."
    )


def test_methods_are_completed_from_the_method_of_that_name() -> None:
    class Shape:
        def plot(self, ax: Any = None, size: int = 1) -> None:
            """Draws.

            Args:
                ax: axes.
                size: in inches.

            Raises:
                ValueError: no axes; another method has other errors.
            """

        def _hidden(self, rows: int) -> None:
            """Hides.

            Args:
                rows: a number.
            """

    @documented
    class Square(Shape):
        """A square."""

        def plot(self, ax: Any = None, size: int = 1) -> None:
            """Draws a square.

            Args:
                size: in pixels.
            """

        def _hidden(self, rows: int) -> None:
            """Hides a square."""

    assert Square.plot.__doc__ == ("Draws a square.\n\nArgs:\n    ax: axes.\n    size: in pixels.")
    assert Square._hidden.__doc__ == "Hides a square."
    assert str(Shape.plot.__doc__).startswith("Draws.\n") and "size: in inches." in str(Shape.plot.__doc__)


def test_order_of_bases_is_that_in_which_python_looks_them_up() -> None:
    class Left(Base):
        """Left."""

    class Right(Base):
        """Right.

        Args:
            first: of the right.
        """

    @documented
    class Both(Left, Right):
        """Both."""

        def __init__(self, first: int, low: int) -> None: ...

    assert Both.__doc__ == "Both.\n\nArgs:\n    first: of the right.\n    low, high: limits."


def test_shared_entry_leaves_out_the_names_that_have_one_of_their_own() -> None:
    @documented
    class Half(Base):
        """Half.

        Args:
            high: the limit.
        """

        def __init__(self, low: int, high: int) -> None: ...

    assert Half.__doc__ == "Half.\n\nArgs:\n    low: limits.\n    high: the limit."


def test_dataclass_describes_its_fields_as_attributes() -> None:
    @documented
    @dataclass
    class Point:
        """A point.

        Attributes:
            x: from the left.
            y: from the top.
        """

        x: int
        y: int

    @documented
    @dataclass
    class Corner(Point):
        """A corner.

        Attributes:
            y: from the bottom.
        """

        z: int

    assert Point.__doc__ == "A point.\n\nAttributes:\n    x: from the left.\n    y: from the top."
    assert Corner.__doc__ == "A corner.\n\nAttributes:\n    x: from the left.\n    y: from the bottom."


def test_generic_classes_and_wrapped_constructors() -> None:
    def logged(function: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> None:
            function(*args, **kwargs)

        return call

    T = TypeVar("T")

    class Box(Base, Generic[T]):
        """A box."""

    @documented
    class Crate(Box[int]):
        """A crate."""

        @logged
        def __init__(self, first: int) -> None: ...

    assert Crate.__doc__ == "A crate.\n\nArgs:\n    first: of two.\n        Its second line."


def test_nothing_that_a_docstring_says_is_lost() -> None:
    @documented
    class Typed(Base):
        """Typed.

        Args:
            As of :class:`Base`, and

            own (int): new here.

                A second paragraph.
            low:
                in the next line.

        A paragraph without a heading.

        Note:
            Stays.
        """

        def __init__(self, first: int, low: int, high: int, own: int) -> None: ...

    assert Typed.__doc__ == (
        "Typed.\n\nArgs:\n    As of :class:`Base`, and\n    first: of two.\n        Its second line.\n    low:\n"
        "        in the next line.\n    high: limits.\n    own (int): new here.\n\n        A second paragraph.\n\n"
        "A paragraph without a heading.\n\nNote:\n    Stays."
    )


@pytest.mark.parametrize("style", ["Parameters\n    ----------\n    first : int", ":param first: a number."])
def test_docstrings_in_other_styles_stay(style: str) -> None:
    kind = type("Other", (Derived,), {"__doc__": f"Others.\n\n    {style}\n    "})
    assert documented(kind).__doc__ == f"Others.\n\n    {style}\n    "


def test_classes_of_metrics_work_without_docstrings() -> None:
    program = "from valor_gpu.classification import Precision\nassert Precision.__doc__ is None\nprint(Precision())"
    run = subprocess.run([sys.executable, "-OO", "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.startswith("Precision(")


def parameters(function: Any) -> set[str]:
    """Names of the parameters of a constructor, with the keywords of an unpacked TypedDict but those of any metric."""
    names = set()
    for each in inspect.signature(function).parameters.values():
        names.add(each.name)
        if each.kind is each.VAR_KEYWORD and (unpacked := re.fullmatch(r"Unpack\[(\w+)\]", str(each.annotation))):
            names |= getattr(options, unpacked[1]).__annotations__.keys() - options.MetricOptions.__annotations__.keys()
    return names - {"self"}


def public_classes(package: str) -> list[type]:
    """The public classes of a package that can be made."""
    module = importlib.import_module(f"valor_gpu.{package}")
    return [kind for name in module.__all__ if isinstance(kind := getattr(module, name), type)]


def entries(doc: str | None, headings: str = "Args|Attributes") -> Iterator[tuple[str, str]]:
    """(names, entry) of the arguments or fields that a docstring describes, each entry in one line."""
    for section in re.findall(rf"^(?:{headings}):\n(.*?)(?=^\S|\Z)", inspect.cleandoc(doc or ""), re.M | re.S):
        for entry in re.split(r"^ {4}(?=\S)", section, flags=re.M)[1:]:
            yield entry.partition(":")[0], " ".join(entry.split())


@pytest.mark.parametrize("package", ["classification", "detection", "retrieval", "segmentation", "text", "coco"])
def test_every_parameter_of_a_public_class_is_described(package: str) -> None:
    for kind in public_classes(package):
        constructor = inspect.getattr_static(kind, "__init__")
        own = kind if constructor is object.__init__ or "__signature__" in vars(kind) else constructor
        taken = parameters(own)
        if taken >= options.NamedOptions.__annotations__.keys() - options.MetricOptions.__annotations__.keys():
            # A class of one task takes those that the class has that it is made of.
            bases = [parameters(vars(base)["__init__"]) for base in kind.__mro__[1:-1] if "__init__" in vars(base)]
            taken &= set(inspect.signature(own).parameters) | set().union(*bases)
        described = {name for names, _ in entries(kind.__doc__) for name in re.findall(r"\w+", names)}
        assert taken <= described, f"{kind.__name__} does not describe {sorted(taken - described)}"


@pytest.mark.parametrize("package", ["classification", "detection", "retrieval", "segmentation", "text"])
def test_errors_of_a_metric_are_of_its_own_parameters(package: str) -> None:
    for kind in (each for each in public_classes(package) if issubclass(each, valor_gpu.Metric)):
        foreign = set().union(*map(parameters, kind.__mro__[1:-1])) - parameters(kind)
        raises = " ".join(entry for _, entry in entries(kind.__doc__, "Raises"))
        assert not foreign & set(re.findall(r"``(\w+)``", raises)), kind.__name__


@pytest.mark.parametrize(
    "package",
    [
        "classification",
        "detection",
        "regression",
        "retrieval",
        "segmentation",
        "text",
        "compat/torchmetrics/functional",
    ],
)
def test_no_argument_is_described_twice_in_the_source(package: str) -> None:
    node_type = ast.FunctionDef if package.endswith("functional") else ast.ClassDef
    where: dict[str, list[str]] = {}
    for path in sorted((Path(valor_gpu.__file__).parent / package).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, node_type) and not node.name.startswith("_"):
                for _, entry in entries(ast.get_docstring(node), "Args"):
                    where.setdefault(entry, []).append(f"{path.name}:{node.name}")
    assert where
    twice = {entry: places for entry, places in where.items() if len(places) > 1 and len(entry) >= 40}
    assert not twice, "describe these in a common base class, or let arguments_of copy them"
