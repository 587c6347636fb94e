"""moments: kernels equal the definition by bytes, the definition exact fractions, whatever order and split of rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from testing.parity import differences
from testing.registry import ROWS
from tests.ops.backends import BACKENDS, kernel
from valor_gpu.ops.moments import launches, reference
from valor_gpu.ops.moments.kinds import Kind

NAME = "moments"
EXAMPLES = {example.name: example.arguments for example in ROWS[NAME].examples(True)}
EXACT = (Kind.ABSOLUTE, Kind.SQUARED, Kind.WEIGHTED, Kind.VARIANCE, Kind.PRODUCTS)


@pytest.fixture(params=BACKENDS)
def run(request: pytest.FixtureRequest) -> Callable[..., Any]:
    return kernel(request.param, NAME, launches.on_cuda)


@pytest.mark.smoke
def test_kernels_equal_the_definition(run: Callable[..., Any]) -> None:
    for name, arguments in EXAMPLES.items():
        assert differences(run(*arguments), reference.moments(*arguments)) == "", name
