from __future__ import annotations

import math
from dataclasses import dataclass, field

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.contents import content
from valor_gpu.errors import InputError, SyncError
from valor_gpu.state import Spec, State, joined, least, merge_tensors, summed


@dataclass(frozen=True)
class Everything(State):
    rows: Tensor = joined()  # float32 [N, 2]
    flags: Tensor = joined()  # bool [N]
    counts: Tensor = summed()  # int64 [3]
    first: Tensor = least()  # int64 []
    lowest: Tensor = least()  # float64 [2]


def everything(seed: int, rows: int = 3, flags: int = 2) -> Everything:
    generator = torch.Generator().manual_seed(seed)
    return Everything(
        torch.rand(rows, 2, generator=generator),
        torch.rand(flags, generator=generator) < 0.5,
        torch.randint(100, (3,), generator=generator),
        torch.randint(100, (), generator=generator),
        torch.rand(2, generator=generator, dtype=torch.float64),
    )


states = st.builds(everything, st.integers(0, 99), st.integers(0, 4), st.integers(0, 4))


# Before the first example Hypothesis reads every module that is loaded, which it counts as a slow example.
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(states, states, states)
def test_merge_is_associative_and_empty_its_identity(a: Everything, b: Everything, c: Everything) -> None:
    assert content(a.merge(b).merge(c).tensors()) == content(a.merge(b.merge(c)).tensors())
    assert content(a.merge(a.empty()).tensors()) == content(a.tensors()) == content(a.empty().merge(a).tensors())


def test_merge_joins_in_order_adds_and_takes_the_least(device: torch.device) -> None:
    a, b = everything(0).to(device), everything(1)
    merged = a.merge(b)
    assert all(tensor.device == device for tensor in merged.tensors().values())
    assert merged.rows.tolist() == [*a.rows.tolist(), *b.rows.tolist()]
    assert merged.flags.tolist() == [*a.flags.tolist(), *b.flags.tolist()]
    assert merged.counts.tolist() == [x + y for x, y in zip(a.counts.tolist(), b.counts.tolist(), strict=True)]
    assert merged.first == min(int(a.first), int(b.first))
    assert merged.lowest.tolist() == list(map(min, zip(a.lowest.tolist(), b.lowest.tolist(), strict=True)))


def test_merge_tensors_takes_any_number() -> None:
    parts = [torch.tensor([3, 1]), torch.tensor([2, 2]), torch.tensor([5, 0])]
    assert merge_tensors("sum", parts).tolist() == [10, 3]
    assert merge_tensors("min", parts).tolist() == [2, 0]
    assert merge_tensors("cat", parts).tolist() == [3, 1, 2, 2, 5, 0]
    assert all(merge_tensors(kind, parts[:1]) is parts[0] for kind in ("sum", "min", "cat"))


def test_schema_tells_names_kinds_and_row_shapes() -> None:
    assert everything(0).schema() == everything(1, rows=0).schema()
    assert list(map(str, everything(0).schema())) == [
        "float32 [N, 2]",
        "bool [N]",
        "int64 [3]",
        "int64 []",
        "float64 [2]",
    ]
    assert [spec.row_bytes for spec in everything(0).schema()] == [8, 1, 24, 8, 16]
    assert [spec.joined for spec in everything(0).schema()] == [True, True, False, False, False]


def test_identity_is_typed_and_shaped() -> None:
    empty = everything(0).empty()
    assert empty.rows.shape == (0, 2) and empty.rows.dtype == torch.float32
    assert empty.counts.tolist() == [0, 0, 0]
    assert empty.first == torch.iinfo(torch.int64).max
    assert empty.lowest.tolist() == [math.inf, math.inf]


@pytest.mark.parametrize(
    ("value", "got"),
    [
        (torch.zeros(3, 2, dtype=torch.float64), r"torch.float64 \[3, 2\]"),
        (torch.zeros(3, 3), r"torch.float32 \[3, 3\]"),
        (torch.zeros(2), r"torch.float32 \[2\]"),
        (torch.zeros(()), r"torch.float32 \[\]"),
    ],
)
def test_another_dtype_or_shape_does_not_merge(value: Tensor, got: str) -> None:
    other = everything(1)
    wrong = Everything(value, other.flags, other.counts, other.first, other.lowest)
    with pytest.raises(InputError, match=rf"state field rows must be float32 \[N, 2\] but got {got}"):
        everything(0).merge(wrong)


def test_a_scalar_is_not_rows() -> None:
    with pytest.raises(InputError, match=r"state field x must be int64 \[N\] but got torch.int64 \[\]"):
        Spec("x", "cat", torch.int64, ()).check(torch.tensor(1))
    with pytest.raises(InputError, match="state field x must be a Tensor but got int"):
        Spec("x", "sum", torch.int64, ()).check(1)


def test_states_are_frozen_and_of_one_kind() -> None:
    @dataclass(frozen=True)
    class Other(State):
        counts: Tensor = summed()

    with pytest.raises(AttributeError, match="cannot assign to field"):
        everything(0).rows = torch.zeros(0, 2)  # type: ignore[misc]
    with pytest.raises(SyncError, match="a Everything merges with its own kind but got Other"):
        everything(0).merge(Other(torch.zeros(3)))  # type: ignore[arg-type]


def test_fields_must_be_declared_and_hold_tensors() -> None:
    @dataclass(frozen=True)
    class Undeclared(State):
        plain: Tensor = field()

    @dataclass(frozen=True)
    class Declared(State):
        rows: Tensor = joined()

    with pytest.raises(InputError, match=r"state field plain must be declared by summed\(\), joined\(\) or least\(\)"):
        Undeclared(torch.zeros(1)).schema()
    with pytest.raises(InputError, match="state field rows must be a Tensor but got list"):
        Declared([1]).schema()  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"state field rows must be rows \[N, ...\] but has no dimension"):
        Declared(torch.tensor(1)).schema()
