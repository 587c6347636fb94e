"""Counts of pixels: every kernel equals the definition by bytes, which equals scikit-learn and numpy."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.metrics import confusion_matrix
from torch import Tensor

from testing import examples_pixels as made
from testing.parity import differences
from tests.fuzz import seeds
from tests.ops.backends import BACKENDS, SIM_SEEDS, kernel
from valor_gpu.errors import InputError
from valor_gpu.ops import _library
from valor_gpu.ops._launch import has_triton
from valor_gpu.ops.error_codes import NO_ERROR, raise_error
from valor_gpu.ops.pixel_counts import cpu as _pixel_counts_cpu
from valor_gpu.ops.pixel_counts import op as pixel_counts
from valor_gpu.ops.pixel_counts.cpu import place_pixels
from valor_gpu.ops.pixel_counts.op import count_logit_pairs, count_logits, count_pixel_pairs, count_pixels, pixel_error

Run = Callable[..., Any]
EXAMPLES = {"count_pixels": made.pixel_examples, "count_logits": made.logit_examples}
CUDA = {"count_pixels": pixel_counts._count_pixels_cuda, "count_logits": pixel_counts._count_logits_cuda}


@pytest.fixture(params=BACKENDS)
def run(request: pytest.FixtureRequest) -> Run:
    """Calls an op by name, as one backend computes it."""
    return lambda name, *args: kernel(request.param, name, CUDA[name])(*args)


def by_triton(*args: Any) -> Any:
    """``count_logits`` by the Triton kernel: on a CUDA device, or in Triton's interpreter where there is none."""
    if not has_triton():
        pytest.skip("no Triton 3.6 or newer is installed")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    placed = (each.to(device) if isinstance(each, Tensor) else each for each in args)
    return tuple(output.cpu() for output in pixel_counts._count_logits_triton(*placed))


def check(got: Any, name: str, *args: Any) -> None:
    assert differences(tuple(got), tuple(_library.reference(name)(*args))) == ""


def random(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


# ------------------------------------------------------------------------------------------------------------- parity


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples(run: Run, name: str) -> None:
    for text, args in EXAMPLES[name](True):
        got, expected = run(name, *args), _library.reference(name)(*args)
        assert differences(tuple(got), tuple(expected)) == "", text


@pytest.mark.smoke
def test_small_maps(run: Run) -> None:
    rng = random(1)
    maps = made.labels_of(rng, (2, 5, 31), 5, 4), made.labels_of(rng, (2, 5, 31), 5, 4)
    logits = made.logits_of(rng, (2, 5, 5, 31))
    for pairs in (False, True):
        args = maps[0][..., 1:], maps[1][..., 1:], 5, 4, pairs, pairs
        check(run("count_pixels", *args), "count_pixels", *args)
        args = logits, maps[1], 4, pairs, pairs
        check(run("count_logits", *args), "count_logits", *args)


@pytest.mark.parametrize("seed", SIM_SEEDS)
def test_orders_of_lanes(seed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VALOR_SIM_SEED", seed)
    rng = random(int(seed))
    for classes, shape in ((19, (3, 40, 130)), (150, (2, 33, 64)), (5000, (1, 9, 100))):
        maps = made.labels_of(rng, shape, classes, 40), made.labels_of(rng, shape, classes, 40, torch.int16)
        args = *maps, classes, 0, True, classes == 150
        check(kernel("simulated", "count_pixels", CUDA["count_pixels"])(*args), "count_pixels", *args)
    logits, truth = made.logits_of(rng, (2, 7, 9, 40)), made.labels_of(rng, (2, 9, 40), 8, 5)
    check(kernel("simulated", "count_logits", CUDA["count_logits"])(logits, truth, 7, True, True), "count_logits",
          logits, truth, 7, True, True)  # fmt: skip


@pytest.mark.parametrize("stripe", [1, 2, 4, 16, 32, 128, 512])
@pytest.mark.parametrize("crop", [0, 1])
def test_stripes_as_wide_as_the_pixels_of_some_threads(run: Run, stripe: int, crop: int) -> None:
    """A thread of a CUDA kernel has 2 to 16 pixels; those of a warp all have one pair each, and not the same."""
    target = torch.arange(4096).div(stripe, rounding_mode="floor").remainder(7).reshape(1, 8, 512)[..., crop:]
    for dtype in (torch.int64, torch.uint8):
        args = target.remainder(3).to(dtype), target.to(dtype), 7, None, False, True
        check(run("count_pixels", *args), "count_pixels", *args)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int32, torch.int64])
def test_maps_that_no_load_divides(run: Run, dtype: torch.dtype) -> None:
    """Pixels before a load and after the last, bad ones among them; a map of each image at any address."""
    rng = random(10)
    for shape in ((1,), (15,), (17,), (2, 4099), (3, 1024), (3, 1023)):
        maps = made.labels_of(rng, shape, 19, 7, dtype), made.labels_of(rng, shape, 20, 7, torch.int16)
        for begin in (0, 1):
            sides = tuple(side.flatten()[begin:] for side in maps)
            for ignored in (19, None):  # without it 19 is bad
                check(run("count_pixels", *sides, 19, ignored, False, True), "count_pixels", *sides, 19, ignored,
                      False, True)  # fmt: skip
        if len(shape) > 1:
            check(run("count_pixels", *maps, 19, 3, True, False), "count_pixels", *maps, 19, 3, True, False)


@pytest.mark.parametrize("dtype", [dtype for dtype in made.INTS if dtype != torch.bool])  # whose labels are 0 and 1
def test_labels_at_the_ends_of_their_types(run: Run, dtype: torch.dtype) -> None:
    """Ignored values that a type cannot hold ignore nothing; negative labels are no class of many."""
    limits = torch.iinfo(torch.int64 if dtype == torch.uint64 else dtype)
    values = torch.tensor([0, 1, limits.max, limits.min, limits.max - 1, 127, 100] * 40)
    values = values.clamp(limits.min, limits.max).to(dtype)
    for classes, ignored in ((300, -1), (300, limits.max), (300, limits.min), (200, 255), (30_000, 2**32 - 1)):
        for sides in ((values, values), (torch.zeros_like(values), values), (values, torch.ones_like(values))):
            args = *sides, classes, ignored, False, False
            check(run("count_pixels", *args), "count_pixels", *args)


@pytest.mark.parametrize(("dtype", "crop"), [(torch.uint8, 0), (torch.int64, 0), (torch.uint8, 1)])
def test_a_block_takes_several_tiles_before_its_counts_overflow(dtype: torch.dtype, crop: int) -> None:
    """4.4 million pixels make two tiles a block, or more; one class fills 16-bit cells to 8,192, or further."""
    pixels = 1100 * 4096
    maps = torch.zeros(pixels + crop, dtype=dtype)[crop:], torch.ones(pixels + crop, dtype=dtype)[crop:]
    matrix, error = kernel("simulated", "count_pixels", CUDA["count_pixels"])(*maps, 2, None, False, True)
    assert matrix.tolist() == [[0, 0], [pixels, 0]] and int(error) == NO_ERROR


@pytest.mark.filterwarnings("ignore:Conversion of an array with ndim:DeprecationWarning:triton")  # of Triton 3.6
def test_triton_equals_the_reference() -> None:
    rng = random(3)
    for name, args in made.logit_examples(True):
        if "many" not in name:  # that would be for others, see below
            check(by_triton(*args), "count_logits", *args)
    for pairs in (False, True):
        args = made.logits_of(rng, (1, 3, 2, 2100)), made.labels_of(rng, (1, 2, 2100), 3, 50), None, False, pairs
        check(by_triton(*args), "count_logits", *args)


def test_the_kernel_that_serves_logits_is_the_faster_one_of_every_record() -> None:
    """CUDA C++ serves them wherever its library is, since records of a GPU that have both say so."""
    found = []
    for path in (Path(__file__).parents[2] / "benchmarks/results").glob("gpu_*.json"):
        checks = [check for part in json.loads(path.read_text())["sections"].values() for check in part["checks"]]
        rows = {row["op"]: row for check in checks for row in check.get("rows", ()) if "op" in row}
        if "count_logits by Triton" in rows:
            found.append([rows[name] for name in ("count_logits", "count_logits by Triton")])
    assert found
    for ours, triton in found:
        assert all(ours[clock]["median"] < triton[clock]["median"] for clock in ("device_seconds", "seconds"))


def test_triton_leaves_many_classes_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    if not torch.cuda.is_available():  # the CUDA library may be there all the same
        monkeypatch.setattr(pixel_counts.native, "available", lambda name: name == "valor_cpu")
    logits, truth = made.logits_of(random(4), (1, 1400, 2, 3)), made.labels_of(random(5), (1, 2, 3), 1400)
    check(by_triton(logits, truth, None, False, False), "count_logits", logits, truth, None, False, False)


@pytest.mark.parametrize("dtype", made.FLOATS)
def test_logits_rank_as_argmax(run: Run, dtype: torch.dtype) -> None:
    nan, inf = torch.nan, torch.inf
    pixels = torch.tensor(
        [[nan, nan, inf], [1, nan, -nan], [0.0, -0.0, -inf], [-0.0, 0.0, 0.0], [-inf] * 3, [inf, 1, inf], [-2, -1, -1]]
    ).to(dtype)  # fmt: skip
    for pixel in pixels:
        args = pixel[None], torch.zeros(1, dtype=torch.int64), None, False, True
        assert run("count_logits", *args)[0][0].argmax() == pixel.argmax(), pixel


def test_shapes_with_one_label_map_or_no_batch(run: Run) -> None:
    rng = random(6)
    for shape in ((), (5,), (6, 7), (2, 1, 3, 4, 5)):
        maps = made.labels_of(rng, shape, 3), made.labels_of(rng, shape, 3)
        for sides in (maps, tuple(side.movedim(0, -1) if side.ndim else side for side in maps)):
            check(run("count_pixels", *sides, 3, None, False, True), "count_pixels", *sides, 3, None, False, True)


@pytest.mark.parametrize("seed", seeds(3))
def test_strides_of_every_kind(seed: int) -> None:
    rng = random(seed)
    whole = made.labels_of(rng, (4, 6, 5, 140), 30, 20), made.labels_of(rng, (4, 6, 5, 140), 30, 20, torch.int16)
    chosen = [slice(int(a), None, int(b)) for a, b in zip(rng.integers(0, 3, 4), rng.choice([1, 1, 2], 4))]
    order = tuple(int(i) for i in rng.permutation(4))
    sides = [side[tuple(chosen)].permute(order if seed % 2 else (0, 1, 2, 3)) for side in whole]
    for per_image in (False, True):
        args = *sides, 30, 7, per_image, bool(seed % 3)
        check(_library.reference("count_pixels")(*args), "count_pixels", *args)
        check(pixel_counts._count_pixels_cpu(*args), "count_pixels", *args)


def test_a_channel_that_is_alone_may_have_any_stride() -> None:
    """0 is not taken for a map of labels."""
    logits = torch.arange(1.0, 26.0).as_strided((1, 1, 5, 5), (0, 0, 5, 1))
    target = torch.zeros(1, 5, 5, dtype=torch.uint8)
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        same = logits.to(dtype).as_strided((1, 1, 5, 5), (0, 0, 5, 1))
        found = count_logits(same, target)
        assert found.counts.tolist() == [[25]] * 3 and int(found.error) == NO_ERROR
    array = np.lib.stride_tricks.as_strided(logits.numpy(), (1, 1, 5, 5), (0, 0, 20, 4))
    assert _pixel_counts_cpu.count_logits(array, target.numpy()).tolist() == [[25]] * 3


# ------------------------------------------------------------------------------------------------------------ oracles


def matrix_of(preds: NDArray[Any], target: NDArray[Any], classes: int, ignore: int | None = None) -> NDArray[Any]:
    kept = target != ignore if ignore is not None else np.ones(target.shape, np.bool_)
    cells = target[kept].astype(np.int64) * classes + preds[kept].astype(np.int64)
    return np.bincount(cells, minlength=classes * classes).reshape(classes, classes)


def classes_of(matrix: NDArray[Any]) -> NDArray[Any]:
    return np.stack([matrix.diagonal(), matrix.sum(0), matrix.sum(1)])


@pytest.mark.parametrize("classes", [2, 19, 150, 1000])
@pytest.mark.parametrize("dtype", [np.uint8, np.int64, np.uint16])
def test_numpy_arrays_equal_scikit_learn(classes: int, dtype: type) -> None:
    rng = random(classes)
    if classes > np.iinfo(dtype).max:
        pytest.skip("the dtype does not hold the classes")
    for run_length in (1, 30):
        truth = made.labels_of(rng, (2, 60, 200), classes, run_length).numpy().astype(dtype)
        preds = np.roll(truth, 3, -1)
        own = _pixel_counts_cpu.count_pixels(preds, truth, classes, pairs=True)
        if run_length == 1:
            expected = confusion_matrix(truth.ravel(), preds.ravel(), labels=np.arange(classes))
            assert own.dtype == np.int64 and own.tolist() == expected.tolist()
        assert np.array_equal(own, matrix_of(preds, truth, classes))
        by_class = _pixel_counts_cpu.count_pixels(preds, truth, classes)
        assert np.array_equal(by_class, classes_of(own))
        each = _pixel_counts_cpu.count_pixels(preds, truth, classes, ignore_index=1, per_image=True)
        expected = [classes_of(matrix_of(preds[i], truth[i], classes, 1)) for i in range(2)]
        assert np.array_equal(each, np.stack(expected))


@pytest.mark.parametrize("run_length", [1, 2, 4, 30, 400])
@pytest.mark.parametrize("target_dtype", [np.uint8, np.int8, np.bool_])
def test_labels_of_one_byte(target_dtype: type, run_length: int) -> None:
    """Tiles of short and of long runs, of lines that end inside a tile; a bad label on either side is found."""
    rng, classes = random(run_length), 2 if target_dtype is np.bool_ else 19
    for width, crop in ((1537, 0), (700, 3), (90, 1)):
        maps = (made.labels_of(rng, (60, width), classes, run_length).numpy() for _ in range(2))
        preds, truth = (labels.astype(dtype)[:, crop:] for labels, dtype in zip(maps, (np.uint8, target_dtype)))
        for sides in ((preds, truth), (preds[::-1, ::2], truth[::-1, ::2])):
            own = _pixel_counts_cpu.count_pixels(*sides, classes, ignore_index=1, pairs=True)
            assert np.array_equal(own, matrix_of(*sides, classes, 1))
    preds[40, 60] = 255
    truth[40, 60] = 1
    own = _pixel_counts_cpu.count_pixels(preds, truth, classes, ignore_index=1)
    assert np.array_equal(own, classes_of(matrix_of(preds, truth, classes, 1)))
    truth[40, 60] = 0
    with pytest.raises(InputError, match=rf"^preds\[40, 60\] must be a class index from 0 to {classes - 1} but is 255"):
        _pixel_counts_cpu.count_pixels(preds, truth, classes, ignore_index=1)
    if target_dtype is np.int8:
        truth[39, 2] = -1
        with pytest.raises(InputError, match=r"^target\[39, 2\] must be a class index from 0 to 18 but is -1$"):
            _pixel_counts_cpu.count_pixels(preds, truth, classes, ignore_index=255)


@pytest.mark.parametrize("dtype", [np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64])
@pytest.mark.parametrize("classes", [19, 127, 128, 150])
def test_ignored_values_of_wide_labels(dtype: type, classes: int) -> None:
    """Values that a byte holds and others, in every block, in a few and in one; a value beside them is bad."""
    rng, limits = random(classes), np.iinfo(dtype)
    for ignore in (5, 127, 128, 253, 254, 255, 256, 300, 32767, -1, -100):
        if not limits.min <= ignore <= limits.max:
            continue
        for share in (0.1, 0.001, 0.0):
            preds = made.labels_of(rng, (97, 1000), classes, 9).numpy().astype(dtype)
            truth = np.roll(preds, 2, 1)
            truth[rng.random(truth.shape) < share] = ignore
            truth[50, 77] = ignore
            preds[50, 77] = limits.max  # what is predicted there does not matter
            sides = preds, truth
            for own in (sides, (sides[0][:, ::-1], sides[1][:, ::-1])):
                found = _pixel_counts_cpu.count_pixels(*own, classes, ignore_index=ignore, pairs=True)
                assert np.array_equal(found, matrix_of(*own, classes, ignore))
        for bad in {254, 255, 256, limits.max, limits.min} - {ignore, *range(classes)}:
            for side, name in enumerate(("preds", "target")):
                wrong = [labels.copy() for labels in sides]
                wrong[0][60, 5] = wrong[1][60, 5] = classes - 2
                wrong[side][60, 5] = bad
                with pytest.raises(InputError, match=rf"^{name}\[60, 5\] must be a class index .* but is {bad}$"):
                    _pixel_counts_cpu.count_pixels(*wrong, classes, ignore_index=ignore)


def test_ten_thousand_classes() -> None:
    """Few of them occur: of 800 MB only their rows are touched."""
    present = np.r_[0:5, 9990:10_000]
    truth = present[made.labels_of(random(7), (3, 50, 70), 15, 3).numpy()]
    preds = np.roll(truth, 1, -1)
    own = _pixel_counts_cpu.count_pixels(preds, truth, 10_000, pairs=True)
    places, counts = np.unique(truth * 10_000 + preds, return_counts=True)
    assert np.array_equal(own.reshape(-1)[places], counts) and own[present].sum() == truth.size
    by_class = _pixel_counts_cpu.count_pixels(preds, truth, 10_000)
    assert by_class.sum(1).tolist() == [(preds == truth).sum(), truth.size, truth.size]
    assert np.array_equal(by_class[2], np.bincount(truth.reshape(-1), minlength=10_000))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_numpy_logits(dtype: type) -> None:
    rng = random(8)
    logits = rng.normal(size=(2, 11, 20, 33)).astype(dtype)
    truth = rng.integers(0, 12, (2, 20, 33)).astype(np.uint8)
    expected = matrix_of(logits.argmax(1), truth, 11, 11)
    for layout in (logits, np.ascontiguousarray(logits.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2), logits[:, ::-1]):
        own = _pixel_counts_cpu.count_logits(layout, truth, ignore_index=11, pairs=True)
        assert np.array_equal(own, expected if layout is not layout[:, ::-1] and layout.strides[1] > 0 else
                              matrix_of(layout.argmax(1), truth, 11, 11))  # fmt: skip
    every = np.broadcast_to(logits[:, :1], logits.shape)
    assert _pixel_counts_cpu.count_logits(every, truth, ignore_index=11)[1].tolist() == [(truth < 11).sum(), *[0] * 10]


def test_threads_give_the_same_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random(9)
    maps = [made.labels_of(rng, (5, 300, 401), 200, 9).numpy() for _ in range(2)]
    maps[1][3, 7, 11] = 200
    for classes in (201, 1000):
        for per_image, pairs in ((False, False), (False, True), (True, False)):
            counted = []
            for threads in (1, 3):
                monkeypatch.setattr("valor_gpu.native.threads", lambda threads=threads: threads)
                counted.append(_pixel_counts_cpu.count_pixels(*maps, classes, per_image=per_image, pairs=pairs))
            assert np.array_equal(*counted) and counted[0][..., 0 if not pairs else slice(None), :].sum() > 0
    with pytest.raises(InputError, match=r"target\[3, 7, 11\] must be a class index from 0 to 199 but is 200"):
        _pixel_counts_cpu.count_pixels(*maps, 200)


# ------------------------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("side", "place", "value"),
    [("target", (1, 4, 130), 7), ("preds", (2, 0, 0), -3), ("target", (0, 0, 5), 255), ("preds", (2, 5, 199), 2**40)],
)
@pytest.mark.parametrize("dense", [False, True])
def test_the_first_label_out_of_range_is_named(side: str, place: tuple[int, ...], value: int, dense: bool) -> None:
    maps = {name: made.labels_of(random(1), (3, 6, 200), 5, 1 if dense else 50) for name in ("preds", "target")}
    maps[side][place] = maps[side][2, 5, 199] = value
    for per_image in (False, True):
        counted = count_pixels(maps["preds"], maps["target"], 5, per_image=per_image)
        assert int(counted.counts[..., 2, :].sum()) == 3600 - (1 if place == (2, 5, 199) else 2)
        said = rf"^{side}\[{', '.join(map(str, place))}\] must be a class index from 0 to 4 but is {value}$"
        with pytest.raises(InputError, match=said):
            raise_error(counted.error, pixel_error(maps["preds"], maps["target"], 5))
        with pytest.raises(InputError, match=said):
            _pixel_counts_cpu.count_pixels(maps["preds"].numpy(), maps["target"].numpy(), 5, per_image=per_image)


def test_messages_call_numpy_arrays_by_their_names() -> None:
    labels, names = np.array([[0, 1], [4, 1]]), ("found/a.png", "true/a.png")
    for predicted in (labels, np.zeros((2, 2), np.int64)):
        wrong = names[int(predicted is not labels)]
        with pytest.raises(InputError, match=rf"^{wrong}\[1, 0\] must be a class index from 0 to 2 but is 4$"):
            _pixel_counts_cpu.count_pixels(predicted, labels if predicted is not labels else labels % 3, 3, names=names)
    logits = np.zeros((1, 3, 2, 2), np.float32)
    with pytest.raises(InputError, match=r"^true/a.png\[0, 1, 0\] must be a class index from 0 to 2 but is 4$"):
        _pixel_counts_cpu.count_logits(logits, labels[None], names=names, threads=1)
    with pytest.raises(InputError, match=r"^true/a.png must have shape \[1, 2, 2\] but got \[2, 2\]$"):
        _pixel_counts_cpu.count_logits(logits, labels, names=names)
    with pytest.raises(InputError, match=r"^found/a.png must be float16 .* got int64 \[2, 2\]$"):
        _pixel_counts_cpu.count_logits(labels, labels, names=names)
    with pytest.raises(InputError, match=r"^found/a.png must have an integer dtype but got float32$"):
        _pixel_counts_cpu.count_pixels(logits[0], labels, 3, names=names)


def test_ignored_pixels_have_no_errors() -> None:
    target = torch.tensor([[0, -1, 1]])
    assert int(count_pixels(torch.tensor([[0, 99, 1]]), target, 2, ignore_index=-1).error) == NO_ERROR
    assert int(count_pixels(torch.tensor([[0, 1, 1]]), target, 2, ignore_index=255).error) != NO_ERROR


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda a: count_pixels(a.float(), a, 2), "preds must have dtype .*torch.uint64 but got torch.float32"),
        (lambda a: count_pixels(a, a[:, 1:], 2), r"target must have shape \[2, 3\] but got \[2, 2\]"),
        (lambda a: count_pixels(a, a, 0), "num_classes must be at least 1 but got 0"),
        (lambda a: count_pixels(a, a, 40_000), "num_classes must be at most 32767 but got 40000"),
        (lambda a: count_pixel_pairs(a, a, 2, ignore_index=2**63), "ignore_index must fit in int64 but got 9223"),
        (lambda a: count_pixels(a[0], a[0], 2, per_image=True), r"dimension of images with per_image .* \[3\]"),
        (lambda a: count_logits(a, a), "logits must have dtype .* but got torch.int64"),
        (lambda a: count_logits(a[0].float(), a), r"logits must have shape \[B, C, ...\] but got \[3\]"),
        (lambda a: count_logit_pairs(a.float(), a), r"target must have shape \[2\] but got \[2, 3\]"),
        (lambda a: _pixel_counts_cpu.count_pixels(a.numpy(), a.float().numpy(), 2), "target must have an integer"),
        (lambda a: _pixel_counts_cpu.count_pixels(a.numpy(), a.numpy()[1:], 2), r"target must have shape \[2, 3\]"),
        (lambda a: _pixel_counts_cpu.count_logits(a.numpy(), a.numpy()), r"logits must be float16 .* int64 \[2, 3\]"),
    ],
)  # fmt: skip
def test_errors_name_the_argument(call: Callable[[Tensor], Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        call(torch.zeros(2, 3, dtype=torch.int64))


def test_places_merge_only_where_both_sides_do() -> None:
    assert place_pixels((4, 5, 6), (None, None), True) == [[4, 1, 30], [30, 0, 1], [30, 0, 1]]
    assert place_pixels((4, 5, 6), (None, (30, 6, 1)), False) == [[1, 1, 120], [0, 0, 1], [0, 0, 1]]
    assert place_pixels((4, 5, 6), (None, (60, 6, 1)), False) == [[1, 4, 30], [0, 30, 1], [0, 60, 1]]
    assert place_pixels((4, 5, 6), ((1, 4, 20), (30, 6, 1)), False) == [[4, 5, 6], [1, 4, 20], [30, 6, 1]]
    assert place_pixels((4, 5, 6, 7), ((1, 4, 20, 120), (210, 42, 7, 1)), False) is None


@pytest.mark.parametrize("name", EXAMPLES)
def test_opcheck(name: str) -> None:
    for text, args in EXAMPLES[name](True):
        if text.endswith((" 1 classes", "channels last", "-1 ignored")):
            torch.library.opcheck(getattr(torch.ops.valor_gpu, name).default, args)
