"""Docstrings completed from base classes."""

from __future__ import annotations

import inspect
import pydoc

import pytest

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
        "    state: no parameter."
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
    assert "validate_args: changes nothing" in pydoc.render_doc(Informedness)


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
