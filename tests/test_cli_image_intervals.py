"""``--intervals`` and ``--cluster-file`` of the commands that read images."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from testing.panoptic_files import GROUND_TRUTH, PREDICTIONS
from valor_gpu.cli import BAD_INPUT, OK, main
from valor_gpu.inputs.label_map_pairs import Pair
from valor_gpu.inputs.panoptic_files import read_panoptic_json
from valor_gpu.segmentation.coco_panoptic import PanopticEvaluation, evaluate_files
from valor_gpu.segmentation.label_map_folders import ImageCounts, Task, Totals
from valor_gpu.segmentation.resampled_images import KEEP_IMAGES, ResampledImages
from valor_gpu.stats import Bootstrap
from valor_gpu.stats.draws import Draws
from valor_gpu.stats.methods import EQUAL

IMAGES, CLASSES = 22, 3


@pytest.fixture
def folders(tmp_path: Path) -> Path:
    """Images of which two have the third class; every third one is of a cluster of its own."""
    generator = np.random.default_rng(3)
    lines = ["image,cluster"]
    for side in ("gt", "pred"):
        (tmp_path / side).mkdir()
    for number in range(IMAGES):
        truth = generator.integers(0, 2 + (number < 2), (6, 8)).astype(np.uint8)
        found = np.where(generator.random(truth.shape) < 0.7, truth, 1).astype(np.uint8)
        np.save(tmp_path / f"gt/{number}.npy", truth)
        np.save(tmp_path / f"pred/{number}.npy", found)
        lines.append(f"{number},video {number // 3}")
    (tmp_path / "clusters.csv").write_text("\n".join(lines) + "\n\n")
    return tmp_path


def segment(root: Path, *options: Any) -> int:
    return main(["segment", "--gt", f"{root}/gt", "--pred", f"{root}/pred", "--num-classes", "3", *map(str, options)])


def counted(numbers: list[int], keep_images: bool = True) -> Totals:
    """Images of a few pixels each, in any order."""
    totals = Totals(["road", "sky"], Task(2), keep_images)
    for number in numbers:
        generator = np.random.default_rng(number)
        true, predicted = generator.integers(0, 9, (2, 2))
        counts = np.array([np.minimum(true, predicted) // 2, predicted, true])
        totals.add(ImageCounts(Pair(f"{number:02}", "", ""), (9, 9), counts))
    return totals


def test_segment_shows_the_ends_of_intervals(folders: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert segment(folders, "--intervals", 40, "--per-class", "--json", folders / "out.json") == OK
    whole, classes, tail = capsys.readouterr().out.split("\n\n")
    written = json.loads((folders / "out.json").read_text())
    assert written["interval_choices"]["units"] == IMAGES
    values, found = written["values"], written["intervals"]
    for column, name in ((1, "miou"), (2, "image_miou")):
        bounds = f"{found[name]['low']:.3f} to {found[name]['high']:.3f}"
        assert whole.splitlines()[1].split("  ")[-3 + column].strip() == f"{values[name]:.3f} ({bounds})"
        assert found[name]["low"] < values[name] < found[name]["high"]
    assert found["iou_per_class/2"]["reason"] == "too few images: 2 hold a truth, it takes 20"
    assert f"{values['iou_per_class']['2']:.3f} (too few images)" in classes
    assert "95% intervals of E[miou] at 22 images: 40 replicates of images, method " in tail and "seed 0" in tail
    assert {name.split("/")[0] for name in found} == {*values} - {
        f"{name}_per_class" for name in ("true_pixels", "predicted_pixels", "images")
    }


def test_segment_draws_clusters(folders: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--intervals", 40, "--seed", 3, "--confidence", 0.9, "--cluster-file", folders / "clusters.csv")
    assert segment(folders, *options) == OK
    shown = capsys.readouterr().out
    assert "90% intervals of E[miou] at 22 images: 40 replicates of 8 clusters of images" in shown and "seed 3" in shown


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name,cluster\n", "must have the columns image and cluster but has name, cluster"),
        ("", "must have a line with the names of its columns but is empty"),
        ("image,cluster\n1,\n", "line 2 must have an image and a cluster but lacks one"),
        ("image,cluster\n1,a\n1,b\n", "line 3 must name another image but '1' came before"),
        ("image,cluster\n1,a\n", "clusters must have every image but 21 are missing, such as '0'"),
        ("image,cluster\n1, \n", "line 2 must have an image and a cluster but lacks one"),
        ("".join(["image,cluster\n", *(f"{n} ,a \n" for n in range(23))]), "no other image but have 1, such as '22'"),
    ],
)
def test_files_of_clusters_that_cannot_be_used(
    folders: Path, capsys: pytest.CaptureFixture[str], text: str, message: str
) -> None:
    (folders / "bad.csv").write_text(text)
    assert segment(folders, "--intervals", 4, "--cluster-file", folders / "bad.csv") == BAD_INPUT
    assert message in capsys.readouterr().err


def test_options_that_need_others(folders: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert segment(folders, "--cluster-file", folders / "clusters.csv") == BAD_INPUT
    assert "--cluster-file needs --intervals N" in capsys.readouterr().err
    assert segment(folders, "--intervals", 4, "--cluster-file", folders / "none.csv") == BAD_INPUT
    assert "--cluster-file must be a file but" in capsys.readouterr().err


def test_the_order_of_images_changes_no_bit() -> None:
    there = counted([*range(30)]).result({}, 20)
    back = counted([*range(29, -1, -1)]).result({}, 20)
    assert repr(there.intervals) == repr(back.intervals)
    clusters = {f"{number:02}": number // 2 for number in range(30)}
    choices = Bootstrap(20, clusters=clusters)
    assert counted([*range(30)]).result({}, choices).intervals.choices["clusters"] == 15
    with pytest.raises(Exception, match=f"^{KEEP_IMAGES}$"):
        counted([1], False).result({}, 20)


def test_replicates_of_label_maps_are_the_numbers_of_repeated_images() -> None:
    state: ResampledImages = vars(counted([*range(25)]).result({}))["_state"]()
    draws = Draws(25, 4)
    found = state.replicates(draws)
    for column, weights in enumerate(draws.array().T.tolist()):
        values = counted([n for n, times in enumerate(weights) for _ in range(times)]).result({}).values
        for name, numbers in found.items():
            whole, _, key = name.partition("/")
            expected = values[whole][key] if key else values[whole]
            if name.startswith("image_"):  # the command adds these one by one, with what rounding loses
                assert float(numbers[column]) == pytest.approx(expected, rel=1e-15, nan_ok=True), name
            else:
                assert repr(float(numbers[column])) == repr(expected), name
    assert {state.family_of("image_miou"), state.family_of("miou")} == {"rows", "pixels"}


def evaluation(times: int) -> PanopticEvaluation:
    files = read_panoptic_json(str(GROUND_TRUTH), True), read_panoptic_json(str(PREDICTIONS), False)
    folders = tuple(str(path).removesuffix(".json") for path in (GROUND_TRUTH, PREDICTIONS))
    found = evaluate_files(*files, (folders[0], folders[1]), 1, lambda done: None)
    annotations = [*files[0].annotations.items()]
    files[0].annotations.clear()
    for time in range(times):
        files[0].annotations.update({f"{number} {time}": each for number, each in annotations})
    return PanopticEvaluation(files[0], found.images * times, 0)


def test_panoptic_shows_the_ends_of_intervals(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    files = ["--gt", str(GROUND_TRUTH), "--pred", str(PREDICTIONS), "--json", str(tmp_path / "out.json")]
    store = ["--store", str(tmp_path / "runs.db")]
    assert main(["panoptic", *files, *store, "--intervals", "50", "--per-class"]) == OK
    shown, written = capsys.readouterr().out, json.loads((tmp_path / "out.json").read_text())
    low, high = (written["intervals"]["pq"][end] for end in ("low", "high"))
    assert f"{written['values']['pq']:.3f} ({low:.3f} to {high:.3f})" in shown
    assert "95% intervals of E[pq] at 2 images: 50 replicates of images" in shown
    assert written["intervals"]["pq_per_class/person"]["reason"].startswith("too few images: 2 hold a truth")


def test_panoptic_quality_of_repeated_images() -> None:
    result = evaluation(15).result()
    state: ResampledImages = vars(result)["_state"]()
    assert state.units == 30
    draws = Draws(30, 6, seed=2)
    found = state.replicates(draws)
    for column in range(draws.count):
        weights = np.empty(30, np.int64)
        weights[state._order] = draws.array()[:, column]
        one, other = weights[::2].sum(), weights[1::2].sum()
        whole = evaluation(1)
        repeated = PanopticEvaluation(whole.ground_truth, whole.images[:1] * one + whole.images[1:] * other, 0)
        values = repeated.result().values
        assert repr(float(found["pq"][column])) == repr(values["pq"])
        for name, value in values["pq_per_class"].items():
            assert repr(float(found[f"pq_per_class/{name}"][column])) == repr(value)
    clusters = {str(image): number // 2 for number, image in enumerate(evaluation(15).ground_truth.annotations)}
    narrow = evaluation(15).result(Bootstrap(60, clusters=clusters)).intervals
    assert narrow.choices["clusters"] == 15
    # Each cluster holds one of each image, so that replicates of clusters are all alike.
    assert narrow["pq"].reason == EQUAL
    assert result.with_intervals(60).intervals["pq"].standard_error > 0
    assert not math.isnan(result.with_intervals(60).intervals["pq_per_class/person"].low)
