"""Pictures: any class name, any number of classes, no data; what legends and titles say; no warnings."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.logs import logged

mpl = pytest.importorskip("matplotlib", reason="matplotlib is not installed")

from matplotlib import font_manager  # noqa: E402
from matplotlib.figure import Figure  # noqa: E402

from valor_gpu import drawing  # noqa: E402
from valor_gpu.classification import ROC, CalibrationError, ConfusionMatrix, PrecisionRecallCurve  # noqa: E402
from valor_gpu.cli import OK, main  # noqa: E402
from valor_gpu.drawing import Texts  # noqa: E402
from valor_gpu.report.files import draw_picture  # noqa: E402
from valor_gpu.result import Result  # noqa: E402

KINDS: dict[str, Any] = {
    "roc": ROC, "pr": PrecisionRecallCurve, "confusion": ConfusionMatrix, "reliability": CalibrationError,
}  # fmt: skip
LONG = [f"a long name of the class with number {n}" for n in range(60)]
ODD = [
    "a$x^{$",
    "$m$ath",
    "猫",
    "_hidden",
    "tab\tname",
    "line\nbreak",
    "\ud800",
    "_",
    "\\alpha",
    "x" * 90,
    "🐈",
    "عربى",
]


def scored(kind: str, classes: int, rows: int = 400, sharp: float = 2.0) -> Result:
    """The result of one metric on random scores; the worse, the lower the index of the class."""
    rng = np.random.default_rng(classes)
    target = rng.integers(0, max(classes, 2), rows)
    logits = rng.normal(size=(rows, max(classes, 2)))
    logits[np.arange(rows), target] += sharp * (0.2 + target / max(classes, 2))
    scores = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    metric = KINDS[kind](**({} if classes == 1 else {"num_classes": classes}))
    metric.update(
        torch.from_numpy((scores[:, 1] if classes == 1 else scores).astype(np.float32)), torch.from_numpy(target)
    )
    return metric.result()


def drawn(result: Result, **options: Any) -> Any:
    """Axes after all texts are laid out."""
    figure = Figure(layout="constrained")
    axes = result.plot(ax=figure.subplots(), resize=True, **options)
    figure.canvas.draw()
    return axes


def legend_texts(axes: Any) -> list[str]:
    return [text.get_text() for text in axes.get_legend().get_texts()]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("names", [ODD, pytest.param(LONG, marks=pytest.mark.slow)])
def test_any_name_is_drawn_without_a_warning(kind: str, names: list[str], tmp_path: Path) -> None:
    result = scored(kind, len(names))
    with logged(logging.WARNING) as log:
        draw_picture(tmp_path / "a.png", result, names=names, source="$x^{$ 猫 \ud800.csv")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG") and log.getvalue() == ""


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "suffix", ["svg", *(pytest.param(suffix, marks=pytest.mark.slow) for suffix in ("eps", "pdf"))]
)
def test_other_formats_give_no_notice(kind: str, suffix: str, tmp_path: Path) -> None:
    with logged(logging.WARNING) as log:
        draw_picture(tmp_path / f"a.{suffix}", scored(kind, 3), names=["a", "$b$", "猫"])
    assert log.getvalue() == ""


def test_names_are_drawn_as_they_are() -> None:
    texts = [tick.get_text() for tick in drawn(scored("confusion", 12), names=ODD).get_yticklabels()]
    assert texts[:2] == [r"a\$x^{\$", r"\$m\$ath"]
    assert texts[3:6] == ["_hidden", r"tab\tname", r"line\nbreak"] and texts[6:9] == [r"\ud800", "_", "\\alpha"]
    assert texts[9] == "x" * 17 + "…" + "x" * 18


def test_what_no_font_has_is_shown_by_number_with_a_note() -> None:
    private = "\U000f1234"  # a character of private use
    found = Texts.of(["cat", f"a {private}{private}", private])
    assert found.texts == ["cat", "#1 a ?", "#2 ?"]
    assert found.notes == ["(2 names are shown by number: no installed font has all characters)"]
    label = drawn(scored("confusion", 3), names=["cat", "dog", private]).get_xlabel()
    assert label == "predicted class\n(1 name is shown by number: no installed font has all characters)"


@pytest.fixture
def cat_font(tmp_path: Path) -> Iterator[str]:
    """A font that has the character 猫 and nothing else, installed for the time of a test."""
    builder = pytest.importorskip("fontTools.fontBuilder", reason="fontTools is not installed").FontBuilder(1000)
    from fontTools.pens.ttGlyphPen import TTGlyphPen

    pen = TTGlyphPen(None)
    for move, point in ((pen.moveTo, (0, 0)), (pen.lineTo, (0, 700)), (pen.lineTo, (700, 0))):
        move(point)
    pen.closePath()
    builder.setupGlyphOrder([".notdef", "cat"])
    builder.setupCharacterMap({ord("猫"): "cat"})
    builder.setupGlyf({".notdef": pen.glyph(), "cat": pen.glyph()})
    builder.setupHorizontalMetrics({".notdef": (800, 0), "cat": (800, 0)})
    builder.setupHorizontalHeader(ascent=800, descent=-200)
    builder.setupNameTable({"familyName": "Valor Cat", "styleName": "Regular"})
    builder.setupOS2(usWeightClass=500, sTypoAscender=800, usWinAscent=800, usWinDescent=200)
    builder.setupPost()
    path = tmp_path / "cat.ttf"
    builder.save(path)
    font_manager.fontManager.addfont(path)
    drawing.fonts_for.cache_clear()
    yield "Valor Cat"
    entries = font_manager.fontManager.ttflist
    entries[:] = [entry for entry in entries if entry.name != "Valor Cat"]
    font_manager._get_font.cache_clear()
    drawing.fonts_for.cache_clear()


def test_an_installed_font_with_the_characters_is_used(cat_font: str, tmp_path: Path) -> None:
    with logged(logging.WARNING) as log:
        draw_picture(tmp_path / "a.png", scored("confusion", 3), names=["猫", "dog", "owl"])  # weight 500, not 400
    assert log.getvalue() == ""
    found = Texts.of(["猫", "dog"])
    assert found.texts == ["猫", "dog"] and found.notes == [] and found.font["family"][-1] == cat_font
    axes = drawn(scored("confusion", 3), names=["猫", "dog", "owl"])
    assert axes.get_yticklabels()[0].get_fontfamily()[-1] == cat_font
    assert axes.get_xlabel() == "predicted class"


def test_shortened_names_stay_different() -> None:
    names = ["a" * 30 + middle + "b" * 30 for middle in "xy"]
    found = Texts.of(names)
    assert len(set(found.texts)) == 2 and found.notes == ["(2 names are shortened)"]
    assert drawing.width(Texts.of(["猫" * 40]).texts[0]) <= 40


@pytest.mark.parametrize("kind", ["roc", "pr"])
def test_legends_number_shortened_names_by_class(kind: str) -> None:
    """Not by the line of the legend: the confusion picture of the same data has the same number."""
    result = scored(kind, 60, rows=3000)
    plain = legend_texts(drawn(result, names=[str(n) for n in range(60)]))
    long = legend_texts(drawn(result, names=["a" * 30 + str(n) + "b" * 30 for n in range(60)]))
    assert [text.split("#")[1] for text in long[:10]] == [text.split()[1] for text in plain[:10]]


@pytest.mark.parametrize(("kind", "area"), [("roc", "AUC"), ("pr", "AP")])
def test_legends_name_the_worst_classes_with_their_areas(kind: str, area: str) -> None:
    axes = drawn(scored(kind, 60, rows=3000), names=[f"class {n}" for n in range(60)], source="a.csv")
    *named, mean = legend_texts(axes)
    areas = [float(text.split()[0]) for text in named]
    assert len(named) == 10 and areas == sorted(areas)
    assert mean.endswith("  mean of 60 classes") and areas[-1] < float(mean.split()[0])
    assert {int(text.split()[-1]) for text in named} < set(range(30))  # low indices are worse
    assert axes.get_legend().get_title().get_text() == f"{area} and class: the 10 worst of 60"
    assert axes.texts[0].get_text() == "a.csv\n3,000 samples, exact, each class against the rest\n"
    assert axes.get_title("left").endswith(f"mean {area} {mean.split()[0]}")


@pytest.mark.parametrize(("kind", "area"), [("roc", "AUC"), ("pr", "AP")])
def test_binary_pictures_say_their_area(kind: str, area: str) -> None:
    axes = drawn(scored(kind, 1), names=["no", "yes"])
    assert legend_texts(axes)[0].endswith(f"  {area}")
    assert f", {area} 0." in axes.get_title("left") and "positives: yes" in axes.texts[0].get_text()


def test_lines_differ_in_colour_and_dashes() -> None:
    styles = [drawing.line_style(n) for n in range(12)]
    assert len({str(style) for style in styles}) == 12
    for one, other in itertools.pairwise(styles):
        assert one["color"] != other["color"] and one["linestyle"] != other["linestyle"]


def test_curves_in_a_corner_are_shown_larger() -> None:
    for kind in ("roc", "pr"):
        assert len(drawn(scored(kind, 3, sharp=40.0)).child_axes) == 1
        assert len(drawn(scored(kind, 3, sharp=0.1)).child_axes) == 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("classes", [None, 3])
def test_no_data_is_said_in_the_picture(kind: str, classes: int | None) -> None:
    metric = KINDS[kind](num_classes=classes, ignore_index=-1) if classes else KINDS[kind](ignore_index=-1)
    scores = torch.rand((2, 3)) if classes else torch.rand(2)
    metric.update(scores, torch.tensor([-1, -1]))
    assert "no data" in [text.get_text() for text in drawn(metric.result()).texts]


def test_classes_without_positives_are_counted() -> None:
    metric = PrecisionRecallCurve(num_classes=3)
    metric.update(torch.tensor([[0.5, 0.3, 0.2], [0.2, 0.6, 0.2]]), torch.tensor([0, 1]))
    axes = drawn(metric.result(), names=["a", "b", "c"])
    assert axes.get_xlabel() == "recall\n(1 class has no positives, hence no curve)"
    assert legend_texts(axes) == ["1.000  a", "1.000  b", "1.000  mean of 2 classes"]


@pytest.mark.parametrize("classes", [3, 12, 60, 200])
def test_the_confusion_matrix_fits_its_figure(classes: int) -> None:
    axes = drawn(scored("confusion", classes), names=[f"a rather long class name {n}" for n in range(classes)])
    whole, matrix = axes.figure.get_size_inches(), axes.get_position()
    cell = matrix.height * whole[1] / classes
    labels = axes.get_yticklabels()
    assert len(labels) == classes and labels[0].get_fontsize() / 72 < cell < 2.0
    used = axes.figure.get_tightbbox()
    assert used.width > 0.8 * whole[0] and used.height > 0.8 * whole[1] and max(whole) < 22


def test_confusion_matrix_of_fractions() -> None:
    result = scored("confusion", 3)
    matrix = result.values["confusion_matrix"]
    for normalize, axis in (("true", 1), ("pred", 0), ("all", None)):
        axes = drawn(result, normalize=normalize)
        expected = matrix / matrix.sum(axis=axis, keepdims=True)
        np.testing.assert_allclose(axes.images[0].get_array(), expected)
        written = [text.get_text() for text in axes.texts if text.get_text().startswith("0.")]
        assert written == [f"{value:.2f}" for value in expected.ravel()]
    assert drawn(result).get_title("left") == f"Confusion matrix, accuracy {np.trace(matrix) / matrix.sum():.4f}"


def test_reliability_explains_its_colours_and_ends_at_one() -> None:
    metric = CalibrationError(n_bins=4)
    metric.update(torch.tensor([0.1, 0.9, 1.0, 1.0]), torch.tensor([0, 0, 1, 1]))
    axes = drawn(metric.result(), names=["no", "yes"])
    bars = [(bar.get_x(), bar.get_width(), bar.get_height()) for bar in axes.patches]
    assert [(x, w) for x, w, _ in bars] == [(0.0, 0.25), (0.25, 0.25), (0.5, 0.25), (0.75, 0.25)]
    assert bars[-1][2] == pytest.approx(2 / 3)
    assert "fraction of samples in the bin" in [other.get_ylabel() for other in axes.figure.axes]
    assert axes.get_xlabel() == "predicted probability of yes"
    assert axes.get_ylabel() == "fraction of positives: yes"


def test_the_command_normalizes_the_confusion_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[dict[str, Any]] = []
    monkeypatch.setattr("valor_gpu.report.files.draw_picture", lambda path, result, **options: seen.append(options))
    (tmp_path / "a.csv").write_text("t,p\nx,x\ny,x\n")
    arguments = ["classify", "--data", str(tmp_path / "a.csv"), "--target", "t", "--pred", "p", "--quiet"]
    assert main([*arguments, "--plot", str(tmp_path / "confusion.png"), "--normalize", "true"]) == OK
    assert seen == [{"names": ("x", "y"), "source": "a.csv", "normalize": "true"}]


@pytest.mark.parametrize("kind", ["roc", "pr", "reliability"])
def test_legends_stay_in_figures_that_make_no_room(kind: str) -> None:
    axes = scored(kind, 3, sharp=40.0).plot(ax=Figure().subplots())
    axes.figure.canvas.draw()
    legend, figure = axes.get_legend().get_window_extent(), axes.figure.bbox
    assert figure.x0 <= legend.x0 and legend.x1 <= figure.x1 and figure.y0 <= legend.y0
    assert not axes.child_axes
    title = axes._left_title.get_window_extent()
    assert title.y1 <= figure.y1
