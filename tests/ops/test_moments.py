"""moments: kernels equal the definition by bytes, the definition exact fractions, whatever order and split of rows."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, library

from testing.examples_moments import PARAMETERS, pair, wild
from testing.parity import differences
from testing.registry import ROWS
from tests.fuzz import seeds
from tests.ops.backends import BACKENDS, SIM_SEEDS, kernel
from valor_gpu import native
from valor_gpu.errors import InputError
from valor_gpu.ops.error_codes import NO_ERROR, raise_error
from valor_gpu.ops.moments import launches, reference
from valor_gpu.ops.moments.kinds import NARROW, WIDE, Kind, limbs_for
from valor_gpu.ops.moments.op import Moments, describe_moment, moments
from valor_gpu.reduce.exact_sums import exact, rounded, unit

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
