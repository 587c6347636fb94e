"""Every format gives the numbers of one process that has the data in memory."""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from pyarrow import parquet

from testing.keypoint_scenes import random_keypoints, random_sigmas
from testing.text_ids import renamed
from tests.coco.comparison import OURS, evaluator, random_objects, run
from tests.coco.test_doubtful_ids import made, objects_with
from tests.offline.shard_data import DT, GT, MASKS, classification, classification_rows, coco, webdataset, write_jsonl
from valor_gpu.classification import ROCAUC, Accuracy
from valor_gpu.coco import COCO, COCOeval
from valor_gpu.detection import MeanAveragePrecision
from valor_gpu.errors import InputError
from valor_gpu.inputs.label_map_files import LabelMapReader
from valor_gpu.offline import OfflineResult, run_offline
from valor_gpu.segmentation import mIOU
from valor_gpu.text import TokenF1


def finished(config: dict[str, Any]) -> OfflineResult:
    result = run_offline(config)
    assert result is not None
    assert not result.failures, result.failures
    return result


def columns(rows: list[list[dict[str, Any]]]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    flat = [row for part in rows for row in part]
    scores, weight = (torch.tensor([row[name] for row in flat], dtype=torch.float64) for name in ("scores", "weight"))
    return scores, torch.tensor([row["truth"] for row in flat]), weight


def test_json_lines_of_scores(tmp_path: Path) -> None:
    result = finished(classification(tmp_path))
    auc = ROCAUC(num_classes=4, score_dtype=torch.float64)
    auc.update(*columns(classification_rows()))
    assert result.results["auc"].values["ROCAUC"] == auc.result().values["ROCAUC"]
    assert result.counts["rows"] == sum(map(len, classification_rows()))


def test_csv_parquet_and_arrow_equal_json_lines(tmp_path: Path) -> None:
    rows = classification_rows()
    wanted = finished(classification(tmp_path)).to_dict()["results"]
    for form in ("csv", "parquet", "arrow", "stream"):
        folder = tmp_path / form
        folder.mkdir()
        config = classification(folder)
        ending = "arrow" if form == "stream" else form
        for part, listed in enumerate(rows):
            path = folder / f"part-{part}.{ending}"
            if form == "csv":
                lines = ["s0,s1,s2,s3,truth,weight"]
                lines += [",".join(map(repr, (*row["scores"], row["truth"], row["weight"]))) for row in listed]
                path.write_text("\n".join(lines))
                continue
            table = pa.Table.from_pylist(listed)
            if form == "parquet":
                parquet.write_table(table, path, row_group_size=25)
                continue
            new = pa.ipc.new_file if form == "arrow" else pa.ipc.new_stream
            with new(str(path), table.schema) as writer:
                writer.write_table(table, max_chunksize=32)
        config["data"]["files"] = str(folder / f"part-*.{ending}")
        if form == "csv":
            config["data"]["fields"]["preds"] = ["s0", "s1", "s2", "s3"]
        assert finished(config).to_dict()["results"] == wanted, form


def test_labels_by_name_and_an_empty_part(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "a.jsonl", [{"preds": "cat", "target": "dog"}, {"preds": "dog", "target": "dog"}])
    (tmp_path / "b.jsonl").touch()
    config = {
        "metrics": {"accuracy": {"class": "classification.Accuracy", "num_classes": 2, "average": "micro"}},
        "data": {"files": str(tmp_path / "*.jsonl"), "task": "classification", "labels": ["cat", "dog"]},
        "output": str(tmp_path / "out"),
    }
    result = finished(config)
    assert result.results["accuracy"].values["Accuracy"] == 0.5
    assert result.counts["counted"] == 2


def written(path: Path, table: pa.Table, csv: str) -> Path:
    """The file with a table, in the format of its ending; ``csv`` is the text of one of comma-separated values."""
    if path.suffix == ".parquet":
        parquet.write_table(table, path)
    elif path.suffix == ".jsonl":
        write_jsonl(path, table.to_pylist())
    else:
        path.write_text(csv)
    return path


@pytest.mark.parametrize("form", ["jsonl", "csv", "parquet"])
def test_names_of_classes_that_are_numbers(tmp_path: Path, form: str) -> None:
    table = pa.table({"preds": [1, 2, 1], "target": [1, 2, 2], "weight": [1, 1, 2]})
    path = written(tmp_path / f"a.{form}", table, "preds,target,weight\n1,1,1\n2,2,1\n1,2,2\n")
    fields = {name: name for name in table.column_names}
    labels = ["1", "2"]
    if form == "csv":  # a name that is no number, so that every cell of the column is a name
        labels = ["1", "2", "three"]
    config = {
        "metrics": {"accuracy": {"class": "classification.Accuracy", "num_classes": 3, "average": None}},
        "data": {"files": str(path), "task": "classification", "labels": labels, "fields": fields},
        "output": str(tmp_path / "out"),
    }
    values = finished(config).results["accuracy"].values
    assert np.asarray(values["support"]).tolist() == [1, 3, 0]
    assert np.asarray(values["tp"]).tolist() == [1, 1, 0]


@pytest.mark.parametrize("labels", [None, ["1", "2", "three"]])
@pytest.mark.parametrize("form", ["jsonl", "csv", "parquet"])
def test_classes_that_are_written_as_floats(tmp_path: Path, form: str, labels: Any) -> None:
    table = pa.table({"preds": [1, 2, 1], "target": [1.0, 2.0, 2.0]})
    path = written(tmp_path / f"a.{form}", table, "preds,target\n1,1.0\n2,2.0\n1,2\n")
    data = {"files": str(path), "task": "classification", **({"labels": labels} if labels else {})}
    config = {
        "metrics": {"accuracy": {"class": "classification.Accuracy", "num_classes": 3, "average": None}},
        "data": data,
        "output": str(tmp_path / "out"),
    }
    values = finished(config).results["accuracy"].values
    assert np.asarray(values["support"]).tolist() == ([1, 2, 0] if labels else [0, 1, 2])
    assert sum(np.asarray(values["tp"]).tolist()) == 2


def test_scores_in_lists_are_no_names_of_classes(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "a.jsonl", [{"preds": [1, 0], "target": 2}, {"preds": [0, 1], "target": 2}])
    config = {
        "metrics": {"accuracy": {"class": "classification.Accuracy", "num_classes": 2, "average": "micro"}},
        "data": {"files": str(tmp_path / "*.jsonl"), "task": "classification", "labels": ["1", "2"]},
        "output": str(tmp_path / "out"),
    }
    values = finished(config).results["accuracy"].values
    assert values["Accuracy"] == 0.5


@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize("form", ["one column", "several columns", "lists"])
def test_scores_that_are_whole_in_a_chunk(tmp_path: Path, form: str, size: int) -> None:
    scores, target = [1, 0, 0.25, 0.75], [1, 0, 1, 0]
    path = tmp_path / "a.csv"
    data: dict[str, Any] = {"task": "classification", "batch_size": size}
    if form == "lists":
        path = tmp_path / "a.jsonl"
        write_jsonl(path, [{"preds": [1 - score, score], "target": truth} for score, truth in zip(scores, target)])
    else:
        lines = (f"{1 - score},{score},{truth}" for score, truth in zip(scores, target))
        path.write_text("no,yes,truth\n" + "\n".join(lines))
        data["fields"] = {"preds": "yes" if form == "one column" else ["no", "yes"], "target": "truth"}
    classes = {} if form == "one column" else {"num_classes": 2}
    config = {
        "metrics": {name: {"class": f"classification.{name}", **classes} for name in ("ROCAUC", "CalibrationError")},
        "data": {"files": str(path), **data},
        "output": str(tmp_path / "out"),
    }
    assert finished(config).results["ROCAUC"].values["ROCAUC"] == 0.75


def test_texts_with_several_references_gzipped(tmp_path: Path) -> None:
    rows = [{"answer": "a cat", "truth": ["the cat", "dog"]}, {"answer": "bird", "truth": ["fish"]}]
    for part, row in enumerate(rows):
        (tmp_path / f"{part}.jsonl.gz").write_bytes(gzip.compress(json.dumps(row).encode()))
    config = {
        "metrics": {"f1": "text.TokenF1", "bleu": "text.BLEU"},
        "data": {
            "files": str(tmp_path / "*.gz"), "task": "text", "format": "jsonl",
            "fields": {"preds": "answer", "target": "truth"},
        },
        "output": str(tmp_path / "out"),
    }  # fmt: skip
    metric = TokenF1()
    metric.update(["a cat", "bird"], [["the cat", "dog"], ["fish"]])
    assert finished(config).results["f1"].values["f1"] == metric.result().values["f1"]


def test_coco_parts_equal_cocoeval_bit_for_bit(tmp_path: Path) -> None:
    truth = COCO(str(GT))
    oracle = COCOeval(truth, truth.loadRes(str(DT)), "bbox")
    oracle.evaluate()
    oracle.accumulate()
    oracle.summarize()
    values = finished(coco(tmp_path)).results["map"].values
    names = ("map", "map_50", "map_75", "map_small", "map_medium", "map_large",
             "mar_1", "mar_10", "mar_100", "mar_small", "mar_medium", "mar_large")  # fmt: skip
    assert [values[name] for name in names] == oracle.stats.tolist()


def test_coco_masks(tmp_path: Path) -> None:
    data = Path(GT).parent
    truth, found = data / "instances_val2014_100_masks.json.gz", data / "instances_val2014_fakesegm100_results.json.gz"
    config = {
        "metrics": {"map": {"class": "detection.MeanAveragePrecision", "iou_type": "segm"}},
        "data": {"ground_truth": str(truth), "detections": str(found)},
        "output": str(tmp_path),
    }
    whole = COCO(str(truth))
    oracle = COCOeval(whole, whole.loadRes(str(found)), "segm")
    oracle.evaluate()
    oracle.accumulate()
    oracle.summarize()
    values = finished(config).results["map"].values
    assert [values["map"], values["mar_100"]] == [oracle.stats[0], oracle.stats[8]]


@pytest.mark.parametrize("seed", [1, 3])  # some images have nobody, some people no visible joint
@pytest.mark.parametrize(("boxed", "joints"), [(False, 17), (True, 17), (False, 294)])
def test_coco_keypoints(seed: int, boxed: bool, joints: int, tmp_path: Path) -> None:
    data, results = random_keypoints(seed, joints, classes=2)
    data["annotations"] = [row for row in data["annotations"] if row["area"] > 0]
    for number, row in enumerate(data["annotations"], 1):
        row.update(id=number, num_keypoints=sum(v > 0 for v in row["keypoints"][2::3]))
    if boxed:  # the sizes of detections then
        sizes = np.random.default_rng(seed).uniform(5, 200, (len(results), 2)).tolist()
        results = [{**row, "bbox": [1.0, 2.0, *size]} for row, size in zip(results, sizes)]
    truth, found = tmp_path / "gt.json", tmp_path / "dt.json"
    truth.write_text(json.dumps(data))
    found.write_text(json.dumps(results))
    chosen = {"class": "detection.MeanAveragePrecision", "iou_type": "keypoints", "box_format": "xywh"}
    chosen |= {} if joints == 17 else {"sigmas": random_sigmas(joints).tolist()}
    config = {
        "metrics": {"map": chosen},
        "data": {"ground_truth": str(truth), "detections": str(found)},
        "output": str(tmp_path / "out"),
    }
    whole = COCO(str(truth))
    oracle = COCOeval(whole, whole.loadRes(str(found)), "keypoints")
    oracle.params.kpt_oks_sigmas = chosen.get("sigmas", oracle.params.kpt_oks_sigmas)
    oracle.evaluate()
    oracle.accumulate()
    expected = oracle.result().values
    values = finished(config).results["map"].values
    names = ("map", "map_50", "map_75", "map_medium", "map_large", "mar_20", "mar_medium", "mar_large")
    assert [values[name] for name in names] == [expected[name] for name in names]
    config["metrics"] = {"map": {**chosen, "box_format": "xyxy"}}
    with pytest.raises(InputError, match=r"metrics\.map\.box_format must be xywh, as boxes of COCO files are"):
        run_offline(config)


def test_webdataset_of_label_maps(tmp_path: Path) -> None:
    config = webdataset(tmp_path)
    metric = mIOU(**{name: value for name, value in config["metrics"]["miou"].items() if name != "class"})
    for path in sorted((MASKS / "gt").glob("*.png")):
        maps = (LabelMapReader().read(str(MASKS / side / path.name)) for side in ("pred", "gt"))
        metric.update(*(torch.from_numpy(np.array(values))[None] for values in maps))
    assert finished(config).to_dict()["results"]["miou"] == metric.result().to_dict()


def detection_rows(images: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(3)
    rows = []
    for number in range(images):
        truths, found = int(rng.integers(4)), int(rng.integers(5))
        corners = rng.uniform(0, 50, (truths + found, 2))
        boxes = np.concatenate((corners, corners + rng.uniform(5, 40, corners.shape)), 1)
        boxes[truths : truths + min(truths, found)] = boxes[: min(truths, found)] + 1
        rows.append({
            "boxes": boxes[truths:].tolist(), "scores": rng.random(found).tolist(),
            "labels": rng.integers(3, size=found).tolist(), "gt_boxes": boxes[:truths].tolist(),
            "gt_labels": rng.integers(3, size=truths).tolist(), "image_id": number,
        })  # fmt: skip
    return rows


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_detections_in_rows(tmp_path: Path, form: str) -> None:
    rows = detection_rows(40)
    assert any(not row["boxes"] for row in rows)
    for part in range(3):
        path = tmp_path / f"{part}.{form}"
        if form == "jsonl":
            write_jsonl(path, rows[part::3])
        else:
            parquet.write_table(pa.Table.from_pylist(rows[part::3]), path)
    config = {
        "metrics": {"map": "detection.MeanAveragePrecision"},
        "data": {"files": str(tmp_path / f"*.{form}"), "task": "detection",
                 "fields": {name: name for name in rows[0]}, "batch_size": 4},
        "output": str(tmp_path / "out"),
    }  # fmt: skip
    metric = MeanAveragePrecision()
    for row in (row for part in range(3) for row in rows[part::3]):
        boxes = {side: torch.tensor(row[side], dtype=torch.float64).reshape(-1, 4) for side in ("boxes", "gt_boxes")}
        labels = {side: torch.tensor(row[side], dtype=torch.int64) for side in ("labels", "gt_labels")}
        scores = torch.tensor(row["scores"], dtype=torch.float64)
        metric.update(
            [{"boxes": boxes["boxes"], "scores": scores, "labels": labels["labels"]}],
            [{"boxes": boxes["gt_boxes"], "labels": labels["gt_labels"], "image_id": row["image_id"]}],
        )
    result = finished(config).results["map"]
    assert result.to_dict() == metric.result().to_dict()
    assert not math.isnan(result.values["map"])


def test_every_update_has_batch_size_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []
    update = Accuracy.update
    monkeypatch.setattr(
        Accuracy, "update", lambda self, preds, *rest: sizes.append(len(preds)) or update(self, preds, *rest)
    )
    finished(
        {
            **classification(tmp_path, shards=1, rows=40),
            "metrics": {"a": {"class": "classification.Accuracy", "num_classes": 4}},
        }
    )
    assert sizes == [16, 16, 8]


@pytest.mark.parametrize("form", ["jsonl", "csv", "parquet"])
def test_columns_that_change_the_numbers_are_not_passed_over(tmp_path: Path, form: str) -> None:
    rows = [{"preds": 1, "target": 1, "weight": 9.0, "note": 1}, {"preds": 0, "target": 1, "weight": 1.0, "note": 2}]
    path = tmp_path / f"part.{form}"
    if form == "jsonl":
        write_jsonl(path, rows)
    elif form == "csv":
        path.write_text("preds,target,weight,note\n1,1,9.0,1\n0,1,1.0,2\n")
    else:
        parquet.write_table(pa.Table.from_pylist(rows), path)
    metric = {"class": "classification.Accuracy", "num_classes": 2, "average": "micro"}
    data = {"files": str(path), "task": "classification"}
    config = {"metrics": {"acc": metric}, "data": data, "output": str(tmp_path / "out"), "on_bad_row": "row"}
    result = run_offline(config)
    assert result is not None
    error = "data.fields must be given since without it weight would not be read"
    assert [failure.error for failure in result.failures] == [error]
    fields = {name: name for name in ("preds", "target")}
    for chosen, value in ((fields, 0.5), ({**fields, "weight": "weight"}, 0.9)):
        result = run_offline({**config, "data": {**data, "fields": chosen}})
        assert result is not None and result.results["acc"].values["Accuracy"] == value


@pytest.mark.parametrize("kind", [{}, {"images": False}, {"categories": False}])
@pytest.mark.parametrize("parts", [1, 3])
def test_coco_parts_with_texts_for_ids(tmp_path: Path, kind: dict[str, bool], parts: int) -> None:
    """Scores are whole tenths, so that the order of the images decides; image after image goes to another part."""
    data, results = renamed(random_objects(7, images=12), 7, **kind)
    for row in results:
        row["score"] = round(row["score"], 1)
    for part in range(parts):
        mine = {image["id"] for image in data["images"][part::parts]}
        kept = {**data, "images": [image for image in data["images"] if image["id"] in mine],
                "annotations": [row for row in data["annotations"] if row["image_id"] in mine]}  # fmt: skip
        (tmp_path / f"gt-{part}.json").write_text(json.dumps(kept))
        (tmp_path / f"dt-{part}.json").write_text(json.dumps([row for row in results if row["image_id"] in mine]))
    config = coco(tmp_path, 0)
    e = run(evaluator(OURS, (data, results))).e
    found = finished(config).results["map"].values
    wanted = e.result().values
    for name in ("map", "map_50", "mar_100", "map_small"):
        assert found[name] == wanted[name]
    assert found["map"] > 0
    if kind.get("categories", True):
        names = {each["name"]: each["id"] for each in data["categories"]}
        assert found["map_per_class"] == {names[name]: value for name, value in wanted["map_per_class"].items()}


def test_texts_for_ids_of_categories_need_the_same_list_in_every_part(tmp_path: Path) -> None:
    config = coco(tmp_path, 2)
    for part, names in enumerate((["a", "b"], ["b", "c"])):
        box = {"image_id": f"{part}", "category_id": names[0], "bbox": [0, 0, 9, 9]}
        data = {"images": [{"id": f"{part}"}], "categories": [{"id": name} for name in names],
                "annotations": [{"id": 1, "area": 81, "iscrowd": 0, **box}]}  # fmt: skip
        (tmp_path / f"gt-{part}.json").write_text(json.dumps(data))
        (tmp_path / f"dt-{part}.json").write_text(json.dumps([{**box, "score": 0.5}]))
    result = run_offline(config)
    assert result is not None
    assert "category 0 must be 'a', as in" in result.failures[0].error and "but is 'b'" in result.failures[0].error
    (tmp_path / "dt-1.json").write_text(json.dumps([{**box, "category_id": "z", "score": 0.5}]))
    result = run_offline(config)
    assert result is not None
    assert r"[0].category_id must be an id that" in result.failures[0].error


@pytest.mark.parametrize("field", ["image_id", "category_id"])
@pytest.mark.parametrize("ids", [("0", 0), (0, "0")])
def test_a_part_with_texts_for_ids_stands_beside_none_with_integers(
    tmp_path: Path, field: str, ids: tuple[int | str, int | str]
) -> None:
    """The place of a text among all texts is no integer id of another part."""
    config = coco(tmp_path, 2)
    for part, given in enumerate(ids):
        box = {"image_id": part, "category_id": 0, "bbox": [0, 0, 9, 9], field: given}
        data = {"images": [{"id": box["image_id"]}], "categories": [{"id": box["category_id"]}],
                "annotations": [{"id": 1, "area": 81, "iscrowd": 0, **box}]}  # fmt: skip
        (tmp_path / f"gt-{part}.json").write_text(json.dumps(data))
        (tmp_path / f"dt-{part}.json").write_text(json.dumps([{**box, "score": 0.5}]))
    result = run_offline(config)
    assert result is not None and result.counts["counted"] == 1
    need, got = ("texts", "has none") if isinstance(ids[0], str) else ("integers", "has texts")
    assert f"{field} must be {need}, as in " in result.failures[0].error
    assert result.failures[0].error.endswith(f"but the shard {got}")


@pytest.mark.parametrize("kind", ["bbox", "segm", "keypoints"])
def test_coco_ground_truths_without_some_fields(kind: str, tmp_path: Path) -> None:
    """They are counted over all shards, and the numbers are those of the corrected convention."""
    shards = []
    for number in range(2):
        dataset, results = objects_with([0, 0, 0, 0], kind)
        for n, (row, found) in enumerate(zip(dataset["annotations"], results)):
            row["image_id"] = found["image_id"] = 1 + n % 2 + 10 * number
            del row["area"]
            if n:
                del row["iscrowd"]
        for image in dataset["images"]:
            image["id"] += 10 * number
        if kind == "keypoints":
            dataset["annotations"][1].update(keypoints=[], num_keypoints=0)
        shards.append((dataset, results))
    for number, sides in enumerate(shards):
        for name, value in zip(("gt", "dt"), sides):
            (tmp_path / f"{name}-{number}.json").write_text(json.dumps(value, default=bytes.decode))
    config = {
        "metrics": {"map": {"class": "detection.MeanAveragePrecision", "iou_type": kind, "box_format": "xywh"}},
        "data": {"ground_truth": str(tmp_path / "gt-*.json"), "detections": str(tmp_path / "dt-*.json"),
                 "batch_size": 1},
        "output": str(tmp_path / "out"),
    }  # fmt: skip
    found = finished(config)
    missing = {"ground_truths_without_iscrowd": 6, "ground_truths_without_area": 8}
    assert {name: found.counts.get(name) for name in missing} == missing
    assert finished(config).counts == found.counts  # from what is on disk
    whole = {**shards[0][0], "images": [i for d, _ in shards for i in d["images"]],
             "annotations": [a for d, _ in shards for a in d["annotations"]]}  # fmt: skip
    oracle = run(made(OURS, (whole, [r for _, rows in shards for r in rows]), kind, convention="corrected"))
    assert found.results["map"].values["map"] == oracle.e.stats[0]
    from valor_gpu.cli.offline import _warnings

    assert _warnings(found) == [
        "6 ground truths have no iscrowd: 0 is used", "8 ground truths have no area: that of the box or mask is used",
    ]  # fmt: skip
