"""Runs of every kind of result, and what a store holds of them, column by column as it lies in the file.

``python -m tests.store.stored_runs`` writes the golden file anew.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tests.test_save_result import DETECTIONS, NAMES, dataset, evaluation, valor_evaluation, with_intervals
from valor_gpu import __version__
from valor_gpu.cli import OK, main
from valor_gpu.result import Result, Signature
from valor_gpu.store import Store

GOLDEN = Path(__file__).parent / "stored_runs.json"
_DATA = Path(__file__).parent.parent.parent / "examples" / "data"
_COLUMNS = {
    "runs": "name, state, config, tags, dataset, summary",
    "rows": "number, key, inputs, outputs, status, error",
    "scores": "row, evaluator, repeat, value, status, reason, level, details, usage, seconds",
}


def stored(store: Store) -> dict[str, list[list[Any]]]:
    """Columns of the last run of a store, and whether it has a state file."""
    connection = sqlite3.connect(store.path)
    run = connection.execute("SELECT max(id) FROM runs").fetchone()[0]
    found: dict[str, list[list[Any]]] = {}
    for table, columns in _COLUMNS.items():
        which = "id" if table == "runs" else "run"
        sql = f"SELECT {columns} FROM {table} WHERE {which} = ? ORDER BY id"
        found[table] = [list(row) for row in connection.execute(sql, (run,))]
    found["states"] = [list(row) for row in connection.execute("SELECT count(*) FROM states WHERE run = ?", (run,))]
    connection.close()
    return found


def lvis_dataset() -> dict[str, Any]:
    document = dataset()
    for image in document["images"]:
        image |= {"neg_category_ids": [1, 2], "not_exhaustive_category_ids": []}
    document["categories"] = [each | {"frequency": "f"} for each in document["categories"]]
    return document


def valor() -> Any:
    label = {"key": "k", "value": "cat"}
    matrix = {"label_key": "k", "entries": [{"groundtruth": "cat", "prediction": "dog", "count": 2}]}
    return valor_evaluation(
        {"type": "AP", "label": label, "parameters": {"iou": 0.5}, "value": 0.25},
        {"type": "mAP", "parameters": {"label_key": "k", "iou": 0.5}, "value": 0.5},
        {"type": "mAR", "parameters": {"label_key": "k", "ious": [0.5, 0.75]}, "value": -1},
        {"type": "PrecisionRecallCurve", "parameters": {"label_key": "k"}, "value": {}},
        confusion_matrices=[matrix],
        meta={"datums": 3, "labels": 1, "annotations": 6, "duration": 0.5},
    )


def segmented() -> Result:
    values = {"miou": float("nan"), "iou_per_class": {"road": 0.5, "sky": float("nan")}}
    return Result(values, Signature({"metric": "segment"}), {"images": 2}, {"miou": "no pixel counts"})


def classified() -> Result:
    lists = {"per_class": [0.5, np.nan], "tp": [1, 0], "confusion_matrix": [[1, 1], [0, 0]]}
    values = {"Accuracy": 0.5, **{name: np.array(each) for name, each in lists.items()}}
    return Result(values, Signature({"metric": "Accuracy", "task": "multiclass"}), {"samples": 2})


OBJECTS: dict[str, tuple[Callable[[], Any], dict[str, Any]]] = {
    "coco": (evaluation, {}),
    "coco, corrected": (lambda: evaluation(convention="corrected"), {"score_threshold": 0.0}),
    "coco, numbers alone": (lambda: evaluation().result(), {}),
    "intervals": (with_intervals, {"names": NAMES}),
    "segmentation": (segmented, {}),
    "classification": (classified, {"names": NAMES}),
    "valor": (valor, {}),
}


def commands(folder: Path) -> dict[str, list[str]]:
    """Commands whose results are kept."""
    (folder / "gt.json").write_text(json.dumps(dataset()))
    (folder / "lvis.json").write_text(json.dumps(lvis_dataset()))
    (folder / "dt.json").write_text(json.dumps(DETECTIONS))
    rows = [f"{'abc'[n % 3]},{'abc'[n % 2]},{n / 16},{1 - n / 16},0.25" for n in range(8)]
    (folder / "classes.csv").write_text("\n".join(["truth,guess,p_a,p_b,p_c", *rows]))
    for side, step in (("gt", 1), ("pred", 3)):
        (folder / side).mkdir()
        for name in ("x", "y"):
            pixels = (np.arange(48).reshape(6, 8) // (4 + step) % 4).astype(np.uint8)
            np.save(folder / side / f"{name}.npy", pixels)
    panoptic = [str(_DATA / f"panoptic_examples{end}.json") for end in ("", "_predictions")]
    detections = ["--dt", f"{folder}/dt.json"]
    classes = ["classify", "--data", f"{folder}/classes.csv", "--target", "truth"]
    maps = ["--gt", f"{folder}/gt", "--pred", f"{folder}/pred"]
    return {
        "detect": ["detect", "--gt", f"{folder}/gt.json", *detections, "--store-score", "0.5"],
        "lvis": ["detect", "--gt", f"{folder}/lvis.json", *detections, "--protocol", "lvis"],
        "classify": [*classes, "--pred", "guess", "--name", "labels"],
        "classify, scores": [*classes, "--scores-prefix", "p_"],
        "segment": ["segment", *maps, "--num-classes", "4", "--ignore", "255"],
        "panoptic": ["panoptic", "--gt", panoptic[0], "--pred", panoptic[1]],
    }


def runs(folder: Path) -> Iterator[tuple[str, Any]]:
    """Name and columns of each run, whatever the folder and the version."""
    with Store(folder / "s.sqlite") as store:
        for name, (make, options) in OBJECTS.items():
            store.save(make(), name, tags={"model": "m"}, data={"source": "val.json", "hash": "h"}, **options)
            yield name, stored(store)
        for name, command in commands(folder).items():
            assert main([*command, "--quiet", "--store", str(folder / "s.sqlite")]) == OK
            text = json.dumps(stored(store)).replace(str(folder), "FOLDER").replace(str(_DATA), "DATA")
            yield name, json.loads(text)


def document(folder: Path) -> str:
    """All runs as JSON."""
    text = json.dumps(dict(runs(folder)), indent=0, ensure_ascii=False) + "\n"
    return text.replace(f'\\"{__version__}\\"', '\\"VERSION\\"')


if __name__ == "__main__":
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as temporary:
        GOLDEN.write_text(document(Path(temporary)), encoding="utf-8")
