"""Updates of pixel counts on CUDA, under the simulator: states and errors of the checked path, and few calls."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import pytest
import torch
from torch import Tensor

from tests.native import sim
from tests.native.pretend import here, pretending, there
from tests.native.pretend import on_device as moved
from tests.ops.backends import SIM_SEEDS
from tests.segmentation.test_small_updates import region_batch
from valor_gpu.errors import InputError
from valor_gpu.ops import _library
from valor_gpu.ops.error_codes import NO_ERROR
from valor_gpu.ops.one_hot import op as one_hot
from valor_gpu.ops.pixel_counts import op as pixel_counts
from valor_gpu.plans import checked_only
from valor_gpu.segmentation import IOU, DiceScore, GeneralizedDiceScore, MeanIoU, PixelConfusionMatrix, mIOU

MAPS = torch.tensor([[[0, 1, 1], [2, 2, 0]], [[1, 1, 1], [0, 2, 2]]]), torch.tensor([[[0, 1, 2]] * 2, [[1, 1, 0]] * 2])
LOGITS = torch.nn.functional.one_hot(MAPS[0], 3).movedim(-1, 1).float().contiguous()


@contextmanager
def cuda_kernels(capturing: bool = False) -> Iterator[list[str]]:
    """Within it tensors of the device take the plans and kernels of CUDA; gives the C functions that are looked up."""
    with (
        pretending(capturing) as called,
        mock.patch.object(pixel_counts, "_COUNT_PIXELS", pixel_counts._count_pixels_cuda),
        mock.patch.object(pixel_counts, "_COUNT_LOGITS", pixel_counts._count_logits_cuda),
        mock.patch.object(one_hot, "_COUNT_ONE_HOT", one_hot._count_one_hot_cuda),
    ):
        yield called


def state_of(metric: Any) -> dict[str, Any]:
    """The whole state by bytes, the error code too."""
    found = {}
    for name in metric._merge:
        value = here(metric.__dict__[name])
        value = torch.cat(value) if isinstance(value, list) and value else value
        found[name] = (value.dtype, value.shape, value.numpy().tobytes()) if isinstance(value, Tensor) else value
    return found


def planned(metric: Any, batch: tuple[Any, ...]) -> bool:
    return metric.update.step(metric._defaults, batch, {}) is not None


@pytest.fixture(autouse=True)
def every_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """No digest holds all the Python that these tests run."""
    monkeypatch.setattr(sim, "skips_known", False)


def random_batch(generator: torch.Generator, classes: int, form: str, ignore: int | None) -> tuple[Tensor, Tensor]:
    """Of any layout and dtype; of logits, one target in four has a value out of range."""
    if "logits" not in form:
        return region_batch(generator, classes, "index" if form == "pairs" else form, ignore)
    _, target = region_batch(generator, classes, "index", ignore)
    if float(torch.rand((), generator=generator)) < 0.25:
        target = target.long()
        target[-1, -1, -1] = 101
    logits = torch.randn(len(target), classes, *target.shape[1:], generator=generator)
    return logits.to((torch.float16, torch.float32, torch.float64)[classes % 3]), target


@pytest.mark.parametrize("form", ["index", "one-hot", "mixed", "logits", "pairs", "pairs of logits"])
@pytest.mark.parametrize("keep", [False, True])
def test_plans_of_random_maps_do_what_the_checked_path_and_the_cpu_do(form: str, keep: bool) -> None:
    generator = torch.Generator().manual_seed(len(form))
    served = bad = 0
    for turn in range(16):
        classes, ignore = (3 if "logits" in form else 1, 2, 5, 19)[turn % 4], (None, 0, 1, 77, -1)[turn % 5]
        kind: Any = PixelConfusionMatrix if "pairs" in form else (IOU, mIOU)[turn // 4 % 2]
        given = form if form in ("one-hot", "mixed") else "index"
        choices = dict(ignore_index=ignore, input_format=given, keep_images=keep)
        plain, metric, checked = (kind(classes, **choices) for _ in range(3))
        metric, checked = moved(metric), moved(checked)
        for _ in range(2):  # a plan adds to what is there
            sides = random_batch(generator, classes, form, ignore)
            batch = there(sides)
            with cuda_kernels():
                served += planned(metric, batch)
                metric.update(*batch)
                with checked_only():
                    checked.update(*batch)
            assert state_of(metric) == state_of(checked)
            if (failed := int(here(metric.error)) != NO_ERROR) == 0:
                plain.update(*sides)
                assert state_of(metric) == state_of(plain)
        bad += failed
    assert served > 24 and bad > 1


ALLOCATIONS = {"aten::empty_like", "aten::empty", "aten::empty_strided", "aten::new_empty"}
CASES: dict[str, tuple[Any, tuple[Tensor, Tensor], str, list[str]]] = {
    "MeanIoU": (lambda: MeanIoU(3, input_format="index"), MAPS, "pixels", ["begin", "count_maps", "end"]),
    "DiceScore": (lambda: DiceScore(3, input_format="index"), MAPS, "pixels", ["begin", "count_maps", "end"]),
    "one-hot": (lambda: GeneralizedDiceScore(3), (LOGITS.bool(),) * 2, "one_hot", ["begin", "count_one_hot", "end"]),
    "IOU": (lambda: IOU(3), MAPS, "pixels", ["begin", "count_maps"]),
    "ignore": (lambda: IOU(3, ignore_index=1), MAPS, "pixels", ["begin", "count_maps", "end"]),
    "logits": (lambda: IOU(3), (LOGITS, MAPS[1]), "pixels", ["begin", "count_logits"]),
    "scores": (lambda: MeanIoU(3), (LOGITS, LOGITS.bool()), "one_hot", ["begin", "count_one_hot", "end"]),
    "pairs": (lambda: PixelConfusionMatrix(3), MAPS, "pixels", ["begin", "count_maps"]),
    "pairs of images": (
        lambda: PixelConfusionMatrix(3, keep_images=True),
        MAPS,
        "pixels",
        ["begin", "count_maps", "end"],
    ),
    "kept images": (lambda: IOU(3, keep_images=True), MAPS, "pixels", ["begin", "count_maps", "end"]),
}


@pytest.mark.parametrize("case", CASES)
def test_an_update_is_one_call_of_c_and_allocations(case: str) -> None:
    make, sides, name, kernels = CASES[case]
    metric, plain, batch = moved(make()), make(), there(sides)
    with cuda_kernels() as called:
        metric.update(*batch)
        called.clear()
        sim.launches()
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as watched:
            metric.update(*batch)
        launched = sim.launches()
    assert called == [f"valor_add_{name}_cuda"]
    assert [text.lstrip("(").split("<")[0].removesuffix("_kernel") for text in launched] == kernels
    ops = {event.name for event in watched.events() or () if event.name.startswith("aten::")}
    # Of tensors that say they lie on a GPU, of fresh memory in tests, and of argmax itself.
    marks = {"aten::alias", "aten::fill_", "aten::as_strided"}
    assert ops - marks - ALLOCATIONS == ({"aten::argmax"} if case == "scores" else set())
    for _ in range(2):
        plain.update(*sides)
    assert state_of(metric) == state_of(plain)
    assert torch.equal(here(metric.state().seen), plain.state().seen)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("case", CASES)
def test_plans_on_a_gpu(case: str) -> None:
    make, sides, *_ = CASES[case]
    plain, metric = make(), make().to("cuda")
    batch = tuple(side.to("cuda") for side in sides)
    assert planned(metric, batch)
    for _ in range(3):
        metric.update(*batch)
        plain.update(*sides)
    assert torch.equal(metric.compute().cpu(), plain.compute())
    assert state_of(metric.to("cpu")) == state_of(plain)
    if case not in ("one-hot", "scores"):
        bad = batch[1].clone()
        bad[1, 0, 2] = 9
        metric.to("cuda").update(batch[0], bad)
        with pytest.raises(InputError, match=r"target\[1\] must hold a class index from 0 to 2 but element 2 of that"):
            metric.compute()


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("form", ["scores", "both", "target"])
def test_scores_beside_one_hot_maps_stand_for_their_largest(form: str, layout: torch.memory_format) -> None:
    generator = torch.Generator().manual_seed(3)
    plain = mIOU(3, input_format="one-hot", ignore_index=1)
    metric = moved(plain)
    for _ in range(2):
        scores, other = (torch.randn(2, 3, 5, 4, generator=generator).half().to(memory_format=layout) for _ in range(2))
        hot = other > 0
        sides = {"scores": (scores, hot), "both": (scores, other), "target": (hot, scores)}[form]
        with cuda_kernels():
            assert planned(metric, there(sides))
            metric.update(*there(sides))
        plain.update(*sides)
        assert state_of(metric) == state_of(plain)


@pytest.mark.parametrize("seed", SIM_SEEDS)
def test_tables_of_several_blocks_in_any_order(seed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VALOR_SIM_SEED", seed)
    generator = torch.Generator().manual_seed(int(seed))
    for make, images in ((lambda: PixelConfusionMatrix(70, ignore_index=7), 2), (lambda: mIOU(400, ignore_index=7), 3)):
        metric, plain = moved(make()), make()
        for _ in range(2):
            sides = tuple(torch.randint(70, (images, 9, 40), generator=generator) for _ in range(2))
            with cuda_kernels():
                metric.update(*there(sides))
            plain.update(*sides)
            assert state_of(metric) == state_of(plain)


def test_names_of_arguments_change_nothing() -> None:
    metric, plain = moved(IOU(3)), IOU(3)
    named = {"target": MAPS[1], "preds": MAPS[0]}
    with cuda_kernels():
        assert metric.update.step(metric._defaults, (), there(named)) is not None
        assert metric.update.step(metric._defaults, there(MAPS), {"weight": None}) is None
        metric.update(**there(named))
    plain.update(**named)
    assert state_of(metric) == state_of(plain)


def test_an_error_stays_the_first_and_the_state_before_is_left_alone() -> None:
    metric, bad = moved(IOU(3)), MAPS[0].clone()
    bad[1, 0, 2] = 9
    with cuda_kernels():
        metric.update(*there(MAPS))
        before = dict(metric.__dict__)
        kept = state_of(metric)
        metric.update(*there((bad, MAPS[1])))
        metric.update(*there((MAPS[0], bad)))
        last = int(here(metric.error))
        for name in metric._merge:
            assert metric.__dict__[name] is not before[name] or name == "signature"
        metric.__dict__.update({name: before[name] for name in metric._merge})
    assert state_of(metric) == kept
    first = "target[1] must hold a class index from 0 to 2 but element 2 of that image"  # the smaller code of both
    assert metric._describe_error(last).startswith(first)


@pytest.mark.parametrize("name", ["matrix", "seen", "error"])
def test_a_state_of_another_dtype_or_shape_has_no_plan(name: str) -> None:
    metric = moved(PixelConfusionMatrix(3))
    for other in (metric.__dict__[name].int(), metric.__dict__[name][None]):
        with cuda_kernels():
            assert metric.update.step(metric.__dict__, there(MAPS), {}) is not None
            assert metric.update.step({**metric.__dict__, name: other}, there(MAPS), {}) is None


@pytest.mark.parametrize("name", ["matrix", "seen", "error"])
def test_a_state_that_no_kernel_can_read_takes_the_checked_path(name: str) -> None:
    metric, plain = moved(PixelConfusionMatrix(3)), PixelConfusionMatrix(3)
    old = metric.__dict__[name]
    wide = there(torch.zeros((*old.shape, 2), dtype=torch.int64)[..., 0].copy_(here(old)))
    metric.__dict__[name] = wide if old.ndim else here(old)
    with cuda_kernels():
        assert metric.update.step(metric.__dict__, there(MAPS), {}) is None
        metric.update(*there(MAPS))
    plain.update(*MAPS)
    assert state_of(metric) == state_of(plain)


def test_no_plan_is_taken_where_a_graph_is_captured_or_the_kernel_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = there(MAPS)
    with cuda_kernels(capturing=True):
        assert not planned(moved(IOU(3)), batch)
    with cuda_kernels():
        assert planned(moved(IOU(3)), batch)
        assert not planned(moved(IOU(3)), (batch[0], MAPS[1]))  # one side of the host
        assert not planned(IOU(3), batch) and not planned(moved(IOU(3)), MAPS)
        assert not planned(moved(MeanIoU()), there((LOGITS.bool(),) * 2))  # without a number of classes
        off = mock.Mock(side_effect=lambda name: name == "count_pixels")
        monkeypatch.setattr("valor_gpu.segmentation.cuda_plans.disabled", off)
        assert not planned(moved(IOU(3)), batch) and planned(moved(IOU(3)), there((LOGITS, MAPS[1])))


def test_a_subclass_counts_as_it_says() -> None:
    class Crossed(IOU):
        def _batch_state(self, batch: Any, counts: Any, seen: Any) -> Any:
            return super()._batch_state(batch, counts.flip(-1), seen)

    class Swapped(PixelConfusionMatrix):
        def _batch(self, preds: Any, target: Any) -> Any:
            return super()._batch(target, preds)

    with cuda_kernels():
        assert not planned(moved(Crossed(3)), there(MAPS)) and not planned(moved(Swapped(3)), there(MAPS))
        metric: Any = moved(Swapped(3))
        metric.update(*there(MAPS))
    plain = PixelConfusionMatrix(3)
    plain.update(MAPS[1], MAPS[0])
    assert state_of(metric)["matrix"] == state_of(plain)["matrix"]


def test_the_checked_path_neither_waits_nor_pins_memory() -> None:
    for make, sides, *_ in CASES.values():
        metric, plain = moved(make()), make()
        with cuda_kernels() as called, checked_only():
            sim.launches()
            metric.update(*there(sides))
            launched = sim.launches()
        plain.update(*sides)
        assert state_of(metric) == state_of(plain)
        assert len(launched) == 3 and "upload" in launched[-1]  # zeros, counts, images and pixels
        assert len([symbol for symbol in called if "cuda" in symbol]) == 2


def test_other_channels_are_noticed_by_compute() -> None:
    metric: Any = moved(MeanIoU())
    with cuda_kernels():
        for classes in (2, 3):
            metric.update(*there((torch.ones(1, classes, 4, 4, dtype=torch.bool),) * 2))
    with pytest.raises(InputError, match="one number of channels but have from 2 to 3"):
        metric._kind(**here(metric._tensors(metric._fields))).images()


def test_forward_gives_the_value_of_its_batch() -> None:
    metric, plain = moved(IOU(3)), IOU(3)
    with cuda_kernels(), mock.patch.object(type(metric), "_check_error", lambda self: None):
        metric.update(*there(MAPS))
        with mock.patch.object(IOU, "compute", lambda self: here(self.counts).clone()):
            value = metric.forward(*there((MAPS[1], MAPS[1])))
    plain.update(MAPS[1], MAPS[1])
    assert torch.equal(here(value), plain.counts)
    plain.update(*MAPS)
    assert state_of(metric) == state_of(plain)


def test_logits_are_served_by_cuda_before_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    from valor_gpu.ops import _launch

    kernels: Any = object(), object()
    for there_is, installed, kind in ((True, True, "CUDA"), (True, False, "CUDA"), (False, True, "Triton")):
        monkeypatch.setattr(_launch.native, "available", lambda _, there_is=there_is: there_is)
        monkeypatch.setattr(_launch, "has_triton", lambda installed=installed: installed)
        found = _launch.cuda_or_triton(*kernels)
        assert found.kind == kind and found.kernel is kernels[kind == "Triton"]
    monkeypatch.setattr(_launch, "has_triton", lambda: False)
    assert _launch.cuda_or_triton(*kernels).kind == "reference"
    assert _library._REGISTERED["count_logits"].cuda.kind in ("CUDA", "Triton", "reference")


def test_rows_go_to_the_cpu_where_it_computes() -> None:
    """They would fill the memory of the GPU, which the option is for."""
    metric, batch = moved(mIOU(3, compute_on_cpu=True)), there(MAPS)
    moves: list[int] = []
    with cuda_kernels(), mock.patch.object(mIOU, "_move_list_states_to_cpu", lambda self: moves.append(1)):
        assert not planned(metric, batch)
        metric.update(*batch)
        assert len(moves) == 1
        metric.compute_on_cpu = False
        assert planned(metric, batch)
