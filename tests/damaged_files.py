"""Readers of states, tables and rows with damaged files, and independent readers of what they take."""

from __future__ import annotations

import contextlib
import csv
import functools
import io
import json
import random
import struct
import tempfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tests import damaged_masks as masks
from tests import damaged_rankings as ranks
from tests import damaged_vision as vision
from tests import mutations
from tests.damaged_vision import Damaged
from tests.inputs.mutations import mutated
from valor_gpu import coco
from valor_gpu.comparison.state_files import load_state_file
from valor_gpu.errors import ValorError
from valor_gpu.evaluation.rows.data import open_data
from valor_gpu.inputs.cluster_files import read_clusters
from valor_gpu.inputs.hierarchy import ClassHierarchy
from valor_gpu.inputs.predictions import Columns, read_predictions
from valor_gpu.inputs.tables import read_table
from valor_gpu.offline.formats import format_named
from valor_gpu.offline.records import Counted, StateFolder, dump_states
from valor_gpu.offline.shards import Shard

Make = Callable[[random.Random, Path], Damaged]

# --------------------------------------------------------------------------------------------------------- states


@functools.cache
def _cases() -> list[Any]:
    """Metrics of this package; a cache, since the table imports all of them."""
    from tests.contract import METRICS

    return [case for case in METRICS if type(case.make()).__module__.startswith("valor_gpu.")]


@functools.cache
def _metric(place: int) -> Any:
    """A metric after two batches."""
    case = _cases()[place]
    metric = case.make()
    for number in range(2):
        metric.update(*case.batch(number))
    return metric


def metric_bytes(rng: random.Random, folder: Path) -> Damaged:
    """A metric with the state of changed bytes, and its value."""
    place = rng.randrange(len(_cases()))
    data = mutations.changed_checked(rng, _metric(place).to_bytes())

    def read() -> Any:
        metric = _cases()[place].make()
        metric.from_bytes(data)
        return metric.compute()

    return Damaged(read)


@functools.cache
def _saved_metric(place: int) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.state"
        _metric(place).save_state(path)
        return path.read_bytes()


def saved_metrics(rng: random.Random, folder: Path) -> Damaged:
    """The metric of a changed file of ``save_state``, or its result."""
    from valor_gpu.saved_metric import load_metric

    path = folder / "a.state"
    path.write_bytes(mutations.changed_state(rng, _saved_metric(rng.randrange(len(_cases())))))
    if rng.random() < 0.5:
        return Damaged(lambda: load_state_file(path).result.to_dict())
    return Damaged(lambda: load_metric(path).compute())


@functools.cache
def _saved_evaluations() -> list[bytes]:
    """State files of evaluations of COCO and LVIS, of label maps, panoptic segments, predictions and ranks."""
    from valor_gpu.cli import main

    found = []
    with tempfile.TemporaryDirectory() as name, contextlib.redirect_stdout(io.StringIO()):
        folder, state = Path(name), Path(name) / "a.state"
        truth, results = folder / "gt.json", folder / "dt.json"
        truth.write_text(json.dumps(vision.ground_truth()))
        results.write_text(json.dumps(vision.results()))
        for kind in ("bbox", "segm", "keypoints"):
            evaluation = coco.COCOeval(dataset := coco.COCO(truth), dataset.loadRes(str(results)), kind)
            evaluation.evaluate()
            evaluation.accumulate()
            evaluation.save_state(state)
            found.append(state.read_bytes())
        lvis = coco.LVISEval(coco.LVIS(str(truth)), str(results), "bbox")
        lvis.run()
        lvis.save_state(state)
        found.append(state.read_bytes())
        for options in _commands(folder):
            assert main([*options, "--quiet", "--save-state", str(state)]) == 0
            found.append(state.read_bytes())
    return found


def _commands(folder: Path) -> Iterator[list[str]]:
    """Commands of small files, which they write."""
    table = folder / "p.csv"
    table.write_text(CSV)
    yield ["classify", "--data", str(table), "--target", "t", "--scores", "p,q", "--labels", "c0,c1"]
    for side in ("gt", "pred"):
        (folder / f"maps_{side}").mkdir()
        for number in range(2):
            labels = np.arange(12).reshape(3, 4) % (2 + number + (side == "gt"))
            np.save(folder / f"maps_{side}" / f"{number}.npy", labels)
    yield ["segment", "--gt", str(folder / "maps_gt"), "--pred", str(folder / "maps_pred"), "--num-classes", "4"]
    for side in ("gt", "pred"):
        masks.write_panoptic(folder, side)
    yield ["panoptic", "--gt", str(folder / "gt.json"), "--pred", str(folder / "pred.json")]
    yield ranks.command(folder)


def saved_evaluations_of_coco() -> bytes:
    """The state file of an evaluation of boxes."""
    return _saved_evaluations()[0]


def saved_evaluations(rng: random.Random, folder: Path) -> Damaged:
    """The result of a changed state file of an evaluation."""
    path = folder / "a.state"
    path.write_bytes(mutations.changed_state(rng, rng.choice(_saved_evaluations())))

    def read() -> Any:
        result = load_state_file(path).result
        return result.to_dict(), result.with_intervals(5).to_dict()

    return Damaged(read)


@functools.cache
def _offline_states() -> bytes:
    counted = Counted(7, (), ("a.jsonl",), {"0": "cat"}, {}, {"area": 1})
    states = {"accuracy": bytes(range(256)), "zeros": bytes(1 << 18)}
    return dump_states("0" * 64, counted, states)


def offline_states(rng: random.Random, folder: Path) -> Damaged:
    """What a driver takes over from an earlier run: counts, names and the states of a content."""
    states = StateFolder(folder)
    states.prepare()
    data = _offline_states()
    size = struct.unpack_from("<I", data, 8)[0]
    head, content = json.loads(data[12 : 12 + size]), data[12 + size : -4]
    if rng.random() < 0.8:
        head = mutations.changed(rng, head)
    else:
        content = mutations.numbers_changed(rng, content)
    text = json.dumps(head).encode("utf-8", "surrogatepass")
    whole = data[:8] + struct.pack("<I", len(text)) + text + content
    whole += struct.pack("<I", zlib.crc32(whole))
    states.state_path("0" * 64).write_bytes(whole if rng.random() < 0.8 else mutations.numbers_changed(rng, data))
    task = rng.randrange(3)

    def read() -> Any:
        if task == 0:
            return states.known("0" * 64)
        return states.names("0" * 64) if task == 1 else bytes(states.state("0" * 64, "accuracy"))

    return Damaged(read)


# --------------------------------------------------------------------------------------------------------- tables

_ROWS = [{"t": f"c{k % 2}", "p": k / 8, "q": 1 - k / 8, "x": 'a, "b"'} for k in range(8)]
CSV = "t,p,q,x\n" + "".join(f'{r["t"]},{r["p"]},{r["q"]},"a, ""b"""\n' for r in _ROWS)


def _cell(rng: random.Random) -> str:
    value = rng.choice((*mutations.EXTREMES, *mutations.ODD))
    return json.dumps(value, ensure_ascii=False) if rng.random() < 0.5 else str(value)


def _table(rng: random.Random, ending: str) -> bytes:
    """A table whose cells, lines or bytes are changed."""
    if ending == ".jsonl":
        lines = [json.dumps(mutations.changed(rng, row) if rng.random() < 0.2 else row) for row in _ROWS]
    elif ending == ".npz":
        columns = {name: np.array([row[name] for row in _ROWS]) for name in "tpqx"}
        members = {
            f"{name}.npy": mutations.changed_npy(rng, array) if rng.random() < 0.4 else _npy(array)
            for name, array in columns.items()
        }
        return mutations.zipped(rng, members)
    elif ending == ".parquet":
        return mutations.numbers_changed(rng, _parquet())
    else:
        cells = [line.split(",") for line in CSV.splitlines()]
        for _ in range(rng.choice((0, 1, 1, 3))):
            row = rng.choice(cells)
            row[rng.randrange(len(row))] = _cell(rng)
        lines = [("\t" if ending == ".tsv" else ",").join(row) for row in cells]
    if rng.random() < 0.2:
        rng.shuffle(lines)
    text = rng.choice(("\n", "\n", "\r\n", "\r", "\n\n")).join(lines).encode("utf-8", "surrogatepass")
    return mutated(text, rng.randrange(2**32)) if rng.random() < 0.4 else text


def _npy(array: Any) -> bytes:
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


@functools.cache
def _parquet() -> bytes:
    import pyarrow
    import pyarrow.parquet

    out = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table({name: [row[name] for row in _ROWS] for name in "tpqx"}), out)
    return out.getvalue()


_ENDINGS = (".csv", ".csv", ".tsv", ".jsonl", ".jsonl", ".npz", ".parquet")


def tables(rng: random.Random, folder: Path) -> Damaged:
    """The columns of a table."""
    ending = rng.choice(_ENDINGS)
    data, path = _table(rng, ending), folder / f"a{ending}"
    path.write_bytes(data)

    def check(table: Any) -> None:
        assert table.numbers[0].shape == (len(table.texts[0]), 2) and np.isfinite(table.numbers[0]).all()
        for place, row in enumerate(_peer_rows(data, ending)):
            if isinstance(row["p"], list) or isinstance(row["q"], list):  # of one number, in JSON lines
                continue
            assert table.texts[0][place] == row["t"], place
            assert table.numbers[0][place].tolist() == [float(row["p"]), float(row["q"])], place

    return Damaged(lambda: read_table(path, ["t"], [["p", "q"]]), check)


def _peer_rows(data: bytes, ending: str) -> list[dict[str, Any]]:
    """Rows by Python's json or csv; none where they do not read the file as plain rows."""
    try:
        text = data.decode("utf-8-sig")
        if ending == ".jsonl":
            rows = [json.loads(line) for line in text.split("\n") if line.strip()]
            return rows if all(isinstance(row["t"], str) for row in rows) else []
        if ending != ".csv" or text.split("\n")[0].strip() != "t,p,q,x":
            return []
        return list(csv.DictReader(io.StringIO(text, newline=""), strict=True))
    except (ValueError, KeyError, TypeError, csv.Error):
        return []


def predictions(rng: random.Random, folder: Path) -> Damaged:
    """Targets, scores and weights of a table."""
    ending = rng.choice(_ENDINGS)
    path = folder / f"a{ending}"
    path.write_bytes(_table(rng, ending))
    columns = rng.choice((Columns("t", ("p", "q")), Columns("t", pred="t", weight="p"), Columns("t", ("p",))))
    return Damaged(lambda: read_predictions(path, columns))


def evaluation_rows(rng: random.Random, folder: Path) -> Damaged:
    """The rows that an evaluation of answers reads: one that cannot be read has an error of its own."""
    ending = rng.choice((".csv", ".tsv", ".jsonl", ".jsonl", ".parquet"))
    path = folder / f"a{ending}"
    path.write_bytes(_table(rng, ending))
    return Damaged(lambda: [row.values or row.error for row in open_data(path)], _check_plain)


def _check_plain(rows: list[Any]) -> None:
    json.dumps(rows, allow_nan=False).encode()


def shard_rows(rng: random.Random, folder: Path) -> Damaged:
    """The chunks of a damaged shard."""
    form = rng.choice(("csv", "jsonl", "parquet", "webdataset", "coco", "arrow"))
    files = {"data": str(folder / f"a.{form}")}
    columns: tuple[str, ...] = ("t", "p")
    if form == "coco":
        paths = vision.damaged_pair(rng, folder)
        files = {"ground_truth": str(paths[0]), "detections": str(paths[1])}
        columns = rng.choice((("boxes", "scores", "labels", "gt_boxes", "gt_labels"), ("masks", "gt_masks")))
    elif form == "webdataset":
        Path(files["data"]).write_bytes(mutations.numbers_changed(rng, _tar()))
        columns = ("json", "npy", "png")
    else:
        ending = ".parquet" if form == "arrow" else f".{form}"
        Path(files["data"]).write_bytes(_table(rng, ending))
    return Damaged(lambda: list(format_named(form)(Shard(0, files), columns, 3)))


@functools.cache
def _tar() -> bytes:
    import tarfile

    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for number in range(3):
            content = {"json": b'{"a": 1}', "npy": _npy(np.arange(4)), "png": masks.segments_png(number)}
            for ending, data in content.items():
                info = tarfile.TarInfo(f"{number}.{ending}")
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def clusters(rng: random.Random, folder: Path) -> Damaged:
    """The clusters of images."""
    path = folder / "a.csv"
    text = "image,cluster,more\n" + "".join(f"{n}.png,c{n % 3},{_cell(rng) if n == 3 else ''}\n" for n in range(6))
    path.write_bytes(mutated(text.encode("utf-8", "surrogatepass"), rng.randrange(2**32)))
    return Damaged(lambda: read_clusters(str(path)))


# ------------------------------------------------------------------------------------------------------ hierarchy

_NESTED = {
    "LabelName": "/m/0", "Subcategory": [
        {"LabelName": "/m/1", "Subcategory": [{"LabelName": "/m/2"}, {"LabelName": "/m/3"}]},
        {"LabelName": "/m/4", "Part": [{"LabelName": "/m/5"}]},
    ],
}  # fmt: skip
_LABELS = {f"/m/{n}": n for n in range(6)}


def hierarchies(rng: random.Random, folder: Path) -> Damaged:
    """A hierarchy of classes of Open Images."""
    nested = mutations.changed(rng, {"tree": _NESTED, "labels": _LABELS, "plain": {"1": 2, "3": [1, 4]}})
    tree = nested.get(rng.choice(("tree", "tree", "plain")))
    labels = nested.get("labels") if rng.random() < 0.8 else None
    if isinstance(tree, dict) and rng.random() < 0.3:
        tree = {int(key) if isinstance(key, str) and key.isdigit() else key: value for key, value in tree.items()}
    return Damaged(lambda: ClassHierarchy.of(tree, labels).digest)


READERS: dict[str, Make] = {
    "coco_masks": vision.coco_masks,
    "coco_results": vision.coco_results,
    "coco_evaluation": vision.coco_evaluation,
    "coco_results_by_json": vision.without_native(vision.coco_results),
    "lvis_evaluation": vision.lvis_evaluation,
    "run_lengths": masks.run_lengths,
    "polygons": masks.polygons,
    "png_label_maps": masks.png_label_maps,
    "numpy_label_maps": masks.numpy_label_maps,
    "panoptic": masks.panoptic,
    "metric_bytes": metric_bytes,
    "saved_metrics": saved_metrics,
    "saved_evaluations": saved_evaluations,
    "offline_states": offline_states,
    "tables": tables,
    "predictions": predictions,
    "rankings": ranks.rankings,
    "evaluation_rows": evaluation_rows,
    "shard_rows": shard_rows,
    "clusters": clusters,
    "hierarchies": hierarchies,
}
"""By name, what makes a damaged input from a generator of random numbers and a folder."""

LONGEST_MESSAGE = 16_000
"""Characters of a message, which may quote a text of 5,000 three times."""


def outcome(name: str, seed: int, folder: Path) -> str:
    """Reads a damaged input: ``read`` where its value is that of the other reader, ``error`` for one with a message.

    Raises:
        AssertionError: another value, or an error that is none of this package or cannot be shown.
    """
    damaged = READERS[name](random.Random(f"{name} {seed}"), folder)
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            value = damaged.read()
        except ValorError as error:
            assert 0 < len(str(error)) <= LONGEST_MESSAGE, f"{name} {seed}: {len(str(error))} characters"
            return "error"
        except BaseException as error:
            raise AssertionError(f"{name} {seed}: {type(error).__name__}: {error}"[:600]) from error
        damaged.check(value)
    return "read"
