"""Detections of bundled COCO images by Valor's definitions: objects in, numbers, error kinds and pictures out.

``python examples/valor_detection.py [FOLDER]``: with a folder, pictures are written there, which needs matplotlib.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from valor_gpu.valor import Annotation, Box, Datum, GroundTruth, Label, Prediction, evaluate_detection

DATA = Path(__file__).parent / "data"
SHOWN = 8  # labels in the pictures, those with most ground truths


def annotation(row: dict[str, Any], names: dict[int, str]) -> Annotation:
    """An annotation of COCO, or a result, which has a score."""
    x, y, width, height = row["bbox"]
    label = Label("category", names[row["category_id"]], row.get("score"))
    box = Box.from_extrema(xmin=x, xmax=x + width, ymin=y, ymax=y + height)
    return Annotation(labels=[label], bounding_box=box, is_instance=True)


def read() -> tuple[list[GroundTruth], list[Prediction]]:
    """The bundled files as objects; Valor has no crowds, so those are left out."""
    truth = json.loads((DATA / "instances_val2014_100.json").read_text())
    results = json.loads((DATA / "instances_val2014_fakebbox100_results.json").read_text())
    names = {category["id"]: category["name"] for category in truth["categories"]}
    true: dict[int, list[Annotation]] = {image["id"]: [] for image in truth["images"]}
    found: dict[int, list[Annotation]] = {image["id"]: [] for image in truth["images"]}
    for row in truth["annotations"]:
        if not row["iscrowd"]:
            true[row["image_id"]].append(annotation(row, names))
    for row in results:
        found[row["image_id"]].append(annotation(row, names))
    return (
        [GroundTruth(Datum(str(image)), rows) for image, rows in true.items()],
        [Prediction(Datum(str(image)), rows) for image, rows in found.items()],
    )


def print_numbers(truths: list[GroundTruth], found: list[Prediction]) -> None:
    """Means over labels, and which errors there are at IoU 0.5 and scores of at least 0.5."""
    wanted = ["mAP", "mAR", "mAPAveragedOverIOUs", "DetailedPrecisionRecallCurve"]
    evaluation = evaluate_detection(truths, found, metrics_to_return=wanted)
    print(f"{evaluation.meta['datums']} images, {evaluation.meta['labels']} labels")
    for metric in evaluation.metrics[:-1]:
        iou = metric["parameters"].get("iou")
        print(f"{metric['type']:<20}{'' if iou is None else f'IoU {iou}':<9} {metric['value']:.4f}")
    errors: Counter[str] = Counter()
    for points in evaluation.metrics[-1]["value"].values():
        errors["true positives"] += points[0.5]["tp"]["total"]
        for side in ("fp", "fn"):
            for kind, cell in points[0.5][side]["observations"].items():
                errors[f"{side}: {kind}"] += cell["count"]
    for kind, count in errors.items():
        print(f"{kind:<29} {count}")


def draw(truths: list[GroundTruth], found: list[Prediction], folder: Path) -> None:
    """Precision over recall, and which label is taken for which, of the most frequent labels at IoU 0.5."""
    import matplotlib.pyplot as plt

    folder.mkdir(parents=True, exist_ok=True)
    wanted = ["PrecisionRecallCurve", "ConfusionMatrix"]
    *curves, matrix = evaluate_detection(
        truths, found, metrics_to_return=wanted, iou_thresholds_to_compute=[0.5], compat="valor-lite"
    ).metrics
    often = Counter(label.value for truth in truths for row in truth.annotations for label in row.labels)
    labels = [label for label, _ in often.most_common(SHOWN)]
    precisions = {curve["parameters"]["label"]: curve["value"]["precisions"] for curve in curves}
    for name, size, paint in (
        ("valor_precision_recall.png", (6.4, 4.4), lambda ax: draw_curves(ax, {n: precisions[n] for n in labels})),
        ("valor_confusion.png", (6.4, 5.6), lambda ax: draw_matrix(ax, matrix["value"], labels)),
    ):
        figure, ax = plt.subplots(figsize=size, layout="constrained")
        paint(ax)
        figure.savefig(folder / name, dpi=90)
        plt.close(figure)


def draw_curves(ax: Any, curves: dict[str, list[float]]) -> None:
    """The 101 precisions of each label."""
    for label, precisions in curves.items():
        ax.step([place / 100 for place in range(101)], precisions, where="post", label=label)
    ax.set(xlabel="recall", ylabel="precision", title="IoU 0.5", xlim=(0, 1), ylim=(0, 1.02))
    ax.legend(loc="lower left", fontsize="small")


def draw_matrix(ax: Any, found: dict[str, Any], labels: list[str]) -> None:
    """Rows are ground truths, columns predictions; the last of both stand for nothing, those before for the rest."""
    names = [*labels, "other labels", "nothing"]
    place = {label: labels.index(label) if label in labels else SHOWN for label in found["confusion_matrix"]}
    cells = [[0] * len(names) for _ in names]
    for true, row in found["confusion_matrix"].items():
        for predicted, count in row.items():
            cells[place[true]][place[predicted]] += count
        cells[place[true]][-1] += found["unmatched_ground_truths"][true]
        cells[-1][place[true]] += found["unmatched_predictions"][true]
    shares = [[count / max(1, sum(row)) for count in row] for row in cells]
    ax.imshow(shares, cmap="Blues", vmin=0, vmax=1.3)  # numbers stay legible in the darkest cell
    for y, row in enumerate(cells):
        for x, count in enumerate(row):
            if count:
                ax.text(x, y, str(count), ha="center", va="center", fontsize="small")
    ax.set_xticks(range(len(names)), names, rotation=45, ha="right")
    ax.set_yticks(range(len(names)), names)
    ax.set(xlabel="prediction", ylabel="ground truth", title="IoU 0.5, scores of at least 0.5")


def main(folder: str | None = None) -> None:
    """Prints the numbers; draws the pictures into ``folder``, if there is one."""
    truths, found = read()
    print_numbers(truths, found)
    if folder is not None:
        draw(truths, found, Path(folder))


if __name__ == "__main__":
    main(*sys.argv[1:2])
