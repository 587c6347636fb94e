"""A shard fails alone, with its file and row; the others count as if it were not there."""

from __future__ import annotations

import json
import os
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from tests.offline.shard_data import (
    MASKS,
    add_member,
    classification,
    classification_rows,
    coco,
    npy,
    webdataset,
    write_jsonl,
)
from valor_gpu.classification import Accuracy
from valor_gpu.errors import InputError
from valor_gpu.metric import Metric
from valor_gpu.offline import OfflineResult, run_offline
from valor_gpu.offline.formats import text_rows


def run(config: dict[str, Any]) -> OfflineResult:
    result = run_offline(config)
    assert result is not None
    return result


def check_alone(config: dict[str, Any], broken: Path, match: str, files: str = "files") -> None:
    """The broken shard is named with ``match``, and the numbers are those of the other shards."""
    result = run(config)
    (failure,) = result.failures
    assert str(broken) in failure.error
    assert match in failure.error
    rest = sorted(str(path) for path in broken.parent.glob(Path(config["data"][files]).name) if path != broken)
    without = {**config, "data": {**config["data"], files: rest}, "output": config["output"] + "-without"}
    assert result.to_dict()["results"] == run(without).to_dict()["results"]
    assert result.counts["failed"] == 1
    assert result.counts["counted"] == len(rest)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ('{"scores": [0.5, 0.5, 0, 0], "truth": 9, "weight": 1}', "line 18: target[0] must"),
        ('{"scores": [0.5, 0.5, 0, 0], "truth": 1', "line 18"),
        ('{"scores": [0.5, 0.5, 0, "x"], "truth": 1, "weight": 1}', "line 18, column 'scores' must hold a number"),
        ('{"scores": [0.5, 0.5, 0, 0], "weight": 1}', "line 18 must have 'truth'"),
        ('{"scores": [0.5, 0.5, 0, "0_0"], "truth": 1, "weight": 1}', "line 18, column 'scores' must hold a number"),
        ('{"scores": [0.5, 0.5, 0], "truth": 1, "weight": 1}', "line 18: preds must be scores"),
        ("\x00\xff", "line 18"),
    ],
)
def test_row_of_json_lines(tmp_path: Path, text: str, match: str) -> None:
    config = classification(tmp_path)
    broken = tmp_path / "part-2.jsonl"
    lines = broken.read_text().splitlines()
    lines[17] = text
    broken.write_text("\n".join(lines))
    check_alone(config, broken, match)


def test_row_alone_is_left_out_where_that_is_asked_for(tmp_path: Path) -> None:
    config = classification(tmp_path, on_bad_row="row")
    rows = classification_rows()
    rows[1][20]["truth"] = 7
    rows[3][2] |= {"weight": -1.0}
    for part in (1, 3):
        write_jsonl(tmp_path / f"part-{part}.jsonl", rows[part])
    with open(tmp_path / "part-3.jsonl", "a") as file:
        file.write("no JSON\n")
    result = run(config)
    places = ["part-1.jsonl, line 21", "part-3.jsonl, line 3", "part-3.jsonl, line 64"]
    assert [row.place for row in result.bad_rows] == [str(tmp_path / place) for place in places]
    assert all(row.message.startswith(row.place) for row in result.bad_rows)
    assert result.counts["bad_rows"] == 3
    clean = tmp_path / "clean"
    clean.mkdir()
    other = classification(clean)
    del rows[1][20], rows[3][2]
    for part in (1, 3):
        write_jsonl(clean / f"part-{part}.jsonl", rows[part])
    wanted = run(other)
    assert result.counts["rows"] == wanted.counts["rows"]
    for name in ("accuracy", "auc"):  # rows per update differ, and so does the order of the sums of calibration
        assert result.results[name].to_dict() == wanted.results[name].to_dict()
    again = run(config)
    assert again.to_dict() == result.to_dict()


def test_rows_that_only_fail_together_fail_their_shard(tmp_path: Path) -> None:
    for part, classes in enumerate(((3, 3), (3, 4), (3, 3, 3))):
        with tarfile.open(tmp_path / f"{part}.tar", "w") as archive:
            for sample, count in enumerate(classes):
                for side in ("gt", "pred"):
                    add_member(archive, f"{sample}.{side}.npy", npy(np.eye(count, dtype=np.uint8)[:, None]))
    config = {
        "metrics": {"iou": {"class": "segmentation.MeanIoU", "input_format": "one-hot"}},
        "data": {"files": str(tmp_path / "*.tar"), "fields": {"preds": "pred.npy", "target": "gt.npy"}},
        "output": str(tmp_path / "out"),
        "on_bad_row": "row",
    }
    check_alone(config, tmp_path / "1.tar", "sample 0 and the rows after it: batches must have one number of channels")


def test_broken_parquet(tmp_path: Path) -> None:
    config = classification(tmp_path)
    for part, rows in enumerate(classification_rows()):
        parquet.write_table(pa.Table.from_pylist(rows), tmp_path / f"part-{part}.parquet")
    config["data"]["files"] = str(tmp_path / "part-*.parquet")
    broken = tmp_path / "part-3.parquet"
    broken.write_bytes(broken.read_bytes()[:-40])
    check_alone(config, broken, "must be a Parquet file but cannot be read")


def arrow_bytes(rows: list[dict[str, Any]], form: str) -> bytes:
    table, sink = pa.Table.from_pylist(rows), pa.BufferOutputStream()
    if form == "parquet":
        parquet.write_table(table, sink)
    else:
        new = pa.ipc.new_file if form == "file" else pa.ipc.new_stream
        with new(sink, table.schema) as writer:
            writer.write_table(table, max_chunksize=20)
    found: bytes = sink.getvalue().to_pybytes()
    return found


@pytest.mark.parametrize("form", ["parquet", "file", "stream", "killed"])
def test_arrow_files_that_were_joined_or_not_closed(tmp_path: Path, form: str) -> None:
    """What pyarrow takes for whole."""
    ending = "parquet" if form == "parquet" else "arrow"
    config = classification(tmp_path)
    rows = classification_rows()
    for part, listed in enumerate(rows):
        (tmp_path / f"part-{part}.{ending}").write_bytes(arrow_bytes(listed, form))
    config["data"]["files"] = str(tmp_path / f"part-*.{ending}")
    broken = tmp_path / f"part-1.{ending}"
    whole = broken.read_bytes()
    broken.write_bytes(whole[:-8] if form == "killed" else whole + arrow_bytes(rows[1][::-1], form))
    check_alone(config, broken, "must end with the mark" if form == "killed" else "joined")


@pytest.mark.parametrize("unsigned", ["uint8", "uint16", "uint32", "uint64"])
def test_unsigned_classes_of_parquet(tmp_path: Path, unsigned: str) -> None:
    config = classification(tmp_path)
    wanted = run(config).results["accuracy"].to_dict()
    for part, listed in enumerate(classification_rows()):
        table = pa.Table.from_pylist(listed)
        truth = table["truth"].cast(unsigned)
        parquet.write_table(table.set_column(1, "truth", truth), tmp_path / f"part-{part}.parquet")
    config["data"]["files"] = str(tmp_path / "part-*.parquet")
    assert run(config).results["accuracy"].to_dict() == wanted


def test_row_of_parquet(tmp_path: Path) -> None:
    config = classification(tmp_path)
    rows = classification_rows()
    rows[0][33]["truth"] = -5
    for part, listed in enumerate(rows):
        parquet.write_table(pa.Table.from_pylist(listed), tmp_path / f"part-{part}.parquet")
    config["data"]["files"] = str(tmp_path / "part-*.parquet")
    check_alone(config, tmp_path / "part-0.parquet", "row 33 (counted from 0): target[0] must")


def test_null_in_a_list_of_parquet(tmp_path: Path) -> None:
    config = classification(tmp_path)
    rows = classification_rows()
    rows[1][7]["scores"][2] = None
    for part, listed in enumerate(rows):
        parquet.write_table(pa.Table.from_pylist(listed), tmp_path / f"part-{part}.parquet")
    config["data"]["files"] = str(tmp_path / "part-*.parquet")
    check_alone(config, tmp_path / "part-1.parquet", "row 7 (counted from 0), column 'scores' must hold a number")
    left = run({**config, "on_bad_row": "row"})
    assert (left.counts["counted"], left.counts["bad_rows"]) == (5, 1)


def test_missing_column_of_parquet(tmp_path: Path) -> None:
    config = classification(tmp_path)
    for part, rows in enumerate(classification_rows()):
        table = pa.Table.from_pylist(rows)
        parquet.write_table(table.drop_columns(["weight"]) if part == 2 else table, tmp_path / f"part-{part}.parquet")
    config["data"]["files"] = str(tmp_path / "part-*.parquet")
    check_alone(config, tmp_path / "part-2.parquet", "must have one column 'weight'")


@pytest.mark.parametrize("cut", ["in a header", "in a member", "between members", "before its last block"])
def test_cut_tar(tmp_path: Path, cut: str) -> None:
    config = webdataset(tmp_path)
    broken = tmp_path / "masks-1.tar"
    with tarfile.open(broken) as archive:
        fourth, last = archive.getmembers()[3], archive.getmembers()[-1]
    ends = {
        "in a header": fourth.offset + 100,
        "in a member": fourth.offset_data + 10,
        "between members": fourth.offset,
        "before its last block": last.offset_data + -(-last.size // 512) * 512,
    }
    broken.write_bytes(broken.read_bytes()[: ends[cut]])
    check_alone(config, broken, "must be a")


def test_tar_files_joined_by_cat(tmp_path: Path) -> None:
    config = webdataset(tmp_path)
    broken, other = tmp_path / "masks-1.tar", tmp_path / "other"
    (tmp_path / "masks-2.tar").rename(other)
    broken.write_bytes(broken.read_bytes() + other.read_bytes())
    check_alone(config, broken, "must be one tar file but has more after its last block")


@pytest.mark.parametrize("link", ["link", "twice"])
def test_member_that_cannot_count(tmp_path: Path, link: str) -> None:
    config = webdataset(tmp_path)
    broken = tmp_path / "masks-1.tar"
    with tarfile.open(broken, "a") as archive:
        for side in ("gt", "pred"):
            if link == "link":
                member = tarfile.TarInfo(f"odd.{side}.png")
                member.type, member.linkname = tarfile.LNKTYPE, archive.getnames()[0]
                archive.addfile(member)
            else:
                name = archive.getnames()[0].partition(".")[0]
                content = (MASKS / side / f"{name}.png").read_bytes()
                add_member(archive, f"odd.{side}.png", content)
                add_member(archive, f"odd.{side}.png", content)
    check_alone(config, broken, "must be a regular file" if link == "link" else "must be there once but comes again")


def test_sample_of_a_tar(tmp_path: Path) -> None:
    config = webdataset(tmp_path)
    broken = tmp_path / "masks-0.tar"
    with tarfile.open(broken, "a") as archive:
        add_member(archive, "odd.gt.png", b"no picture")
        add_member(archive, "odd.pred.png", b"no picture")
    check_alone(config, broken, "member odd.gt.png must be a PNG")


def test_sample_without_a_member(tmp_path: Path) -> None:
    config = webdataset(tmp_path)
    with tarfile.open(tmp_path / "masks-2.tar", "a") as archive:
        add_member(archive, "odd.gt.npy", npy([[1]]))
    check_alone(config, tmp_path / "masks-2.tar", "sample odd must have a member pred.png")


def test_damaged_coco_file_and_foreign_image(tmp_path: Path) -> None:
    config = coco(tmp_path)
    (tmp_path / "gt-1.json").write_text('{"images": [')
    found = json.loads((tmp_path / "dt-3.json").read_text())
    found[5]["image_id"] = 10**9
    (tmp_path / "dt-3.json").write_text(json.dumps(found))
    result = run(config)
    assert [failure.name.split("/")[-1] for failure in result.failures] == ["dt-1.json", "dt-3.json"]
    assert "gt-1.json" in result.failures[0].error
    assert "dt-3.json: [5] must be of an image of its shard but is of 1000000000" in result.failures[1].error
    assert result.counts["counted"] == 2


def test_image_id_of_two_images_fails_the_later_shard(tmp_path: Path) -> None:
    config = coco(tmp_path)
    first, other = (json.loads((tmp_path / f"gt-{part}.json").read_text())["images"][0]["id"] for part in (1, 3))
    for side in ("gt", "dt"):
        text = (tmp_path / f"{side}-3.json").read_text()
        (tmp_path / f"{side}-3.json").write_text(text.replace(str(other), str(first)))
    rest = {side: [str(tmp_path / f"{side}-{part}.json") for part in range(3)] for side in ("gt", "dt")}
    result = run(config)
    (failure,) = result.failures
    assert f"{tmp_path}/gt-3.json + {tmp_path}/dt-3.json: cannot count together" in failure.error
    assert f"image_id {first} must name one image" in failure.error
    without = {**config, "data": {"ground_truth": rest["gt"], "detections": rest["dt"], "batch_size": 7}}
    assert result.to_dict()["results"] == run(without).to_dict()["results"]


def test_image_ids_that_start_again_in_every_file_are_an_error(tmp_path: Path) -> None:
    config = coco(tmp_path, parts=12)
    for part in range(12):
        images = [{"id": 1, "width": 100, "height": 100}]
        box = {"image_id": 1, "category_id": 1, "bbox": [1, 1, 20 + part, 20]}
        rows = [{**box, "id": 1, "area": 400 + 20 * part, "iscrowd": 0}]
        whole = {"images": images, "annotations": rows, "categories": [{"id": 1, "name": "cat"}]}
        (tmp_path / f"gt-{part}.json").write_text(json.dumps(whole))
        (tmp_path / f"dt-{part}.json").write_text(json.dumps([{**box, "score": 0.5}]))
    with pytest.raises(InputError, match=r"more than 8 shards cannot count together.*gt-9\.json.*image_id 1 must"):
        run(config)


def test_category_with_another_name_fails_the_later_shard(tmp_path: Path) -> None:
    config = coco(tmp_path)
    path = tmp_path / "gt-3.json"
    text = path.read_text()
    assert '"name": "cat"' in text
    path.write_text(text.replace('"name": "cat"', '"name": "dog"'))
    rest = {side: [str(tmp_path / f"{side}-{part}.json") for part in range(3)] for side in ("gt", "dt")}
    for _ in range(2):  # made, and from disk
        result = run(config)
        (failure,) = result.failures
        assert "must be 'cat', as in" in failure.error
        assert "gt-3.json" in failure.error
    without = {**config, "data": {"ground_truth": rest["gt"], "detections": rest["dt"], "batch_size": 7}}
    assert result.to_dict()["results"] == run(without).to_dict()["results"]


def test_bad_value_of_coco_names_file_and_row(tmp_path: Path) -> None:
    config = coco(tmp_path)
    found = json.loads((tmp_path / "dt-2.json").read_text())
    found[3]["score"] = "high"
    (tmp_path / "dt-2.json").write_text(json.dumps(found))
    (failure,) = run(config).failures
    assert "dt-2.json: [3].score must be a number" in failure.error


def test_file_that_changes_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = classification(tmp_path, shards=2)
    rows = text_rows.json_rows

    def appended(file: Any) -> Any:
        yield from rows(file)
        if file.path.endswith("part-1.jsonl"):
            with open(file.path, "a") as more:
                more.write("\n")

    with monkeypatch.context() as patched:
        patched.setattr(text_rows, "json_rows", appended)
        patched.setattr(text_rows, "read_jsonl", lambda *args: text_rows._read(*args, appended))
        (failure,) = run(config).failures
    assert "must stay as it is while it is read" in failure.error
    assert not run(config).failures


def test_unreadable_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = classification(tmp_path)
    broken = tmp_path / "part-4.jsonl"

    def refuse(path: Any, *args: Any, **kwargs: Any) -> Any:
        if str(path) == str(broken):
            raise PermissionError(13, "Permission denied", str(path))
        return opened(path, *args, **kwargs)

    opened = open
    monkeypatch.setattr("builtins.open", refuse)
    result = run(config)
    assert [failure.name for failure in result.failures] == [str(broken)]
    assert "Permission denied" in result.failures[0].error


class Clumsy(Metric[Any]):
    """A class of a user with a mistake."""

    def __new__(cls, **kwargs: Any) -> Any:
        class Mistaken(Accuracy):
            def update(self, *args: Any) -> None:
                if len(args[0]) == 4:
                    raise ZeroDivisionError("a mistake")
                super().update(*args)

        return Mistaken(num_classes=4, sync_on_compute=False)


def test_metric_with_a_mistake_fails_the_shard_that_meets_it(tmp_path: Path) -> None:
    config = classification(tmp_path, rows=32)  # 32, 33, 34, 35, 36 rows in updates of 16
    config["metrics"] = {"own": {"class": f"{__name__}:Clumsy"}}
    (failure,) = run(config).failures
    assert failure.name == str(tmp_path / "part-4.jsonl")
    assert "a mistake" in failure.error


class Quarrelsome(Accuracy):
    """A class of a user whose result raises for some shards together."""

    def result(self) -> Any:
        found = super().result()
        if found.counts["samples"] in (60 + 61 + 62 + 63, 60 + 61 + 62 + 63 + 64):
            raise ZeroDivisionError("a quarrel")
        return found


def test_metric_whose_result_raises_fails_the_shard_to_blame(tmp_path: Path) -> None:
    config = classification(tmp_path)
    config["metrics"] = {"own": {"class": f"{__name__}:Quarrelsome", "num_classes": 4}}
    result = run(config)
    (failure,) = result.failures
    assert failure.name == str(tmp_path / "part-3.jsonl")
    assert failure.error.endswith("cannot count together with the shards before it: ZeroDivisionError: a quarrel")
    assert result.counts["counted"] == 4


def test_failed_shard_is_tried_again(tmp_path: Path) -> None:
    config = classification(tmp_path)
    broken = tmp_path / "part-1.jsonl"
    good = broken.read_bytes()
    broken.write_text("{")
    assert run(config).counts["failed"] == 1
    broken.write_bytes(good)
    assert run(config).counts == {"shards": 5, "counted": 5, "failed": 0, "duplicates": 0, "rows": 310, "bad_rows": 0}


def test_wrong_metrics_are_no_failure_of_shards(tmp_path: Path) -> None:
    config = classification(tmp_path)
    config["metrics"]["accuracy"]["num_classes"] = 0
    with pytest.raises(InputError, match=r"metrics\.accuracy: num_classes must be"):
        run_offline(config)
    assert not os.path.exists(config["output"])
