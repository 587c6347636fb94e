"""``valor-gpu segment``: what it prints and writes, and what it says of what it cannot use."""

from __future__ import annotations

import csv
import json
import os
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, balanced_accuracy_score, jaccard_score

from tests.test_imports import loaded_by
from valor_gpu.cli import BAD_INPUT, FAILURE, OK, main
from valor_gpu.inputs import label_map_files
from valor_gpu.store import Store


@pytest.fixture
def folders(tmp_path: Path) -> Path:
    """Three images of 2 x 4 pixels and 3 classes; one prediction is logits, one is in a nested folder."""
    for name, truth, found in (
        ("a", [[0, 0, 1, 1], [0, 0, 1, 255]], [[0, 0, 1, 0], [0, 0, 1, 2]]),
        ("b", [[0, 0, 0, 0], [2, 2, 2, 2]], [[0, 0, 0, 2], [2, 2, 2, 2]]),
        ("ulm/c", [[1, 1, 1, 1], [1, 1, 1, 1]], [[1, 1, 1, 1], [1, 1, 1, 0]]),
    ):
        for side, labels in (("gt", truth), ("pred", found)):
            (tmp_path / side / name).parent.mkdir(parents=True, exist_ok=True)
            np.save(tmp_path / side / name, np.array(labels, np.uint8))
    np.savez(tmp_path / "pred/b.npz", np.eye(3)[np.load(tmp_path / "pred/b.npy")].transpose(2, 0, 1))
    (tmp_path / "pred/b.npy").unlink()
    return tmp_path


def segment(root: Path, *options: Any, classes: int | None = 3) -> int:
    number = [] if classes is None else ["--num-classes", str(classes)]
    return main(["segment", "--gt", f"{root}/gt", "--pred", f"{root}/pred", *number, *map(str, options)])


def test_the_report(folders: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert segment(folders, "--names", "sky,car,road", "--ignore", 255, "--per-class") == OK
    shown = capsys.readouterr()
    whole, classes, *tail = shown.out.split("\n\n")
    ious = [7 / 10, 9 / 11, 4 / 5]
    assert whole.splitlines()[1].split() == [
        "mIOU",
        f"{np.mean(ious):.3f}",
        f"{np.mean([0.7333333, 0.775, 0.4375]):.3f}",
    ]
    assert whole.splitlines()[0].split("  ")[-1] == "mean of images"
    assert [line.split()[:2] for line in classes.splitlines()[1:]] == [
        [name, f"{iou:.3f}"] for name, iou in zip(("sky", "car", "road"), ious)
    ]
    assert tail == [
        "3 images, 24 pixels (1 of them ignored), 3 classes\n"
        "metric:segment|num_classes:3|average:macro|ignore_index:255|zero_division:0.0|version:0.2.0\n"
    ]
    assert shown.err == ""


def test_json_and_the_table_of_images(folders: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, table = folders / "out.json", folders / "out.csv"
    assert segment(folders, "--names", 'sky,"car",road', "--ignore", 255, "--per-image", table, "--json", out) == OK
    assert capsys.readouterr().out.splitlines()[-2:] == [f"wrote {out}", f"wrote {table}"]
    written = json.loads(out.read_text())
    assert written["values"]["miou"] == pytest.approx(np.mean([7 / 10, 9 / 11, 4 / 5]))
    assert (written["classes"], written["failed"]) == (["sky", '"car"', "road"], [])
    assert written["inputs"]["ground_truths"]["files"] == 3 and written["versions"]["torch"] in (None, _torch())
    with table.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["image"] for row in rows] == ["a", "b", "ulm/c"]
    assert rows[1]["prediction"] == f"{folders}/pred/b.npz"
    assert [float(row["miou"]) for row in rows] == pytest.approx([(4 / 5 + 2 / 3) / 2, (3 / 4 + 4 / 5) / 2, 7 / 8 / 2])
    assert float(rows[0]['iou/"car"']) == 2 / 3 and rows[0]["iou/road"] == ""
    sizes = [[row[key] for key in ("height", "width", "pixels", "ignored", "error")] for row in rows]
    assert sizes == [["2", "4", "8", "1", ""], ["2", "4", "8", "0", ""], ["2", "4", "8", "0", ""]]
    assert [rows[1][f"{side}_pixels/road"] for side in ("true", "predicted")] == ["4", "5"]


def _torch() -> str | None:
    module = sys.modules.get("torch")
    return None if module is None else str(module.__version__)


def test_json_on_standard_output_is_alone(folders: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = []
    for threads in (1, 2):
        assert segment(folders, "--ignore", 255, "--json", "-", "--threads", threads) == OK
        shown.append(capsys.readouterr().out)
    assert json.loads(shown[0])["counts"]["images"] == 3
    assert shown[0] == shown[1], "equal inputs give equal bytes, whatever the number of threads"


def test_names_from_a_file(folders: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folders / "names.txt").write_text("\ufeffsky\n  car\n\nroad, wet\n", encoding="utf-8")
    assert segment(folders, "--names", folders / "names.txt", "--ignore", 255, "--per-class", classes=None) == OK
    assert "\nroad, wet  " in capsys.readouterr().out


def test_one_pair_of_files(folders: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = ["--gt", f"{folders}/gt/b.npy", "--pred", f"{folders}/pred/b.npz"]
    assert main(["segment", *files, "--num-classes", "3"]) == OK
    assert "1 image, 8 pixels, 3 classes (1 of them neither true nor predicted" in capsys.readouterr().out


def test_missing_partners(folders: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folders / "pred/b.npz").rename(folders / "pred/d.npz")
    assert segment(folders, "--ignore", 255) == BAD_INPUT
    missing = "--pred has no partner of 1: b; --gt has no partner of 1: d"
    assert capsys.readouterr().err == f"valor-gpu segment: error: {missing}; --allow-missing leaves them out\n"
    assert segment(folders, "--ignore", 255, "--allow-missing", "--json", folders / "out.json") == OK
    shown = capsys.readouterr()
    assert shown.err == f"valor-gpu segment: warning: {missing}; left out\n"
    assert "1 ground truth without prediction, 1 prediction without ground truth\n" in shown.out
    written = json.loads((folders / "out.json").read_text())
    assert (written["without_prediction"], written["without_ground_truth"]) == (["b"], ["d"])
    assert written["counts"]["ground_truths_without_prediction"] == 1


def test_names_that_share_nothing_have_a_hint(folders: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for path in (folders / "gt").rglob("*.npy"):
        path.rename(path.with_name(f"{path.stem}_gtFine.npy"))
    assert segment(folders, "--ignore", 255) == BAD_INPUT
    assert capsys.readouterr().err.endswith(": is --gt-suffix _gtFine meant?\n")
    assert segment(folders, "--ignore", 255, "--gt-suffix", "_gtFine", "--quiet") == OK
    assert capsys.readouterr() == ("", "")


def test_images_that_fail(folders: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(folders / "gt/b.npy", np.zeros((3, 4), int))
    out, table = folders / "out.json", folders / "out.csv"
    assert segment(folders, "--ignore", 255, "--json", out, "--per-image", table) == BAD_INPUT
    shown = capsys.readouterr()
    reason = f"{folders}/pred/b.npz must have the height and width of {folders}/gt/b.npy, 3 x 4, but has 2 x 4"
    assert shown.out == "" and not out.exists()
    assert shown.err.splitlines() == [
        f"valor-gpu segment: failed: {reason}",
        "valor-gpu segment: error: 1 of 3 images failed; --skip-bad leaves them out",
    ]
    with table.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["error"] for row in rows] == ["", reason, ""] and rows[1]["miou"] == "" != rows[2]["miou"]
    assert segment(folders, "--ignore", 255, "--json", out, "--skip-bad") == OK
    shown = capsys.readouterr()
    assert "2 images, 16 pixels (1 of them ignored)" in shown.out and "1 image failed" in shown.out
    assert shown.err.splitlines()[1] == "valor-gpu segment: warning: 1 of 3 images failed; left out"
    written = json.loads(out.read_text())
    assert written["failed"] == [{"image": "b", "error": reason}] and written["counts"]["failed_images"] == 1
    assert written["inputs"]["predictions"]["files"] == 2


def test_many_failures_are_counted_and_all_of_them_are_an_error(
    folders: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(12):
        for side in ("gt", "pred"):
            np.save(folders / side / f"n{number:02}.npy", np.full((1, 1), 9))
    assert segment(folders, "--ignore", 255) == BAD_INPUT
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 12
    assert lines[-2] == "valor-gpu segment: failed: 2 more images failed: --per-image and --json list all"
    assert lines[-1] == "valor-gpu segment: error: 12 of 15 images failed; --skip-bad leaves them out"
    assert main(["segment", "--gt", f"{folders}/gt/n00.npy", "--pred", f"{folders}/pred/n00.npy", "--num-classes", "3",
                 "--skip-bad", "--ignore", "5"]) == BAD_INPUT  # fmt: skip
    assert capsys.readouterr().err.endswith("error: 1 of 1 image failed\n")


def test_a_value_that_is_no_class_has_a_hint(folders: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert segment(folders) == BAD_INPUT
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].endswith("gt/a.npy[1, 3] must be a class index from 0 to 2 but is 255")
    assert lines[1].endswith("1 of 3 images failed: --ignore 255 leaves out pixels whose ground truth is 255")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--gt", "{}/none"], "--gt must be a folder but {}/none does not exist"),
        (["--pred", "{}/gt"], "--pred must have other files than --gt but both are {}/gt"),
        (["--pred", "{}/gt/a.npy"], "--gt must be a file, as --pred is, but is a folder"),
        (["--names", "a,b"], "--names must have 3 names, as --num-classes says, but has 2"),
        (["--names", "a,b,a"], "--names must be different but has 'a' twice"),
        (["--names", "a,,b"], "--names must be different but one is empty"),
        (["--names", "{}/no.txt"], "--names must be names or a text file but the file {}/no.txt does not exist"),
        (["--num-classes", "40000"], "num_classes must be at most 32767 but got 40000"),
        (["--ignore", str(2**64)], f"ignore_index must fit in int64 but got {2**64}"),
        (["--gt-suffix", "_x"], "--gt must have label maps (*_x.png, *_x.npy, *_x.npz) but {}/gt has none of 3 files"),
        (["--json", "{}/gt"], "--json must be a file but {}/gt is a folder"),
        (["--per-image", "{}/none/a.csv"], "--per-image must lie in a folder that exists but {}/none does not"),
        (["--per-image", "{}/gt/a.npy"],
         "--per-image must be another file than those of --gt but {}/gt/a.npy is one of them"),
        (["--json", "{}/gt/../pred/ulm/c.npy"],
         "--json must be another file than those of --pred but {}/gt/../pred/ulm/c.npy is one of them"),
        (["--per-image", "{}/a", "--json", "{}/a"], "--per-image must be another file than --json but both are {}/a"),
    ],
)  # fmt: skip
def test_errors_come_before_any_work(
    options: list[str], said: str, folders: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert segment(folders, *(option.replace("{}", str(folders)) for option in options)) == BAD_INPUT
    assert capsys.readouterr().err == f"valor-gpu segment: error: {said.replace('{}', str(folders))}\n"
    assert np.load(folders / "gt/a.npy").shape == np.load(folders / "pred/ulm/c.npy").shape == (2, 4)


def test_classes_must_be_known(folders: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert segment(folders, classes=None) == BAD_INPUT
    assert "error: --num-classes or --names must be given but neither is" in capsys.readouterr().err
    for option in (["--ignore", "x"], ["--num-classes", "0"], ["--threads", "0"]):
        with pytest.raises(SystemExit, match="2"):
            segment(folders, *option)
        assert f"argument {option[0]}: must be a whole number" in capsys.readouterr().err


def test_the_extra_is_named(folders: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    (folders / "gt/b.npy").unlink()
    image.fromarray(np.zeros((2, 4), np.uint8)).save(folders / "gt/b.png")
    assert segment(folders, "--ignore", 255) == FAILURE
    assert f"reading {folders}/gt/b.png needs Pillow: pip install 'valor_gpu[images]'" in capsys.readouterr().err


def test_neither_torch_nor_pillow_is_loaded(folders: Path) -> None:
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    arguments = ["segment", "--gt", f"{folders}/gt", "--pred", f"{folders}/pred", "--num-classes", "3", "--ignore",
                 "255", "--per-class", "--json", f"{folders}/o.json", "--per-image", f"{folders}/o.csv"]  # fmt: skip
    program = f"from valor_gpu.cli import main\nassert main({arguments!r}) == 0\nimport sys; assert"
    for side in ("gt", "pred"):
        image.fromarray(np.zeros((2, 4), np.uint8)).save(folders / side / "p.png")
    assert loaded_by(f"{program} 'PIL' not in sys.modules") == {"numpy"}
    assert json.loads((folders / "o.json").read_text())["counts"]["images"] == 4


def test_a_file_name_that_is_no_text(folders: Path) -> None:
    """Names are bytes to the system; standard output, CSV and JSON take them as they are."""
    for side in ("gt", "pred"):
        os.rename(folders / side / "a.npy", bytes(folders / side) + b"/\xff\xfe.npy")
    arguments = ["segment", "--gt", "gt", "--pred", "pred", "--num-classes", "3", "--per-image", "o.csv", "--skip-bad"]
    run = subprocess.run([sys.executable, "-m", "valor_gpu", *arguments], cwd=folders, capture_output=True)
    assert run.returncode == OK, run.stderr
    assert b"gt/\\udcff\\udcfe.npy[1, 3] must be a class" in run.stderr
    assert b"\n\xff\xfe,gt/\xff\xfe.npy," in (folders / "o.csv").read_bytes()


def test_the_bundled_label_maps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Numbers of the demo, against the masks that the maps were painted from and scikit-learn's Jaccard index."""
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    maps = Path(__file__).parent.parent / "examples/data/label_maps"
    names = (maps / "names.txt").read_text().split()
    fixed = ["--gt", f"{maps}/gt", "--pred", f"{maps}/pred", "--names", f"{maps}/names.txt", "--ignore", "255"]
    assert main(["segment", *fixed, "--json", f"{tmp_path}/o.json"]) == OK
    values = json.loads((tmp_path / "o.json").read_text())["values"]
    sides = [
        np.concatenate([np.asarray(image.open(path)).ravel() for path in sorted((maps / side).glob("*.png"))])
        for side in ("gt", "pred")
    ]
    truth, found = (side[sides[0] != 255] for side in sides)
    ious = jaccard_score(truth, found, labels=range(len(names)), average=None)
    assert list(values["iou_per_class"].values()) == pytest.approx(ious.tolist(), rel=1e-14)
    assert values["miou"] == pytest.approx(ious.mean(), rel=1e-14)
    assert values["pixel_accuracy"] == pytest.approx(accuracy_score(truth, found), rel=1e-14)
    assert values["mean_accuracy"] == pytest.approx(balanced_accuracy_score(truth, found), rel=1e-14)
    assert sum(path.stat().st_size for path in maps.rglob("*.*")) < 150_000


def test_the_bundled_label_maps_are_made_by_their_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    examples = Path(__file__).parent.parent / "examples"
    script = runpy.run_path(str(examples / "make_label_maps.py"))
    monkeypatch.setitem(script["main"].__globals__, "OUTPUT", tmp_path / "label_maps")
    script["main"]()
    made = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*.*"))
    kept = sorted(path.relative_to(examples / "data") for path in (examples / "data/label_maps").rglob("*.*"))
    assert made == kept and len(made) == 61
    read = label_map_files.LabelMapReader().read
    for path in made:
        if path.suffix == ".png":
            assert np.array_equal(read(str(tmp_path / path)), read(str(examples / "data" / path)))
        else:
            assert (tmp_path / path).read_bytes() == (examples / "data" / path).read_bytes()


def test_masks_of_0_and_255_are_no_class_indices(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``--ignore 255`` would leave the whole object out."""
    for side, masks in (("gt", ([[0, 255]], [[0, 0]])), ("pred", ([[0, 0]], [[255, 0]]))):
        (tmp_path / side).mkdir()
        for name, mask in zip("ab", masks):
            np.save(tmp_path / side / f"{name}.npy", np.array(mask, np.uint8))
    assert segment(tmp_path) == BAD_INPUT
    said = capsys.readouterr().err
    assert "255 is in ground truths and predictions; files must hold class indices, 0, 1, 2 ..." in said
    assert "--ignore" not in said


def test_logits_with_the_classes_last(folders: Path, capsys: pytest.CaptureFixture[str]) -> None:
    height, width = np.load(folders / "gt/a.npy").shape
    np.save(folders / "pred/a.npy", np.zeros((height, width, 3), np.float32))
    assert segment(folders, "--ignore", 255) == BAD_INPUT
    assert f"but has {width} x 3: logits must be [classes, height, width]" in capsys.readouterr().err


def saved_maps(root: Path, truth: Any, found: Any, dtype: Any = np.int64) -> Path:
    for side, labels in (("gt", truth), ("pred", found)):
        (root / side).mkdir(exist_ok=True)
        np.save(root / side / "x.npy", np.asarray(labels, dtype))
    return root


@pytest.mark.parametrize(
    ("truth", "found", "classes", "said"),
    [
        ([[0, 255]], [[0, 1]], 2, "255 is the only label beside 0 in ground truths; where it is the foreground, files"
         " must hold 0 and 1"),
        ([[0, 1]], [[0, 255]], 2, "255 is the only label beside 0 in predictions; where it is the foreground, files"
         " must hold 0 and 1"),
        ([[0, 255]], [[0, 255]], 2, "255 is the only label beside 0 in ground truths and predictions; where it is the"
         " foreground, files must hold 0 and 1"),
        ([[0, 1, 255]], [[0, 1, 1]], 2, "--ignore 255 leaves out pixels whose ground truth is 255"),
        ([[0, 255]], [[0, 1]], 3, "--ignore 255 leaves out pixels whose ground truth is 255"),
        ([[1, 2, 3, 4]], [[0, 1, 2, 3]], 4, "ground truths hold labels from 1 to 4 but classes are numbered"
         " from 0: subtract 1"),
        ([[1, 2, 255, 4]], [[1, 2, 3, 4]], 4, "ground truths and predictions hold labels from 1 to 4 but classes"
         " are numbered from 0: subtract 1"),
        ([[0, 1, 2, 3, 4]], [[0, 1, 2, 3, 3]], 4, "--ignore 4 leaves out pixels whose ground truth is 4, where it"
         " stands for no class; where 4 is a class, --num-classes 5 counts it"),
        ([[0, 1, 2, 7, 5]], [[0, 1, 2, 3, 3]], 4, "2 labels of ground truths are no class, from 5 to 7; where 7 is a"
         " class, --num-classes 8 counts it"),
        ([[0, 128, 255]], [[0, 1, 2]], 3, "2 of 3 labels of ground truths are no class, from 128 to 255; files must"
         " hold the numbers of classes, 0 to 2"),  # grey values: to ignore one or count 129 classes is wrong
        ([[0, 1, -5]], [[0, 1, 2]], 4, "--ignore -5 leaves out pixels whose ground truth is -5, where it stands for no"
         " class"),
        ([[0, 1]], [[0, 1]], 1, "ground truths and predictions hold two classes, 0 and 1: --num-classes 2"),
    ],
)  # fmt: skip
def test_hints_at_labels_that_are_no_class(
    truth: Any, found: Any, classes: int, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert segment(saved_maps(tmp_path, truth, found), classes=classes) == BAD_INPUT
    assert capsys.readouterr().err.endswith(f"error: 1 of 1 image failed: {said}\n")


def test_labels_of_all_images_make_the_hint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The labels of an image that can be counted, and those of others that failed, tell what 255 is."""
    root = saved_maps(tmp_path, [[0, 255]], [[0, 1]])
    for name, truth in (("y", [[0, 255]]), ("z", [[0, 1]])):
        np.save(root / f"gt/{name}.npy", np.array(truth))
        np.save(root / f"pred/{name}.npy", np.array([[0, 0]]))
    assert segment(root, classes=2) == BAD_INPUT
    assert capsys.readouterr().err.endswith(
        "2 of 3 images failed: --ignore 255 leaves out pixels whose ground truth is 255\n"
    )


def test_a_foreground_that_is_ignored_is_warned_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.json"
    root = saved_maps(tmp_path, [[0, 255, 0, 255, 255]], [[0, 1, 1, 0, 1]])
    said = (
        "--ignore 255 leaves out 3 of 5 pixels and the others are all of class 0: where 255 is the foreground of a"
        " mask, it must be 1"
    )
    store = tmp_path / "store.sqlite"
    assert segment(root, "--ignore", 255, "--json", out, "--store", store, classes=2) == OK
    assert capsys.readouterr().err == f"valor-gpu segment: warning: {said}\n"
    assert json.loads(out.read_text())["warnings"] == [said]
    assert Store(store).runs()[0].config["notes"] == [f"{said}."]


@pytest.mark.parametrize(
    ("truth", "classes", "ignored", "said"),
    [
        ([[1, 2, 3, 4]], 4, 4, "--ignore 4 leaves out 1 of 4 pixels and none is of class 0: where labels run from 1 to"
         " 4, they must begin with 0"),
        ([[1, 1, 1, 1]], 2, 1, "--ignore 1 leaves out 4 of 4 pixels, so that nothing is counted"),
        ([[0, 1, 0, 1]], 2, 1, "--ignore 1 leaves out 2 of 4 pixels and the others are all of class 0"),
        ([[3, 255, 3, 3]], 21, 255, "--ignore 255 leaves out 1 of 4 pixels and the others are all of class 3"),
        ([[0, 1, 0, 1]], 2, 0, ""),  # the background left out
        ([[0, 1, 255, 1]], 2, 255, ""),
        ([[0, 0, 0, 0]], 2, 255, ""),
        ([[0, 255, 18, 1]], 19, 255, ""),
        ([[0, 4, 3, 1]], 4, 4, ""),
        ([[0, 0, 255, 0]], 1, 255, ""),
    ],
)  # fmt: skip
def test_warnings_of_what_is_ignored(
    truth: Any, classes: int, ignored: int, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = saved_maps(tmp_path, truth, [[0] * 4])
    assert segment(root, "--ignore", ignored, classes=classes) == OK
    assert capsys.readouterr().err == (f"valor-gpu segment: warning: {said}\n" if said else "")
