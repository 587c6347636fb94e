"""State files: the same numbers, intervals and comparisons as what they were written from; damaged ones are refused."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import struct
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import valor_gpu
from tests.contract import METRICS, Case
from tests.ddp import WORLD, run_ranks
from valor_gpu import classification, detection
from valor_gpu.comparison.state_files import load_state_file
from valor_gpu.errors import InputError
from valor_gpu.metric import Metric
from valor_gpu.result import Result, Signature
from valor_gpu.saved_metric import load_metric
from valor_gpu.state_file import StateFile, document_of, parse_state, read_state, state_bytes, write_state
from valor_gpu.stats import compare

PUBLIC = [
    case
    for case in METRICS
    if case.name != "InfoLM-tokens"  # a model is no argument that a file can hold
    and all(type(m()).__module__.startswith("valor_gpu.") for m in (case.make, case.other))
]


def filled(case: Case, make: Callable[..., Metric[Any]], **kwargs: Any) -> Metric[Any]:
    metric = make(**kwargs)
    for number in range(2):
        metric.update(*case.batch(number))
    return metric


def rows(seed: int, order: Any = slice(None), **choices: Any) -> Metric[Any]:
    """A classifier with errors of its own for 200 rows."""
    generator = torch.Generator().manual_seed(seed)
    target = torch.arange(200) % 3
    guesses = torch.where(torch.rand(200, generator=generator) < 0.3, (target + 1) % 3, target)
    metric = classification.Accuracy(num_classes=3, average="micro", keep_rows=True, **choices)
    metric.update(guesses[order], target[order])
    return metric


def intervals_of(result: Result) -> Any:
    try:
        return result.with_intervals(20).to_dict()["intervals"]
    except InputError as error:
        return str(error)


@pytest.mark.parametrize("case", PUBLIC, ids=lambda case: case.name)
def test_every_metric_comes_back(case: Case, tmp_path: Path) -> None:
    for make in (case.make, case.other):
        metric = filled(case, make)
        metric.save_state(tmp_path / "a.state")
        loaded, result = load_state_file(tmp_path / "a.state"), metric.result()
        assert loaded.notes == () and document_of(loaded.result) == document_of(result)
        assert intervals_of(loaded.result) == intervals_of(result)
        again = load_metric(tmp_path / "a.state")
        assert type(again) is type(metric) and again.to_bytes() == metric.to_bytes()
        again.update(*case.batch(2))
        metric.update(*case.batch(2))
        assert document_of(again.result()) == document_of(metric.result())


def test_files_compare_as_the_metrics_do(tmp_path: Path) -> None:
    first, second = rows(1), rows(2)
    first.save_state(tmp_path / "first.state")
    second.save_state(str(tmp_path / "second.state"))
    expected = document_of(compare(first, second, replicates=100))
    for sides in ((tmp_path / "first.state", str(tmp_path / "second.state")), (first, tmp_path / "second.state")):
        found = document_of(compare(*sides, replicates=100))
        assert {name: found[name] for name in ("values", "signature", "intervals", "counts")} == {
            name: expected[name] for name in ("values", "signature", "intervals", "counts")
        }


def test_a_member_of_a_collection_and_a_metric_that_was_copied(tmp_path: Path) -> None:
    from torchmetrics import MetricCollection

    kinds = {"recall": classification.Recall, "f1": classification.F1Score}
    collection = MetricCollection({name: kind(num_classes=3, average="macro") for name, kind in kinds.items()})
    for seed in range(2):
        generator = torch.Generator().manual_seed(seed)
        collection.update(*(torch.randint(3, (50,), generator=generator) for _ in range(2)))
    for name in kinds:
        collection[name].clone().save_state(tmp_path / f"{name}.state")
        found = load_state_file(tmp_path / f"{name}.state").result
        assert document_of(found) == document_of(collection[name].result())


def _save_on_rank(folder: str, rank: int, world: int) -> None:
    metric = rows(5, slice(rank, None, world))
    metric.save_state(os.path.join(folder, "all.state"))
    metric.save_state(os.path.join(folder, f"by_{rank}.state"))


def test_ranks_save_one_file(tmp_path: Path) -> None:
    folder = tmp_path / "states"
    folder.mkdir()
    run_ranks(partial(_save_on_rank, str(folder)), tmp_path)
    assert sorted(path.name for path in folder.iterdir()) == ["all.state", "by_0.state"]
    order = torch.cat([torch.arange(200)[rank::WORLD] for rank in range(WORLD)])
    found, whole = load_state_file(folder / "all.state").result, rows(5, order).result()
    assert document_of(found)["values"] == document_of(whole)["values"]
    assert intervals_of(found) == intervals_of(whole)


# ------------------------------------------------------------------------------------------------- arguments of metrics


def test_arguments_of_every_kind(tmp_path: Path) -> None:
    weights = torch.tensor([0.25, float("inf")], dtype=torch.float64)
    from valor_gpu.saved_arguments import _decoded, _encoded

    for value in (
        None, True, 1, 0.1, float("inf"), "a", [1, "b"], (1, (2.5,)), {1, 2}, {1: {"a": (0,)}, "b": [None]},
        torch.float64, Path("a/b"), np.float32(0.1),
    ):  # fmt: skip
        text = json.dumps(_encoded(value, "x"), allow_nan=False)
        found = _decoded(json.loads(text))
        assert found == (os.fspath(value) if isinstance(value, Path) else value)
    assert np.isnan(_decoded(_encoded(float("nan"), "x")))
    assert torch.equal(_decoded(_encoded(weights, "x")), weights)
    whole = np.arange(6, dtype=np.int32).reshape(2, 3)
    found = _decoded(_encoded(whole, "x"))
    assert found.dtype == whole.dtype and np.array_equal(found, whole)


def test_what_no_file_can_hold_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.state"

    class Own(classification.Accuracy):
        pass

    with pytest.raises(InputError, match=r"save_state needs a public metric of valor_gpu but this is a .*Own"):
        Own(num_classes=2).save_state(path)
    metric = rows(1)
    metric.average = "macro"
    with pytest.raises(InputError, match="as its arguments made it but average was changed to 'macro'"):
        metric.save_state(path)
    metric = rows(1)
    metric.__dict__["_given"] = ((), {"num_classes": 3, "average": print})
    with pytest.raises(InputError, match="argument average of Accuracy is a builtin_function_or_method"):
        metric.save_state(path)
    assert not path.exists()


def test_where_a_metric_works_is_not_kept(tmp_path: Path) -> None:
    metric = rows(1, dist_sync_fn=lambda *_: None, compute_with_cache=False)
    metric.save_state(tmp_path / "a.state")
    assert read_state(tmp_path / "a.state").choices["kwargs"].keys() == {"num_classes", "average", "keep_rows"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"class": "Metric"}, "must be of a public metric of valor_gpu but is of classification.Metric"),
        ({"package": "os"}, "must be of a public metric of valor_gpu but is of os.Accuracy"),
        ({"class": "functional"}, "must be of a public metric of valor_gpu"),
        ({"kwargs": {"no": 1}}, "arguments that Accuracy does not take"),
        ({"kwargs": {"num_classes": {"$eval": ["1"]}}}, "arguments that Accuracy does not take"),
        ({"kwargs": {"num_classes": {"$dtype": "load"}}}, "arguments that Accuracy does not take"),
        ({"args": 3}, "arguments that Accuracy does not take"),
    ],
)
def test_foreign_choices_are_refused(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    rows(1).save_state(tmp_path / "a.state")
    file = read_state(tmp_path / "a.state")
    changed = StateFile(file.kind, {**file.choices, **change}, file.arrays, file.document)
    write_state(tmp_path / "b.state", changed)
    with pytest.raises(InputError, match=message):
        load_state_file(tmp_path / "b.state")


# ------------------------------------------------------------------------------------------------------- damaged files


def resealed(data: bytes) -> bytes:
    return data[:-32] + hashlib.sha256(data[:-32]).digest()


def with_head(data: bytes, change: Callable[[dict[str, Any]], None]) -> bytes:
    """The file with another head and a hash that fits."""
    magic, version, size = struct.unpack_from("<8sIQ", data)
    head = json.loads(data[20 : 20 + size])
    change(head)
    text = json.dumps(head).encode()
    return resealed(struct.pack("<8sIQ", magic, version, len(text)) + text + data[20 + size :])


@pytest.fixture
def data(tmp_path: Path) -> bytes:
    rows(1).save_state(tmp_path / "whole.state")
    return (tmp_path / "whole.state").read_bytes()


def test_every_cut_and_every_changed_byte_is_refused(data: bytes) -> None:
    for end in [*range(60), len(data) // 2, len(data) - 1]:
        with pytest.raises(InputError, match="must be a file that save_state wrote but x"):
            parse_state(data[:end], "x")
    for place in np.random.default_rng(0).integers(len(data), size=200).tolist():
        changed = bytearray(data)
        changed[place] ^= 1 << (place % 8)
        with pytest.raises(InputError, match="must be a file that save_state wrote but x"):
            parse_state(bytes(changed), "x")
    with pytest.raises(InputError, match="damaged or cut off"):
        parse_state(data + b"\0", "x")


def test_other_files_and_newer_formats_are_refused(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{}")
    with pytest.raises(InputError, match=r"a\.json is another kind of file"):
        load_state_file(tmp_path / "a.json")
    newer = resealed(data[:8] + struct.pack("<I", 2) + data[12:])
    with pytest.raises(InputError, match=r"has format version 2 and valor_gpu .* reads 1: install a newer one"):
        parse_state(newer, "x")
    with pytest.raises(OSError, match="nowhere"):
        load_state_file(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda head: head.pop("kind"), "has no 'kind'"),
        (lambda head: head.update(choices=[]), "a head of another form"),
        (lambda head: head["result"].update(more=math.nan), "NaN, which is no JSON"),
        (lambda head: head.update(version=3), "a kind or version that is no text"),
        (lambda head: head["arrays"]["state"].update(bytes=5), "arrays of other sizes than its head says"),
        (lambda head: head["arrays"]["state"].update(shape=[-1]), "an array state of another form"),
        (lambda head: head["arrays"]["state"].update(shape=[7]), "an array state of another size than its head says"),
        (lambda head: head["arrays"]["state"].update(dtype="O"), "an array state of another form"),
        (lambda head: head["arrays"]["state"].update(shape=[1 << 40]), "claim to be far larger than the file"),
    ],
)
def test_heads_that_lie_are_refused(data: bytes, change: Callable[[dict[str, Any]], None], message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_state(with_head(data, change), "x")


@pytest.mark.parametrize("factor, accepted", [(1 - 2e-15, True), (1 + 1e-13, True), (1 + 1e-11, False), (-1.0, False)])
def test_last_bits_of_a_number_may_be_those_of_another_numpy(
    data: bytes, tmp_path: Path, factor: float, accepted: bool
) -> None:
    def rounded(head: dict[str, Any]) -> None:
        head["result"]["values"]["Accuracy"] *= factor

    (tmp_path / "a.state").write_bytes(with_head(data, rounded))
    refused = pytest.raises(InputError, match=r"numbers of its state but values/Accuracy is ")
    with contextlib.nullcontext() if accepted else refused:
        load_state_file(tmp_path / "a.state")


def test_numbers_that_are_not_those_of_the_state(data: bytes, tmp_path: Path) -> None:
    def lie(head: dict[str, Any]) -> None:
        head["result"]["values"]["Accuracy"] = 0.99

    (tmp_path / "a.state").write_bytes(with_head(data, lie))
    with pytest.raises(InputError, match=r"numbers of its state but values/Accuracy is 0\.99 in the file but 0\.\d+"):
        load_state_file(tmp_path / "a.state")

    def lie_of_another_version(head: dict[str, Any]) -> None:
        lie(head)
        head["version"] = "0.0.1"

    (tmp_path / "a.state").write_bytes(with_head(data, lie_of_another_version))
    loaded = load_state_file(tmp_path / "a.state")
    assert loaded.result.values["Accuracy"] == 0.99 and len(loaded.notes) == 2
    assert "was written by valor_gpu 0.0.1, this is" in loaded.notes[0] and "0.99 in the file" in loaded.notes[1]
    rows(1).save_state(tmp_path / "b.state")
    found = compare(tmp_path / "a.state", tmp_path / "b.state", replicates=20)
    assert any("0.0.1" in note for note in found.signature["notes"])


def test_a_kind_of_a_later_version(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.state").write_bytes(with_head(data, lambda head: head.update(kind="dreams", version="9.0")))
    with pytest.raises(InputError, match=r"holds one of kind 'dreams', written by 9\.0: install that version"):
        load_state_file(tmp_path / "a.state")
    with pytest.raises(InputError, match=r"must be a state file of a metric but .* is one of kind 'dreams'"):
        load_metric(tmp_path / "a.state")


# ---------------------------------------------------------------------------------------------------------- the format


@pytest.mark.parametrize(
    "array",
    [
        np.zeros(0, np.int64), np.zeros((0, 3), np.uint8), np.array(3.5), np.arange(12, dtype=">i4").reshape(3, 4),
        np.arange(24.0).reshape(2, 3, 4), np.array([[True], [False]]), np.zeros((1000, 7), np.uint8),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)), np.arange(10)[::2],
    ],
    ids=lambda array: f"{array.dtype}{list(array.shape)}",
)  # fmt: skip
def test_arrays_of_every_kind(array: np.ndarray[Any, Any]) -> None:
    document = document_of(Result({"a": 1.0, "b": np.array([0.5, -np.inf])}, Signature({"metric": "x"})))
    data = state_bytes(StateFile("rows", {"n": [1]}, {"x": array, "y": array}, document))
    found = parse_state(data, "x")
    assert found.choices == {"n": [1]} and data == state_bytes(found)
    for each in found.arrays.values():
        assert each.dtype == array.dtype.newbyteorder("=") and each.shape == array.shape
        assert np.array_equal(each, array)
    assert found.result().values["b"].tolist() == [0.5, -np.inf]


def test_what_shrinks_too_far_is_stored_as_it_is() -> None:
    document = document_of(Result({"a": 1.0}, Signature({"metric": "x"})))
    size = 4 << 20
    data = state_bytes(StateFile("rows", {}, {"zeros": np.zeros(size, np.uint8)}, document))
    assert len(data) > size and np.count_nonzero(parse_state(data, "x").arrays["zeros"]) == 0


def test_what_unpacks_to_more_than_its_head_says_is_refused() -> None:
    document = document_of(Result({"a": 1.0}, Signature({"metric": "x"})))
    array = np.tile(np.arange(50, dtype=np.uint8), 40)
    data = state_bytes(StateFile("rows", {}, {"x": array}, document))
    assert len(data) < len(array)

    def less(head: dict[str, Any]) -> None:
        assert head["arrays"]["x"]["zlib"] is True
        head["arrays"]["x"]["shape"] = [10]

    with pytest.raises(InputError, match="an array x of another size than its head says"):
        parse_state(with_head(data, less), "x")


def test_a_write_that_fails_leaves_the_old_file(data: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(Path, "replace", fails)
    with pytest.raises(OSError, match="disk full"):
        rows(2).save_state(tmp_path / "whole.state")
    assert (tmp_path / "whole.state").read_bytes() == data and len(list(tmp_path.iterdir())) == 1


def test_an_error_names_the_file_that_was_asked_for(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "none" / "x.state"
    with pytest.raises(FileNotFoundError, match=r"none/x\.state'$"):
        write_state(path, parse_state(data, "x"))


def test_a_pipe_and_a_descriptor_are_written_through_and_permissions_stay(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with ThreadPoolExecutor(1) as pool:
        read = pool.submit(path.read_bytes)
        rows(1).save_state(path)
        assert read.result() == data and path.is_fifo()
    with open(tmp_path / "open.state", "w+b") as file:
        rows(1).save_state(f"/dev/fd/{file.fileno()}")
        assert file.read() == data
    (tmp_path / "whole.state").chmod(0o600)
    rows(2).save_state(tmp_path / "whole.state")
    assert (tmp_path / "whole.state").stat().st_mode & 0o777 == 0o600


def test_its_name_is_public() -> None:
    assert valor_gpu.load_metric is load_metric and "save_state" in dir(detection.MeanAveragePrecision)


def test_provenance_of_counts_says_why_it_has_no_hashes(tmp_path: Path) -> None:
    metric = classification.Accuracy()
    metric.update(torch.tensor([0.2, 0.9]), torch.tensor([0, 0]))
    metric.save_state(tmp_path / "old.state")
    loaded = load_state_file(tmp_path / "old.state").result.provenance
    assert dict(loaded) == dict(metric.result().provenance)
    assert loaded["ground_truth"] is None and "counts alone" in loaded["reasons"]["ground_truth"]
