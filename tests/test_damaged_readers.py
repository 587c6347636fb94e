"""Damaged inputs of every reader are read as another reader reads them, or refused with an error of this package.

``python -m tests.native.damaged 10000`` reads many more, with the sanitized library.
"""

from __future__ import annotations

import json
import random
import struct
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests import damaged_files, damaged_vision, mutations
from tests.damaged_files import READERS, Damaged, outcome
from tests.fuzz import seeds
from valor_gpu import native
from valor_gpu.classification import Accuracy
from valor_gpu.comparison.state_files import load_state_file
from valor_gpu.errors import InputError, StoreError
from valor_gpu.inputs.panoptic_files import read_ids, read_panoptic_json
from valor_gpu.offline.records import Counted, StateFolder, dump_states
from valor_gpu.state_file import StateFile, read_state, state_bytes, write_state

pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning"),  # of pycocotools
    pytest.mark.skipif(not native.available("valor_cpu"), reason=native.reason("valor_cpu")),
]
_NATIVE = {
    "coco_masks", "coco_results", "coco_evaluation", "lvis_evaluation", "run_lengths", "polygons", "png_label_maps",
    "panoptic", "metric_bytes", "saved_evaluations",
}  # fmt: skip
_MARKED = [pytest.param(name, marks=pytest.mark.smoke) if name in _NATIVE else name for name in READERS]


@pytest.mark.parametrize("name", _MARKED)
def test_damaged_inputs_are_read_right_or_refused(name: str, tmp_path: Path) -> None:
    found = Counter(outcome(name, seed, tmp_path) for seed in seeds(16))
    assert {"read", "error"} == set(found), found


def test_another_value_and_another_error_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(value: Any) -> None:
        assert value == 1

    def reader(error: type[BaseException]) -> Damaged:
        def read() -> Any:
            raise error("deep inside")

        return Damaged(read)

    monkeypatch.setitem(READERS, "x", lambda rng, folder: Damaged(lambda: 2, wrong))
    with pytest.raises(AssertionError):
        outcome("x", 0, tmp_path)
    for error in (KeyError, MemoryError, RecursionError, struct.error, zlib.error, SystemExit):
        monkeypatch.setitem(READERS, "x", lambda rng, folder, error=error: reader(error))
        with pytest.raises(AssertionError, match=f"x 0: {error.__name__}: "):
            outcome("x", 0, tmp_path)


def test_the_same_seed_damages_alike(tmp_path: Path) -> None:
    texts = [mutations.changed_json(random.Random(5), damaged_vision.ground_truth()) for _ in range(2)]
    assert texts[0] == texts[1] != json.dumps(damaged_vision.ground_truth()).encode()


def test_run_lengths_are_packed_as_pycocotools_packs_them() -> None:
    class Least(random.Random):
        def random(self) -> float:
            return 1.0

    for seed in range(20):
        mask = damaged_vision.drawn_mask(seed)
        expected = damaged_vision.peers().encode(mask)["counts"]
        assert mutations.packed_runs(Least(), damaged_vision.runs_of(mask)) == expected


# ------------------------------------------------------------------------------------- what damaged inputs have shown


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("\ud800.png", r"annotations\[0\].file_name must be a name that a file can have but is '\\ud800.png'$"),
        ("../a.png", r"annotations\[0\].file_name must name a file inside the folder but is '../a.png'$"),
        ("/" + "x" * 5000, r"annotations\[0\].file_name must name a file inside the folder but is '/x{58}\.\.\.$"),
    ],
)
def test_panoptic_names_that_no_file_has(name: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"annotations": [{"image_id": 1, "file_name": name, "segments_info": []}]}))
    with pytest.raises(InputError, match=message):
        read_panoptic_json(str(path), False)


def test_a_panoptic_name_that_is_too_long_is_that_of_no_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"x{300}.png must be there, as entry 7 names it, but is not$"):
        read_ids(str(tmp_path / f"{'x' * 300}.png"), "entry 7")
    (tmp_path / "round.png").symlink_to(tmp_path / "round.png")
    with pytest.raises(InputError, match=r"round.png must be there, as entry 7 names it, but is not$"):
        read_ids(str(tmp_path / "round.png"), "entry 7")


def _rewritten(data: bytes, **values: Any) -> bytes:
    """A state of a metric whose head says something else."""
    size = struct.unpack_from("<I", data, 12)[0]
    head = json.dumps({**json.loads(data[16 : 16 + size]), **values}).encode()
    whole = data[:12] + struct.pack("<I", len(head)) + head + data[16 + size : -4]
    return whole + struct.pack("<I", zlib.crc32(whole))


@pytest.mark.parametrize("identity", ["", "{", "[" * 100_000, '{"a": 1} x'])
def test_a_state_whose_identity_is_no_json(identity: str) -> None:
    metric = Accuracy(num_classes=3)
    metric.update(torch.tensor([0, 1, 2]), torch.tensor([0, 1, 1]))
    before = metric.compute()
    with pytest.raises(InputError, match=r"^data is damaged: its header must be JSON but cannot be read$"):
        metric.from_bytes(_rewritten(metric.to_bytes(), identity=identity))
    assert torch.equal(metric.compute(), before)


def _saved(folder: Path) -> tuple[Path, StateFile]:
    path, metric = folder / "a.state", Accuracy(num_classes=3)
    metric.update(torch.tensor([0, 1, 2]), torch.tensor([0, 1, 1]))
    metric.save_state(path)
    return path, read_state(path)


@pytest.mark.parametrize(
    "value", [{}, {"$array": [1], "dtype": "(2,", "shape": [1]}, {"$array": [1, 2], "dtype": "i8", "shape": [3]}]
)
def test_an_argument_that_no_metric_takes(value: Any, tmp_path: Path) -> None:
    path, file = _saved(tmp_path)
    kwargs = {**file.choices["kwargs"], "num_classes": value}
    write_state(path, StateFile(file.kind, {**file.choices, "kwargs": kwargs}, file.arrays, file.document))
    with pytest.raises(InputError, match="the state file has arguments that Accuracy does not take: "):
        load_state_file(path)


@pytest.mark.parametrize("dtype", ["(2,", "0123", "x" * 5000, "f8,", "[('a', 1"])
def test_a_dtype_that_numpy_does_not_have(dtype: str, tmp_path: Path) -> None:
    _, file = _saved(tmp_path)
    document = {**file.document, "values": {"a": [1]}, "arrays": {"a": {"dtype": dtype, "shape": [1]}}, "infinite": {}}
    path = tmp_path / "b.state"
    write_state(path, StateFile(file.kind, file.choices, file.arrays, document))
    with pytest.raises(InputError, match=r"must hold a state of kind metric but has another form: "):
        load_state_file(path)
    data = state_bytes(file).replace(b'"dtype":"|u1"', f'"dtype":"{dtype}"'.encode())
    head = struct.unpack_from("<Q", data, 12)[0] + len(dtype) - 3
    whole = data[:12] + struct.pack("<Q", head) + data[20:-32]
    path.write_bytes(whole + mutations.digest(whole))
    with pytest.raises(InputError, match=r"b.state has (no dtype|an array state of another form)"):
        read_state(path)


def test_more_limits_than_a_record_can_name(tmp_path: Path) -> None:
    data = damaged_files.saved_evaluations_of_coco()
    path = tmp_path / "a.state"
    path.write_bytes(data)
    file = read_state(path)
    shape = [*file.choices["shape"][:2], 255]
    write_state(path, StateFile(file.kind, {**file.choices, "shape": shape}, file.arrays, file.document))
    with pytest.raises(InputError, match=r"has another form: .* but has shape that no evaluation has"):
        load_state_file(path)


CONTENT = "0" * 64


@pytest.mark.parametrize(
    ("head", "message"),
    [
        ({"content": None}, "it must be of content 0{64} but is of None"),
        ({"states": []}, "its head must be as this package writes it but has 'list' object has no attribute 'items'"),
        ({"states": {"a": 5}}, "its head must be as this package writes it but has cannot unpack"),
        ({"states": {"a": ["9", 9]}}, "its head must be as this package writes it but has "),
        ({"counted": {}}, "its head must be as this package writes it but has no 'bad_rows'"),
        ({"counted": {"bad_rows": [[]]}}, "its head must be as this package writes it but has "),
        ({"states": {}}, "it must have a state of a but has none"),
        ({"states": {"a": [256, 9]}}, "its states must be packed but cannot be unpacked: Error -3"),
        ({"states": {"a": [256, "9"]}}, "its states must be packed but cannot be unpacked: "),
    ],
)
def test_a_state_of_an_earlier_offline_run_with_another_head(head: Any, message: str, tmp_path: Path) -> None:
    states = StateFolder(tmp_path)
    data = dump_states(CONTENT, Counted(1, (), ("a",), {}, {}, {}), {"a": bytes(range(256))})
    size = struct.unpack_from("<I", data, 8)[0]
    text = json.dumps({**json.loads(data[12 : 12 + size]), **head}).encode()
    whole = data[:8] + struct.pack("<I", len(text)) + text + data[12 + size : -4]
    states.state_path(CONTENT).write_bytes(whole + struct.pack("<I", zlib.crc32(whole)))
    with pytest.raises(StoreError, match=f"is damaged: {message}.*; run again, which makes it anew$"):
        states.state(CONTENT, "a")
    if "a" not in head.get("states", {"a": 0}) or "cannot be unpacked" not in message:
        assert states.known(CONTENT) is None or message.startswith("it must have a state")


def test_a_packed_state_of_another_size(tmp_path: Path) -> None:
    states = StateFolder(tmp_path)
    zeros = bytes(1 << 20)
    data = dump_states(CONTENT, Counted(1, (), ("a",), {}, {}, {}), {"a": zeros})
    states.state_path(CONTENT).write_bytes(data)
    assert states.state(CONTENT, "a") == zeros
    for size, got in ((1 << 19, "more"), (1 << 21, 1 << 20)):
        whole = data[:-4].replace(b", 1048576]", f", {size:>7}]".encode().replace(b" ", b" "))
        states.state_path(CONTENT).write_bytes(whole + struct.pack("<I", zlib.crc32(whole)))
        with pytest.raises(StoreError, match=f"is damaged: a state must have {size} bytes but has {got};"):
            states.state(CONTENT, "a")


def test_arrays_of_two_dimensions_are_damaged_too() -> None:
    rng = random.Random(3)
    assert len({mutations.changed_npy(rng, np.eye(3)) for _ in range(20)}) > 10
