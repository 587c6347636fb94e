"""Fixtures that pytest finds where this package is installed. Loading it imports neither torch nor NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from valor_gpu.result import Result


@pytest.fixture
def assert_metrics(request: pytest.FixtureRequest) -> Callable[..., None]:
    """:func:`valor_gpu.testing.assert_metrics`, which also notes the numbers in the report of ``--junit-xml``.

    Each number that a condition names becomes a property of the test, whether or not the condition holds, so that a
    CI server can draw it over time.
    """
    from valor_gpu import testing
    from valor_gpu.gates.grammar import parse_gate

    # Not by the fixture record_property: it warns with the default junit_family, which some projects take as an error.
    properties = request.node.user_properties

    def check(result: Result, *gates: str) -> None:
        __tracebackhide__ = True
        numbers, _ = testing.gate_subject(result)
        for name in dict.fromkeys(name for gate in gates for name in parse_gate(gate).names):
            if name in numbers:
                properties.append((name, numbers[name]))
        testing.assert_metrics(result, *gates)

    return check
