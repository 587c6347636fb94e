"""``valor-gpu segment --overlay``: pictures of the images with the lowest mIOU."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from valor_gpu.cli import BAD_INPUT, FAILURE, OK, main
from valor_gpu.cli.segment_overlay import WorstImages
from valor_gpu.inputs.label_map_pairs import Pair
from valor_gpu.report import label_map_overlay
from valor_gpu.report.label_map_overlay import LabelMaps, class_colors, draw_label_maps
from valor_gpu.segmentation.label_map_folders import ImageCounts

pytest.importorskip("matplotlib", reason="matplotlib is not installed")

from matplotlib.image import imread, imsave


@pytest.fixture
def folders(tmp_path: Path) -> Path:
    """Image ``n`` of 4 has n wrong pixels of 24 x 32; what is wrong at the last is logits."""
    for side in ("gt", "pred"):
        (tmp_path / side / "ulm").mkdir(parents=True)
    for wrong in range(4):
        truth = np.arange(24 * 32).reshape(24, 32) // 256
        truth[0] = 9
        found = truth % 9
        found[5, :wrong] = 2
        np.save(tmp_path / f"gt/ulm/i{wrong}", truth)
        np.save(tmp_path / f"pred/ulm/i{wrong}", np.eye(3)[found].transpose(2, 0, 1) if wrong == 3 else found)
    return tmp_path


def segment(root: Path, *options: Any) -> int:
    fixed = ["--gt", f"{root}/gt", "--pred", f"{root}/pred", "--num-classes", "3", "--ignore", "9"]
    return main(["segment", *fixed, *map(str, options)])


def test_the_worst_images_are_drawn(folders: Path, capsys: pytest.CaptureFixture[str]) -> None:
    drawn = folders / "new/pictures"
    assert segment(folders, "--overlay", drawn, "--overlay-count", 2) == OK
    names = ["001_ulm_i3.png", "002_ulm_i2.png"]
    assert capsys.readouterr().out.splitlines()[-2:] == [f"wrote {drawn / name}" for name in names]
    assert sorted(path.name for path in drawn.iterdir()) == names
    first = [(drawn / name).read_bytes() for name in names]
    assert segment(folders, "--overlay", drawn, "--quiet") == OK
    assert [path.name[:3] for path in sorted(drawn.iterdir())] == ["001", "002", "003"], "no picture of what is right"
    assert [(drawn / name).read_bytes() for name in names] == first


def test_names_longer_than_a_file_may_have(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for side, label in (("gt", 0), ("pred", 1)):
        path = tmp_path / side / ("é" * 100) / ("d" * 150) / "i.npy"
        path.parent.mkdir(parents=True)
        np.save(path, np.full((4, 4), label))
    numbers = tmp_path / "out.json"
    assert (
        segment(tmp_path, "--overlay", tmp_path / "drawn", "--json", numbers, "--per-image", tmp_path / "a.csv") == OK
    )
    (drawn,) = (tmp_path / "drawn").iterdir()
    assert drawn.name == f"001_{'é' * 23}_{'d' * 150}_i.png" and numbers.stat().st_size
    assert f"wrote {drawn}" in capsys.readouterr().out


def test_an_error_of_a_picture_costs_no_number(folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*given: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(label_map_overlay, "draw_label_maps", full)
    assert segment(folders, "--overlay", folders / "drawn", "--json", folders / "out.json") == FAILURE
    assert '"miou"' in (folders / "out.json").read_text()


def test_photos_lie_under_the_labels(folders: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folders / "photos/ulm").mkdir(parents=True)
    imsave(folders / "photos/ulm/i3_left.png", np.zeros((24, 32, 3)))
    drawn, options = folders / "out", ("--images", folders / "photos", "--images-suffix", "_left")
    assert segment(folders, "--overlay", drawn, "--overlay-count", 2, *options) == OK
    said = f"warning: 1 photo is not there, drawn on a plain canvas instead: {folders}/photos/ulm/i2_left.jpg\n"
    assert said in capsys.readouterr().err
    assert segment(folders, "--overlay", folders / "plain", "--overlay-count", 2) == OK
    sides = [[imread(folders / side / name)[..., :3] for side in ("out", "plain")] for name in (
        "001_ulm_i3.png", "002_ulm_i2.png")]  # fmt: skip
    assert sides[0][0].mean() < sides[0][1].mean() - 0.005 and np.array_equal(*sides[1])
    imsave(folders / "photos/ulm/i3_left.png", np.zeros((24, 31, 3)))
    capsys.readouterr()
    (folders / "photos/ulm/i2_left.png").write_bytes(b"no picture")
    assert segment(folders, "--overlay", drawn, "--overlay-count", 2, *options, "--json", folders / "o.json") == OK
    shown = capsys.readouterr()
    assert (
        "warning: 2 photos cannot be used, drawn on a plain canvas instead: "
        f"{folders}/photos/ulm/i3_left.png must be 24 pixels high and 32 wide but has shape [24, 31, 4], and others\n"
    ) in shown.err
    assert "mIOU" in shown.out and (folders / "o.json").is_file(), "a bad photo costs no number"
    assert np.array_equal(imread(drawn / "001_ulm_i3.png"), imread(folders / "plain/001_ulm_i3.png"))


def test_no_error_is_no_picture(folders: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = ["--gt", f"{folders}/gt/ulm/i0.npy", "--pred", f"{folders}/pred/ulm/i0.npy", "--num-classes", "3"]
    assert main(["segment", *files, "--ignore", "9", "--overlay", f"{folders}/out"]) == OK
    assert capsys.readouterr().out.endswith(f"no picture in {folders}/out: no image has an error\n")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--overlay", "{}/gt/ulm/i0.npy"], "--overlay must be a folder but {}/gt/ulm/i0.npy is a file"),
        (["--images", "{}"], "--overlay must be given with --images but is not"),
        (["--images-suffix", "x"], "--overlay must be given with --images-suffix but is not"),
        (["--overlay-count", "3"], "--overlay must be given with --overlay-count but is not"),
        (["--overlay", "{}/a", "--images", "{}/b"], "--images must be a folder but {}/b does not exist"),
        (["--overlay", "{}/gt/a"], "--overlay must lie outside of --gt, whose files are read, but {}/gt/a is in {}/gt"),
        (["--overlay", "{}", "--images", "{}"], "--overlay must be another folder than --images but both are {}"),
    ],
)  # fmt: skip
def test_errors_come_before_any_work(
    options: list[str], said: str, folders: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert segment(folders, *(option.replace("{}", str(folders)) for option in options)) == BAD_INPUT
    assert capsys.readouterr().err == f"valor-gpu segment: error: {said.replace('{}', str(folders))}\n"
    assert sorted(path.name for path in folders.iterdir()) == ["gt", "pred"]


def test_the_extra_is_named(folders: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *a: None if name == "matplotlib" else find(name, *a))
    assert segment(folders, "--overlay", folders / "out") == FAILURE
    assert "--overlay needs matplotlib: pip install 'valor_gpu[plot]'" in capsys.readouterr().err


def test_the_lowest_miou_comes_first_and_ties_in_order() -> None:
    worst = WorstImages(3)
    for name, miou in (("a", 0.5), ("b", 0.2), ("c", 0.9), ("d", 0.2), ("e", float("nan")), ("right", 1.0)):
        counts = np.array([[1], [1], [2 if name != "right" else 1]])
        worst.add(ImageCounts(Pair(name, "", ""), (1, 2), counts), miou)
    assert [(image.pair.name, miou) for image, miou in worst.images()] == [("b", 0.2), ("d", 0.2), ("a", 0.5)]


def maps(truth: NDArray[Any], found: NDArray[Any], ignored: int = 255, classes: int = 300) -> LabelMaps:
    return LabelMaps(truth, found, truth != ignored, "image $x$\n", "mIOU 0.5", [0.5] * classes)


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [
        pytest.param(shape, dtype, marks=() if (s + d) % 4 == 0 else pytest.mark.slow)
        for s, shape in enumerate([(1, 1), (1, 900), (900, 1), (30, 70), (2000, 3)])
        for d, dtype in enumerate([np.uint8, np.int64, np.uint64, np.bool_])
    ],
)
def test_any_size_and_type_is_drawn(shape: tuple[int, int], dtype: type, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    truth, found = (rng.integers(0, 2, shape).astype(dtype) for _ in range(2))
    names = ["background", "猫 $a_b$"]
    draw_label_maps(tmp_path / "a.png", maps(truth, found), names, class_colors(names, [1, 2]))
    height, width = imread(tmp_path / "a.png").shape[:2]
    assert 100 < height < 3000 and 100 < width < 1500


def test_many_classes_and_values_that_are_none(tmp_path: Path) -> None:
    truth = np.arange(300).repeat(20).reshape(60, 100)
    truth[:, ::7], found = 2**40, truth[::-1].copy()
    found[:, ::7] = -5  # such pixels do not count
    names = [f"a class of many letters and the number {c}" for c in range(300)]
    drawn = maps(truth, found, 2**40)
    draw_label_maps(tmp_path / "a.svg", drawn, names, class_colors(names, [1] * 300))
    assert (tmp_path / "a.svg").read_text().count("<image") == 3


def test_colours_differ_and_the_background_is_grey() -> None:
    names = [f"c{c}" for c in range(21)]
    colors = class_colors(names, range(21))
    rounded = {tuple((color * 255).round()) for color in colors.values()}
    assert len(rounded) == 21 and np.ptp(class_colors(["Background"], [5])[0]) == 0
    assert np.array_equal(colors[20], class_colors(["x"], [1])[0]), "most pixels have the first colour"


def test_stripes_show_both_classes_only_where_it_is_wrong() -> None:
    truth, found = np.zeros((40, 40), int), np.zeros((40, 40), int)
    found[:20], truth[:, 30:] = 1, 9
    colors = class_colors(["a", "b"], [2, 1])
    shown = label_map_overlay._Shown(maps(truth, found, 9), None, colors, (80, 80)).errors()
    wrong, right, ignored = shown[:40, :60].reshape(-1, 3), shown[40:, :60].reshape(-1, 3), shown[:, 60:].reshape(-1, 3)
    assert {tuple(c) for c in wrong} == {tuple(color) for color in colors.values()}
    assert len({tuple(c) for c in right}) == 1 and right.min() > 0.7
    assert np.ptp(ignored, axis=1).max() == 0


def test_the_largest_confusions_are_named() -> None:
    truth, found = np.zeros((10, 100), int), np.zeros((10, 100), int)
    found[0, :50], found[1, :7], truth[2, 0] = 1, 2, 2
    names = ["sky", "car", "dog"]
    said = label_map_overlay._confusions(maps(truth, found), names, 200)
    assert said == "largest errors: sky taken for car 5.0%, sky taken for dog 0.7%, dog taken for sky 0.1%"
    said = label_map_overlay._confusions(maps(truth, found), names, 70)
    assert said == "largest errors: sky taken for car 5.0%, sky taken for dog 0.7%", "no part is cut"
    truth = np.zeros((100, 100), int)
    assert label_map_overlay._confusions(maps(truth, truth), names, 200) == "largest errors: each below 0.05%"


@pytest.mark.parametrize("shape", [(60, 120), (120, 40), (3, 4)])
def test_texts_stay_in_the_picture_and_hide_no_other(
    shape: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every text lies inside what it belongs to, the numbers of the headline are whole."""
    from matplotlib.figure import Figure

    figures: list[Figure] = []
    save = Figure.savefig

    def kept(self: Figure, *args: Any, **kwargs: Any) -> None:
        figures.append(self)
        save(self, *args, **kwargs)

    monkeypatch.setattr(Figure, "savefig", kept)
    truth = np.arange(12).repeat(shape[0] * shape[1] // 12).reshape(shape)
    names = [f"a class of number {c}" for c in range(12)]
    numbers = "mIOU 0.224, 57.5% of 1,458,752 pixels right (165,536 more ignored)"
    drawn = LabelMaps(truth, np.roll(truth, 1, 1), truth < 99, "frankfurt_000001_" * 9, numbers, [0.5] * 12)
    draw_label_maps(tmp_path / "a.png", drawn, names, class_colors(names, [1] * 12))
    figure = figures[0]
    renderer = figure.canvas.get_renderer()  # type: ignore[attr-defined]
    assert any(text.get_text().endswith(numbers) for text in figure.texts)
    for text in [*figure.texts, *(axes.title for axes in figure.axes), *(axes._left_title for axes in figure.axes)]:  # type: ignore[attr-defined]
        assert text.get_window_extent(renderer).x1 <= figure.bbox.x1
    for axes in figure.axes:
        boxes = [text.get_window_extent(renderer) for text in axes.texts]
        frame = axes.get_window_extent(renderer).padded(0.5)
        assert all(frame.x0 <= box.x0 and box.x1 <= frame.x1 and frame.y0 <= box.y0 for box in boxes)
        assert not any(a.overlaps(b) for n, a in enumerate(boxes) for b in boxes[:n])
        assert boxes or axes is figure.axes[2]
