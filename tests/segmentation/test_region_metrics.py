"""Region metrics against scikit-learn: dtypes, strides, formats, ignored pixels, averages, images and data sets."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.metrics import accuracy_score, confusion_matrix, jaccard_score, precision_recall_fscore_support
from torch import Tensor
from torchmetrics import MetricCollection

from testing.examples_pixels import INTS, labels_of, with_value
from tests.fuzz import seeds
from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.metric import Metric
from valor_gpu.segmentation import IOU, PixelAccuracy, PixelConfusionMatrix, PixelF1, PixelPrecision, PixelRecall, mIOU

RATIOS = {"iou": IOU, "precision": PixelPrecision, "recall": PixelRecall, "f1": PixelF1}


def fed(metric: Metric[Any], *batches: tuple[Tensor, Tensor]) -> Metric[Any]:
    for batch in batches:
        metric.update(*batch)
    return metric


def scikit(name: str, preds: NDArray[Any], target: NDArray[Any], classes: int, average: str | None) -> Any:
    """Scikit-learn's value over the classes that are there."""
    there = np.union1d(preds, target)
    if name == "iou":
        value = jaccard_score(target, preds, labels=there, average=average, zero_division=0.0)
    else:
        row = ["precision", "recall", "f1"].index(name)
        value = precision_recall_fscore_support(target, preds, labels=there, average=average, zero_division=0.0)[row]
    if average is not None:
        return value
    full = np.full(classes, math.nan)
    full[there] = value
    return full


@pytest.mark.filterwarnings("ignore:ignore_index=.* leaves out:UserWarning")  # of few pixels one class may be left
@pytest.mark.parametrize("seed", seeds(12))
@pytest.mark.parametrize("average", ["micro", "macro", "weighted", "none"])
def test_scikit_learn(seed: int, average: str) -> None:
    rng = np.random.default_rng(seed)
    classes = int(rng.choice([2, 3, 19, 300]))
    shape = tuple(int(n) for n in rng.integers(1, 9, 3))
    preds, target = labels_of(rng, shape, classes, 3), labels_of(rng, shape, classes, 3)
    ignored = [None, 255, -1, 1][seed % 4]
    marked = target if ignored is None else with_value(target, rng, ignored, 0.3)
    kept = np.ones(shape, np.bool_) if ignored is None else marked.numpy() != ignored
    if not kept.any():
        pytest.skip("all pixels are ignored")
    flat = preds.numpy()[kept], marked.numpy()[kept]
    for name, kind in RATIOS.items():
        metric = fed(kind(classes, average=average, ignore_index=ignored), (preds, marked))
        expected = scikit(name, *flat, classes, None if average == "none" else average)
        np.testing.assert_allclose(metric.compute().numpy(), np.float32(expected), rtol=1e-6, err_msg=name)
        result = metric.result()
        assert dict(result.counts) == {
            "images": shape[0], "pixels": math.prod(shape), "ignored": int((~kept).sum()),
            "absent_classes": classes - len(np.union1d(*flat)),
        }  # fmt: skip
    accuracy = fed(PixelAccuracy(classes, ignore_index=ignored), (preds, marked)).compute()
    assert float(accuracy) == np.float32(accuracy_score(flat[1], flat[0]))
    matrix = fed(PixelConfusionMatrix(classes, ignore_index=ignored), (preds, marked)).compute()
    assert matrix.tolist() == confusion_matrix(flat[1], flat[0], labels=np.arange(classes)).tolist()


@pytest.mark.parametrize("average", ["micro", "macro", "weighted", None])
def test_each_image_then_their_mean(average: str | None) -> None:
    rng = np.random.default_rng(3)
    preds, target = labels_of(rng, (6, 5, 7), 4, 9), labels_of(rng, (6, 5, 7), 4, 9)
    for name, kind in RATIOS.items():
        metric = fed(kind(4, average=average, aggregation_level="samplewise"), (preds[:2], target[:2]))
        fed(metric, (preds[2:], target[2:]))
        each = [scikit(name, p.numpy(), t.numpy(), 4, average)
                for p, t in zip(preds.flatten(1), target.flatten(1))]  # fmt: skip
        np.testing.assert_allclose(metric.compute().numpy(), np.nanmean(each, 0), rtol=1e-6, err_msg=name)
        if average is not None:
            values = metric.result().values
            np.testing.assert_array_equal(np.isnan(values["per_image"]), [False] * 6)
            assert values[kind.__name__] == pytest.approx(float(np.mean(each)), abs=1e-15)


@pytest.mark.parametrize("dtype", INTS)
def test_every_integer_dtype(dtype: torch.dtype) -> None:
    rng = np.random.default_rng(5)
    classes = 2 if dtype == torch.bool else 5
    preds, target = labels_of(rng, (2, 9, 8), classes, 3), labels_of(rng, (2, 9, 8), classes, 3)
    expected = fed(IOU(classes), (preds, target)).compute()
    assert torch.equal(fed(IOU(classes), (preds.to(dtype), target)).compute(), expected)
    assert torch.equal(fed(IOU(classes), (preds, target.to(dtype))).compute(), expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("per_image", [False, True])
def test_logits_count_as_their_argmax(dtype: torch.dtype, per_image: bool) -> None:
    rng = np.random.default_rng(6)
    logits = torch.from_numpy(rng.normal(size=(3, 7, 11, 13))).to(dtype)
    target = with_value(labels_of(rng, (3, 11, 13), 7, 4, torch.uint8), rng, 255)
    level = "samplewise" if per_image else "global"
    expected = fed(mIOU(7, ignore_index=255, aggregation_level=level), (logits.argmax(1), target)).compute()
    for layout in (logits, logits.contiguous(memory_format=torch.channels_last), logits[..., ::1]):
        metric = mIOU(7, ignore_index=255, aggregation_level=level)
        assert torch.equal(fed(metric, (layout, target)).compute(), expected)


@pytest.mark.parametrize("space", [(9,), (4, 5), (2, 3, 4)])
def test_formats_agree(space: tuple[int, ...]) -> None:
    rng = np.random.default_rng(7)
    preds, target = labels_of(rng, (3, *space), 4, 3), labels_of(rng, (3, *space), 4, 3)
    hot, hot_target = (torch.nn.functional.one_hot(side, 4).movedim(-1, 1) for side in (preds, target))
    logits = hot.double() + torch.rand(hot.shape) / 2
    for ignored in (None, 2):
        choices: dict[str, Any] = dict(ignore_index=ignored)
        expected = fed(PixelF1(4, **choices), (preds, target)).result()
        for form, batches in {
            "index": [(logits, target)],
            "one-hot": [(hot.bool(), hot_target), (logits, hot_target), (logits, hot_target.double())],
            "mixed": [(hot, target), (preds, hot_target), (logits, target), (preds, hot_target.double())],
        }.items():  # fmt: skip
            for batch in batches:
                result = fed(PixelF1(4, input_format=form, **choices), batch).result()
                assert result.values["PixelF1"] == expected.values["PixelF1"]
                assert result.counts == expected.counts, (form, ignored)


def test_ten_thousand_classes() -> None:
    present = np.r_[0:5, 9990:10_000]
    rng = np.random.default_rng(8)
    target = torch.from_numpy(present[labels_of(rng, (2, 30, 40), 15, 3).numpy()])
    preds = target.roll(1, -1)
    logits = torch.nn.functional.one_hot(preds[:, :3, :4], 10_000).movedim(-1, 1).float()
    for level in ("global", "samplewise"):
        metric = fed(mIOU(10_000, aggregation_level=level), (preds[:, :3, :4], target[:, :3, :4]))
        same = fed(mIOU(10_000, aggregation_level=level), (logits, target[:, :3, :4]))
        assert torch.equal(metric.compute(), same.compute())
    result = fed(IOU(10_000), (preds, target)).result()
    assert result.counts["absent_classes"] == 10_000 - 15
    expected = scikit("iou", preds.numpy().ravel(), target.numpy().ravel(), 10_000, None)
    np.testing.assert_array_equal(result.values["per_class"], expected)


@pytest.mark.parametrize("metric", [IOU(1), IOU(3, average="macro", aggregation_level="samplewise"), PixelAccuracy(3)])
def test_one_pixel_and_no_image(metric: Metric[Any]) -> None:
    none = torch.zeros(0, 4, 4, dtype=torch.uint8)
    assert fed(metric, (none, none)).compute().isnan().all()
    assert fed(metric, (torch.zeros(1, 1, 1, dtype=torch.uint8),) * 2).compute().nan_to_num(1.0).eq(1).all()
    assert metric.result().counts["images"] == 1
    metric.reset()


def test_all_ignored() -> None:
    target = torch.full((2, 4, 4), 255, dtype=torch.uint8)
    preds = torch.randint(3, (2, 4, 4))
    result = fed(mIOU(3, ignore_index=255), (preds, target)).result()
    assert math.isnan(result.values["mIOU"]) and "no class that counts" in str(result.reason("mIOU"))
    assert dict(result.counts) == {"images": 2, "pixels": 32, "ignored": 32, "absent_classes": 3}


def test_absent_classes_and_denominators_of_0() -> None:
    """Class 1 is never predicted, class 2 never true, class 3 absent."""
    preds, target = torch.tensor([[0, 0, 2, 0]]), torch.tensor([[0, 0, 0, 1]])
    metric = fed(PixelPrecision(4), (preds, target))
    assert float(metric.compute()) == pytest.approx((2 / 3 + 0 + 0) / 3)
    result = metric.result()
    np.testing.assert_allclose(result.values["per_class"], [2 / 3, math.nan, 0, math.nan])
    assert "absent, neither true nor predicted, or never predicted" in str(result.reason("per_class"))
    assert result.counts["absent_classes"] == 1
    assert float(fed(PixelPrecision(4, zero_division=math.nan), (preds, target)).compute()) == pytest.approx(1 / 3)
    assert float(fed(PixelPrecision(4, zero_division=1.0), (preds, target)).compute()) == pytest.approx(5 / 9)
    assert fed(PixelRecall(4, average=None), (preds, target)).compute()[2] == 0


def test_background_left_out() -> None:
    preds, target = torch.tensor([[0, 0, 1, 2]]), torch.tensor([[0, 0, 1, 1]])
    found = fed(IOU(3, include_background=False), (preds, target)).compute()
    assert found[0].isnan() and found[1:].tolist() == [0.5, 0]
    assert float(fed(mIOU(3, include_background=False), (preds, target)).compute()) == 0.25
    micro = fed(PixelAccuracy(3, include_background=False), (preds, target))
    assert float(micro.compute()) == 0.5
    reason = fed(IOU(3, include_background=False), (preds, target)).result().reason("per_class")
    assert "class 0 is the background" in str(reason)


def test_collections_share_one_update() -> None:
    rng = np.random.default_rng(9)
    batch = labels_of(rng, (2, 6, 6), 4), labels_of(rng, (2, 6, 6), 4)
    metrics = {
        "iou": IOU(4), "miou": mIOU(4, include_background=False), "f1": PixelF1(4, average="weighted"),
        "accuracy": PixelAccuracy(4), "matrix": PixelConfusionMatrix(4), "void": IOU(4, ignore_index=1),
        "image": mIOU(4, aggregation_level="samplewise"),
    }  # fmt: skip
    together = MetricCollection(dict(metrics))
    for _ in range(2):
        together.update(*batch)
    groups = sorted(sorted(group) for group in together.compute_groups.values())
    assert groups == [["accuracy", "f1", "iou", "miou"], ["image"], ["matrix"], ["void"]]
    for name, value in together.compute().items():
        alone = fed(metrics[name].clone(), batch)
        alone.reset()
        torch.testing.assert_close(value, fed(alone, batch, batch).compute(), rtol=0, atol=0, equal_nan=True)


# ------------------------------------------------------------------------------------------------------ the matrix


def test_ratios_of_the_matrix() -> None:
    preds, target = torch.tensor([[0, 0, 1, 1]]), torch.tensor([[0, 1, 1, 1]])
    expected = {
        "true": [[1, 0, 0], [1 / 3, 2 / 3, 0], [math.nan] * 3],
        "pred": [[0.5, 0, math.nan], [0.5, 1, math.nan], [0, 0, math.nan]],
        "all": [[0.25, 0, 0], [0.25, 0.5, 0], [0, 0, 0]],
        "iou": [[0.5, 0, 0], [0.25, 2 / 3, 0], [0, 0, math.nan]],
    }
    for normalize, rows in expected.items():
        metric = fed(PixelConfusionMatrix(3, normalize=normalize), (preds, target))
        result = metric.result()
        np.testing.assert_allclose(result.values["confusion_matrix"], rows)
        np.testing.assert_allclose(metric.compute(), np.nan_to_num(rows), rtol=1e-6)
        assert (result.reason("confusion_matrix") is None) == (normalize == "all")
        assert result.counts["absent_classes"] == 1
    iou = fed(IOU(3), (preds, target)).compute().double().numpy()
    np.testing.assert_allclose(np.diagonal(expected["iou"]), iou, rtol=1e-6)


def test_the_matrix_is_drawn() -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    batch = torch.tensor([[0, 0, 1, 1]]), torch.tensor([[0, 1, 1, 255]])
    for normalize, scale in (("none", "pixels"), ("iou", "intersection over union"), ("all", "fraction of all pixels")):
        metric = fed(PixelConfusionMatrix(2, normalize=normalize, ignore_index=255), batch)
        figure, axes = metric.plot()
        labels = [bar.get_ylabel() for bar in figure.get_children() + axes.child_axes if hasattr(bar, "get_ylabel")]
        assert scale in labels and "3 pixels" in axes.get_title() + str([t.get_text() for t in axes.texts]) + str(
            [text.get_text() for text in figure.findobj(matplotlib.text.Text)]
        )
        matplotlib.pyplot.close(figure)
    with pytest.raises(InputError, match="val must be left out"):
        metric.plot(torch.zeros(2, 2))


def test_the_value_is_drawn() -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    for metric in (mIOU(3), IOU(3)):
        figure, _ = fed(metric, (torch.tensor([[0, 1, 2]]),) * 2).plot()
        matplotlib.pyplot.close(figure)


# -------------------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: IOU(None), "num_classes must be given but is None"),
        (lambda: IOU(0), "num_classes must be at least 1 but got 0"),
        (lambda: IOU(40_000), "num_classes must be at most 32767 but got 40000"),
        (lambda: IOU(3, average="samples"), "average must be one of 'micro', 'macro', 'weighted', 'none', None"),
        (lambda: IOU(3, aggregation_level="image"), "aggregation_level must be one of 'global', 'samplewise'"),
        (lambda: IOU(3, input_format="onehot"), "input_format must be one of 'index', 'one-hot', 'mixed'"),
        (lambda: IOU(3, zero_division=-1), r"zero_division must be in \[0, 1\] but got -1"),
        (lambda: IOU(3, ignore_index=2**63), "ignore_index must fit in int64"),
        (lambda: IOU(1, include_background=False), "include_background must be True with num_classes=1"),
        (lambda: PixelConfusionMatrix(3, normalize="rows"), "normalize must be one of"),
        (lambda: PixelConfusionMatrix(3, input_format="one-hot"), "input_format must be 'index': channels of one-hot"),
    ],
)
def test_bad_arguments(make: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        make()
    for bad in (2.0, True, "3"):
        with pytest.raises(InputTypeError, match="num_classes must be int but got"):
            IOU(bad)  # type: ignore[arg-type]
        with pytest.raises(InputTypeError, match="ignore_index must be int but got"):
            IOU(3, ignore_index=bad)  # type: ignore[arg-type]


def test_the_matrix_must_fit_into_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sysconf", lambda name: 2**30 if name == "SC_PHYS_PAGES" else 2)
    with pytest.raises(InputError, match=r"10000 classes need 2\.2 GiB and this machine has 2\.0 GiB"):
        PixelConfusionMatrix(10_000)
    PixelConfusionMatrix(9000)


@pytest.mark.parametrize(
    ("side", "value", "said"),
    [
        (
            "target",
            255,
            r"target\[1, 2, 3\] must be a class index from 0 to 2 but is 255: ignore_index=255 leaves such",
        ),
        ("target", -1, r"target\[1, 2, 3\] must be .* but is -1: ignore_index=-1 leaves such pixels out"),
        ("target", 7, r"target\[1, 2, 3\] must be a class index from 0 to 2 but is 7$"),
        ("preds", 255, r"preds\[1, 2, 3\] must be a class index from 0 to 2 but is 255$"),
    ],
)
def test_labels_out_of_range_change_nothing(side: str, value: int, said: str) -> None:
    good = {name: torch.randint(3, (2, 4, 5)) for name in ("preds", "target")}
    bad = {name: labels.clone() for name, labels in good.items()}
    bad[side][1, 2, 3] = value
    for metric in (IOU(3), PixelF1(3, aggregation_level="samplewise"), PixelConfusionMatrix(3)):
        metric.update(**good)
        before = metric.compute()
        with pytest.raises(InputError, match=said):
            metric.update(**bad)
        assert metric.update_count == 1 and torch.equal(metric.compute(), before)
        assert metric.result().counts["images"] == 2


def test_errors_of_one_hot_maps() -> None:
    hot = torch.zeros(2, 3, 4, 5, dtype=torch.int16)
    hot[:, 0] = 1
    wrong = hot.clone()
    wrong[1, 2, 3, 4] = 255
    with pytest.raises(
        InputError, match=r"^target\[1, 2, 3, 4\] must be 0 or 1 but is 255: class indices need input_format='index'"
    ):
        IOU(3, input_format="one-hot").update(hot, wrong)
    with pytest.raises(
        InputError, match=r"^target\[1, 3, 4\] must be a class index .* is 255: ignore_index=255 leaves"
    ):
        IOU(3, input_format="mixed").update(hot, wrong[:, 2])


@pytest.mark.parametrize(
    ("form", "sides", "said"),
    [
        ("index", ((2, 4, 5), (2, 4, 6)), r"class indices \[B, ...\] .* got preds torch.int64 \[2, 4, 5\]"),
        ("index", ((2, 3, 4, 5), (2, 4, 5)), "a one-hot map beside class indices needs input_format='mixed'"),
        ("index", ((4,), (4,)), r"preds must be class indices \[B, ...\]"),
        ("one-hot", ((2, 4, 5), (2, 4, 5)), r"preds must have shape \[B, 3, ...\], a channel for each class"),
        ("one-hot", ((2, 3), (2, 3)), "at least one dimension of pixels"),
        ("one-hot", ((2, 3, 4, 5), (2, 4, 5)), "needs input_format='mixed'"),
        ("mixed", ((2, 3, 4, 5), (2, 3, 4, 5)), "class indices on both sides need input_format='index'"),
        ("mixed", ((2, 4, 5), (2, 2, 4, 5)), r"target must have shape \[B, 3, ...\]"),
        ("mixed", ((2, 4, 5), (2, 3, 4, 6)), "one of preds and target must be class indices"),
    ],
)
def test_shapes_that_do_not_fit(form: str, sides: tuple[tuple[int, ...], tuple[int, ...]], said: str) -> None:
    with pytest.raises(InputError, match=said):
        IOU(3, input_format=form).update(*(torch.zeros(side, dtype=torch.int64) for side in sides))


def test_kinds_that_do_not_fit() -> None:
    labels = torch.zeros(2, 4, 5, dtype=torch.int64)
    with pytest.raises(InputError, match=r"floating-point class indices need .long\(\)"):
        IOU(3).update(labels.float(), labels.float())
    with pytest.raises(InputTypeError, match="preds must be Tensor or ndarray or list or tuple but got dict"):
        IOU(3).update({}, labels)
    with pytest.raises(InputError, match=r"target must be floating point or integer but is torch\.complex64"):
        IOU(3).update(labels, labels.to(torch.complex64))
    with pytest.raises(InputError, match=r"target must be a dense tensor but is .* give target\.to_dense\(\)"):
        IOU(3).update(labels, labels.to_sparse())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch deprecates them
        quantized = torch.quantize_per_tensor(torch.rand(2, 3, 4, 5), 0.1, 0, torch.quint8)
    with pytest.raises(InputError, match=r"preds must be a dense tensor but is quantized, .*: give preds\.dequantize"):
        IOU(3).update(quantized, labels)
    with pytest.raises(InputError, match="must be on cpu like preds but is on meta"):
        IOU(3).update(labels, labels.to("meta"))
    with pytest.raises(InputError, match=r"preds must have shape \[B, 3, ...\], a channel for each class"):
        IOU(3).update(torch.zeros(2, 4, 4, 5), labels)


def test_errors_of_cuda_are_told_later() -> None:
    """What compute says when the batch is gone."""
    labels, hot = torch.zeros(1, 2, 2, dtype=torch.int64), torch.zeros(1, 3, 2, 2, dtype=torch.int64)
    for metric, batch, said in (
        (IOU(3), (labels, labels), r"^target\[1\] must hold a class index from 0 to 2 but element 13 .* often 255$"),
        (IOU(3, ignore_index=9), (labels, labels), r"class index from 0 to 2 but element 13 .* within their batch\)$"),
        (IOU(3, input_format="one-hot"), (hot, hot), r"^target\[1\] must hold 0 or 1 but element 13"),
        (IOU(3, input_format="mixed"), (hot, labels), r"a class index from 0 to 2, or 0 or 1 in a one-hot map but"),
    ):
        metric.update(*batch)
        metric.error = torch.tensor((1 << 32 | 13) << 4 | 1)
        with pytest.raises(InputError, match=said):
            metric.compute()
