"""The checks of what the simulator cannot show, run on the CPU as on a GPU; each is able to fail."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from benchmarks import gpu_process, gpu_unseen, gpu_unseen_cases, gpu_unseen_streams
from benchmarks.checks import Checks, Disagreement, Unavailable
from benchmarks.gpu_unseen_cases import FULL, SMALL
from testing.parity import differences
from testing.registry import ROWS, Example, Row, call, find, place
from valor_gpu.classification import Accuracy
from valor_gpu.ops import backends

CPU = torch.device("cpu")
BY_TORCH = {"order_records", "label_counts", "count_ground_truths", "rank_sums"}
"""Ops without a CUDA kernel."""


@pytest.mark.slow
def test_all_checks_pass_on_the_cpu() -> None:
    checks = Checks(show=lambda _: None)
    gpu_unseen.check_unseen(checks, CPU)
    others = {record["name"]: record["outcome"] for record in checks.records if record["outcome"] != "pass"}
    names = ["Triton beside CUDA C++", "pinned memory reused at once", "first calls of ops, in a capture"]
    for group in ("memory reused at once", "updates without a wait"):
        names += [f"{group}: {name}" for name in gpu_unseen_streams.WORKS]
    assert others == dict.fromkeys(names, "unavailable"), checks.records


def test_every_op_with_a_kernel_has_arguments() -> None:
    groups = [cases for cases, _ in gpu_unseen._GROUPS.values()]
    named = {op for cases in groups for op, _, _ in cases(SMALL)}
    named |= {"precision_recall"}  # within accumulate
    assert named == set(ROWS) - BY_TORCH
    assert {op.name for op in backends() if not op.cuda.kernel and not op.cuda.warning} == BY_TORCH
    assert FULL.items > 65_535 and FULL.pairs**2 > 65_535 and max(FULL.sorts) > 1 << 20


@pytest.mark.parametrize("group", gpu_unseen._GROUPS)
def test_arguments_are_valid(group: str) -> None:
    """The reference, which reads nothing beyond its tensors, gives the same."""
    tiny = replace(SMALL, items=9, pairs=5, sorts=(0, 1, 33))
    for op, name, arguments in gpu_unseen._GROUPS[group][0](tiny):
        row, kernels = ROWS[op], (call(op), find(op).reference)
        assert differences(*(row.defined(kernel(*arguments)) for kernel in kernels)) == "", f"{op}, {name}"


def wrong_in_call(number: int, op: str = "") -> Callable[[str], Callable[..., Any]]:
    """A dispatcher whose call with this number, counted from 0, of ``op`` or of any, gives other values."""
    made = []

    def dispatch(name: str) -> Callable[..., Any]:
        def run(*arguments: Any) -> Any:
            result = call(name)(*arguments)
            made.append(name)
            if op in ("", name) and sum(op in ("", each) for each in made) == number + 1:
                return result + 1 if isinstance(result, Tensor) else (result[0] + 1, *result[1:])
            return result

        return run

    return dispatch


@pytest.mark.parametrize("group", gpu_unseen._GROUPS)
@pytest.mark.parametrize("number", [1, 2])
def test_a_wrong_call_is_found(group: str, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    case = next(each for each in gpu_unseen._GROUPS[group][0](SMALL) if call(each[0])(*each[2])[0].numel())
    monkeypatch.setattr(gpu_unseen, "call", wrong_in_call(number))
    with pytest.raises(Disagreement, match="repeat 1: output 0" if number == 2 else ": output 0"):
        gpu_unseen._check_cases([case], CPU, 2)


def test_other_bits_of_a_nan_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    results = iter((torch.nan, torch.nan, -torch.nan))
    row = replace(ROWS["pack_masks"], defined=lambda result: (result,))
    monkeypatch.setitem(ROWS, "pack_masks", row)
    monkeypatch.setattr(gpu_unseen, "call", lambda _: lambda *_: torch.tensor([next(results)]))
    said = gpu_unseen.repeated_difference("pack_masks", (torch.zeros(1, 2, 2, dtype=torch.bool),), CPU, 2)
    assert said == "repeat 1: other bits of a NaN"


# -------------------------------------------------------------------------------------------------------- contraction


def test_a_fused_step_is_rounded_once() -> None:
    rng = np.random.default_rng(0)
    a, b, c = rng.random((3, 500)) * [[40], [40], [-900]]
    expected = [float(Fraction(x) * Fraction(y) + Fraction(z)) for x, y, z in zip(a, b, c)]
    assert gpu_unseen._rounded_once(a, b, c).tolist() == expected
    assert (a * b + c).tolist() != expected


@pytest.mark.parametrize(("op", "said"), [("box_iou", "IoU on the CPU against numpy"), ("assign", "matches")])
def test_contraction_is_found(op: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An IoU with a fused step, in place of that of the op, is noticed; and a match that follows from one."""
    *_, plain, fused = gpu_unseen.contracted_pairs(2000)
    assert len(plain) > 100 and (plain != fused).all() and abs(plain - fused).max() < 1e-15
    gpu_unseen.check_contraction(CPU, 2000)
    monkeypatch.setattr(gpu_unseen, "call", wrong_in_call(int(op == "assign"), op))
    with pytest.raises(Disagreement, match=said):
        gpu_unseen.check_contraction(CPU, 2000)
    with pytest.raises(Disagreement, match="of 3 pairs depend on contraction, of which 16 are needed"):
        gpu_unseen.check_contraction(CPU, 3)


def test_the_fused_iou_on_a_device_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    *_, plain, fused = gpu_unseen.contracted_pairs(2000)
    results = iter((plain, plain, fused, fused))

    def dispatch(name: str) -> Callable[..., Any]:
        return (lambda *_: torch.from_numpy(next(results))) if name == "box_iou" else call(name)

    monkeypatch.setattr(gpu_unseen, "call", dispatch)
    with pytest.raises(Disagreement, match=r"^IoU: output 0"):
        gpu_unseen.check_contraction(CPU, 2000)


# ------------------------------------------------------------------------------------------------- slices and Triton


def test_a_kernel_that_takes_no_slice_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def dispatch(name: str) -> Callable[..., Any]:
        def run(masks: Tensor) -> Any:
            words, areas = call(name)(masks)
            return words, areas + int(masks.data_ptr() % 16 != 0)

        return run

    monkeypatch.setattr(gpu_unseen, "ROWS", {"pack_masks": ROWS["pack_masks"]})
    gpu_unseen.check_slices(CPU)
    monkeypatch.setattr(gpu_unseen, "call", dispatch)
    with pytest.raises(Disagreement, match=r"pack_masks, .*: output 1"):
        gpu_unseen.check_slices(CPU)


@pytest.mark.slow
def test_triton_is_named_only_where_it_served(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Unavailable, match=f"^Triton {REHEARSED}"):
        gpu_unseen.check_triton(CPU)
    op = next(op for op in backends() if op.name == "count_logits")
    row = ROWS["count_logits"]
    monkeypatch.setattr(gpu_unseen, "place", lambda row, example, _: place(row, example, CPU))
    monkeypatch.setattr(gpu_unseen, "backends", lambda: [replace(op, cuda=replace(op.cuda, kind="CUDA"))])
    monkeypatch.setitem(ROWS, "count_logits", replace(row, others=()))
    with pytest.raises(Unavailable, match="Triton is not installed: CUDA served"):
        gpu_unseen.check_triton(torch.device("cuda"))
    monkeypatch.setitem(ROWS, "count_logits", replace(row, others=(("Triton", call("count_logits")),)))
    gpu_unseen.check_triton(torch.device("cuda"))
    monkeypatch.setitem(ROWS, "count_logits", replace(row, others=(("Triton", wrong_in_call(5)("count_logits")),)))
    with pytest.raises(Disagreement, match=r"^Triton, torch.float32, 2 classes, 64 columns.*: output 0"):
        gpu_unseen.check_triton(torch.device("cuda"))


def test_a_wrong_count_of_logits_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_unseen, "call", wrong_in_call(5))
    with pytest.raises(Disagreement, match=r"served, torch.float32, 19 classes, 33 columns.*: output 0"):
        gpu_unseen.check_triton(CPU)


# ------------------------------------------------------------------------------------------- streams and first calls


class Forgetful(Accuracy):
    """Passes over its second update."""

    def update(self, preds: Any, target: Any) -> None:
        """Counts a batch."""
        if self.update_count != 1:
            super().update(preds, target)
        else:
            super().update(preds[:0], target[:0])


def forgetful(number: int) -> gpu_unseen_streams.Work:
    """Accuracy whose metric with this number, counted from 0, forgets."""
    numbers = itertools.count()

    def make() -> Any:
        return (Forgetful if next(numbers) == number else Accuracy)(num_classes=7)

    return gpu_unseen_streams.Work(make, gpu_unseen_streams._scores)


REHEARSED = "needs a CUDA device but this is cpu: the rest of the check ran"


@pytest.mark.parametrize("check", [gpu_unseen_streams.check_reuse, gpu_unseen_streams.check_queue])
def test_a_lost_update_is_found(check: Callable[..., None]) -> None:
    with pytest.raises(Unavailable, match=REHEARSED):
        check(CPU, forgetful(-1), 3)
    with pytest.raises(Disagreement, match="1 of 1 values"):
        check(CPU, forgetful(1), 3)


def test_the_default_stream_is_late_in_every_update(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing comes from the host once the streams sleep, since that would wait until they are awake."""
    said: list[str] = []
    streams = ["default"]

    @contextlib.contextmanager
    def entered(stream: str) -> Iterator[None]:
        streams.append(stream)
        yield
        streams.pop()

    class Noting:
        to = lambda self, _: self  # noqa: E731
        reset = lambda self: said.append("reset")  # noqa: E731
        update = lambda self, *_: said.append(f"update on {streams[-1]}")  # noqa: E731
        compute = lambda self: said.append("compute") or torch.ones(1)  # noqa: E731

    for name, replacement in (
        ("Stream", lambda _: "side"), ("default_stream", lambda _: "default"), ("stream", entered),
        ("synchronize", lambda _: said.append("wait")), ("_sleep", lambda _: said.append(f"sleep on {streams[-1]}")),
    ):  # fmt: skip
        monkeypatch.setattr(torch.cuda, name, replacement, raising=False)
    monkeypatch.setattr(gpu_unseen_streams, "on", lambda _, batch: said.append("copy") or batch)
    monkeypatch.setattr(gpu_unseen_streams, "poison", lambda *_: said.append(f"poison on {streams[-1]}"))
    monkeypatch.setattr(gpu_unseen_streams, "expected_of", lambda *_: torch.ones(1))
    work = gpu_unseen_streams.Work(Noting, lambda _: (torch.ones(1),))
    gpu_unseen_streams.check_reuse(torch.device("cuda"), work, 2)
    each = ["sleep on default", "update on side", "poison on side"]
    begin = ["copy", "copy", "update on default", "reset", "wait", "sleep on default", "sleep on side"]
    assert said == [*begin, *each, *each, "sleep on default", "compute", "wait"]


def test_pinned_memory_is_rehearsed() -> None:
    with pytest.raises(Unavailable, match=f"^pinned memory {REHEARSED}"):
        gpu_unseen_streams.check_pinned(CPU)


def test_a_table_that_another_has_overwritten_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_unseen_streams, "to_device", lambda table, _: table.clamp(max=98))
    with pytest.raises(Disagreement, match="output 99: 5000 of 5000 values"):
        gpu_unseen_streams.check_pinned(CPU)


def test_a_thread_with_other_numbers_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_unseen_streams, "WORKS", {"Accuracy": forgetful(2)})
    with pytest.raises(Disagreement, match="Accuracy: output 0: 1 of 1 values"):
        gpu_unseen_streams.check_threads(CPU, 3)
    broken = gpu_unseen_streams.Work(partial(Accuracy, num_classes=2), gpu_unseen_streams._scores)
    monkeypatch.setattr(gpu_unseen_streams, "expected_of", lambda *_: None)
    monkeypatch.setattr(gpu_unseen_streams, "WORKS", {"Accuracy": broken})
    with pytest.raises(Disagreement, match="InputError: "):
        gpu_unseen_streams.check_threads(CPU, 3)


def test_every_op_has_an_example_to_capture() -> None:
    assert {name for name, row in ROWS.items() if gpu_unseen_streams.example_of(row) is None} == set()


def test_first_calls_are_told_from_others(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    chosen = [op for op in backends() if op.name in ("box_iou", "count_top", "pack_masks", "order_records")]
    served = [replace(op, cuda=replace(op.cuda, kernel=call(op.name))) for op in chosen if op.name != "order_records"]
    monkeypatch.setattr(gpu_unseen_streams, "backends", lambda: [*served, next(o for o in chosen if o not in served)])
    calls: list[str] = []

    def capture(row: Row, example: Example, device: torch.device) -> str:
        calls.append(row.op)
        fails = {"box_iou": 1, "count_top": 2}.get(row.op, 0)
        return "no" if calls.count(row.op) <= fails else ""

    assert gpu_unseen_streams.first_calls(CPU, capture) == 1
    said = capsys.readouterr().out.splitlines()
    assert ["box_iou" in said[0], "in its first call: no" in said[0]] == [True, True]
    assert ["count_top" in said[1], "always: no" in said[1]] == [True, True]
    assert len(said) == 2 and "order_records" not in calls
    assert gpu_unseen_streams.first_calls(CPU, lambda *_: "") == 0


def test_a_process_that_fails_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(command: list[str], seconds: float, **choices: Any) -> gpu_process.Ended:
        assert command[-1] == "benchmarks.gpu_unseen_streams" and seconds == 45
        assert choices["environment"]["CUDA_MODULE_LOADING"] == "LAZY"
        return gpu_process.Ended(code, "box_iou, always: no\n")

    monkeypatch.setattr(gpu_process, "run", run)
    code: int | None = 0
    gpu_unseen_streams.check_first_calls(torch.device("cuda"))
    code = 1
    with pytest.raises(Disagreement, match=r"^box_iou, always: no$"):
        gpu_unseen_streams.check_first_calls(torch.device("cuda"))
    code = None
    with pytest.raises(Disagreement, match="the process took more than 45 s: box_iou, always: no"):
        gpu_unseen_streams.check_first_calls(torch.device("cuda"))


def test_ids_are_extreme() -> None:
    ids = gpu_unseen_cases._extreme_ids(1000)
    assert {-(2**63), 2**63 - 1, None} <= set(ids) and len(set(ids)) == 1 + sum(key is not None for key in ids)
    assert len(gpu_unseen_cases._extreme_ids(1)) == 1 and len(gpu_unseen_cases._extreme_ids(2)) == 2
