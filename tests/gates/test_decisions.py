"""Decisions with three values: a gate holds, does not hold, or cannot be decided."""

from __future__ import annotations

import itertools
import math
import operator

import pytest

from valor_gpu import Result, Signature
from valor_gpu.errors import InputError
from valor_gpu.gates import decide, failing, parse_gate
from valor_gpu.gates.subjects import subject_of
from valor_gpu.stats import Interval, Intervals

NUMBERS = {"yes": 1.0, "no": 0.0, "nan": math.nan, "none": None}
SIGNS = {
    ">=": operator.ge, "<=": operator.le, "==": operator.eq, "!=": operator.ne, ">": operator.gt, "<": operator.lt,
}  # fmt: skip


def nothing(name: str) -> str:
    return ""


def test_signs() -> None:
    for sign, compare in SIGNS.items():
        for value in (-1.0, 0.5, math.nextafter(0.5, 1), 2.0, math.inf):
            [found] = decide({"a": value}, [f"a {sign} 0.5"], nothing)
            assert found.holds is compare(value, 0.5), (sign, value)


def test_conjunctions_have_three_values() -> None:
    """A table of Kleene's three-valued logic, and what fails by it."""
    words = {"yes": True, "no": False, "nan": None, "none": None}
    for names in itertools.chain.from_iterable(itertools.product(words, repeat=n) for n in (1, 2, 3)):
        text = " and ".join(f"{name} > 0.5" for name in names)
        known = [words[name] for name in names]
        expected = False if False in known else None if None in known else True
        for fail_if in (False, True):
            [found] = decide(NUMBERS, [text], nothing, fail_if=fail_if)
            assert found.holds is expected
            assert found.failed is (expected is None or expected is fail_if)
            assert failing(NUMBERS, [text], nothing, fail_if=fail_if) == ([found] if found.failed else [])


def test_texts() -> None:
    reasons = {"nan": "no row has a score"}
    gates = ["yes > 0.5", "yes < 0.5", "nan > 0", "none > 0", "yes > 0 and nan > 0 and none > 0", "no > 0 and nan > 0"]
    assert [str(each) for each in decide(NUMBERS, gates, reasons.get)] == [
        "yes > 0.5 holds: it is 1",
        "yes < 0.5 does not hold: it is 1",
        "nan > 0 cannot be decided: there is no number, no row has a score",
        "none > 0 cannot be decided: there is no number",
        "yes > 0 and nan > 0 and none > 0 cannot be decided: there is no nan, no row has a score; there is no none",
        "no > 0 and nan > 0 does not hold: no is 0, nan is no number",
    ]


def test_one_gate_alone_and_gates_that_were_read() -> None:
    assert decide(NUMBERS, "yes > 0", nothing) == decide(NUMBERS, [parse_gate("yes > 0")], nothing)
    assert decide(NUMBERS, [], nothing) == []


def test_names_that_are_none() -> None:
    with pytest.raises(InputError, match="gate must name a number of the run but 'delta_mop' is none; did you mean"):
        decide({"delta_map": 0.0}, ["delta_map < 0 and delta_mop < 0"], nothing)
    with pytest.raises(InputError, match=r"but 'xyz' is none; there are map, mar$"):
        decide({"map": 0.0, "mar": 0.0, "map_per_class/cat": 0.0}, ["xyz < 0"], nothing)
    for name in ("delta_map", "p_map"):
        with pytest.raises(InputError, match=f"'{name}' is none: differences .* of two models: valor-gpu compare, or"):
            decide({"map": 0.0}, [f"{name} < 0"], nothing)


def test_ends_of_intervals_that_do_not_exist() -> None:
    intervals = Intervals({"map": Interval(0.3, 0.5), "map_small": Interval(math.nan, math.nan, reason="one image")})
    values = {"map": 0.4, "map_small": 0.1, "map_large": math.nan}
    result = Result(values, Signature({}), {"images": 3}, {"map_large": "no large object"}, intervals=intervals)
    numbers, reason = subject_of(result)
    gates = ["map_low > 0.2 and counts/images == 3", "map_small_low > 0", "map_large > 0"]
    assert [str(each) for each in decide(numbers, gates, reason)] == [
        "map_low > 0.2 and counts/images == 3 holds: map_low is 0.3, counts/images is 3",
        "map_small_low > 0 cannot be decided: there is no number, one image",
        "map_large > 0 cannot be decided: there is no number, no large object",
    ]
