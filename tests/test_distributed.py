"""The exchange and state files by themselves; tests/contract_ranks.py runs them in three processes."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.contents import content
from tests.test_state import Everything, everything
from valor_gpu import distributed
from valor_gpu.distributed import Gathered, Identity, dump_state, exchange, load_state, pack, unpack
from valor_gpu.errors import InputError, SyncError
from valor_gpu.state import Spec, State

SCHEMA = everything(0).schema()
IDENTITY = Identity("Metric", {"limit": 3, "names": ("a", "b")}, SCHEMA)
CPU = torch.device("cpu")


class Ranks:
    """Ranks of one process: every call of the gather function of one rank waits for none of the others.

    The first pass over the ranks records what each of them sends first, the second what they send then.
    """

    def __init__(
        self, makes: Sequence[Any], identities: Sequence[Identity], protocols: Sequence[int] = (1, 1, 1)
    ) -> None:
        self.makes, self.identities, self.protocols = makes, identities, protocols
        self.sent: list[list[Tensor]] = [[] for _ in makes]

    def outcome(self, rank: int) -> Any:
        """What the exchange of ``rank`` returns or raises, with the tensors of all ranks."""
        for step in range(2):
            for other in range(len(self.makes)):
                self._run(other, step + 1)
        return self._run(rank, 3)

    def _run(self, rank: int, steps: int) -> Any:
        sent: list[Tensor] = []

        def gather(tensor: Tensor) -> list[Tensor]:
            sent.append(tensor)
            if len(sent) == steps:
                raise StopIteration
            return [theirs[len(sent) - 1] for theirs in self.sent]

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(distributed, "_PROTOCOL", self.protocols[rank])
            try:
                return exchange(self.makes[rank], self.identities[rank], gather, CPU)
            except StopIteration:
                return None
            finally:
                self.sent[rank] = sent


def test_ranks_merge_in_order() -> None:
    states = [everything(0), everything(1, 0, 0), everything(2, 5, 7)]
    ranks = Ranks([s.tensors for s in states], [IDENTITY] * 3)
    expected = content(states[0].merge(states[1]).merge(states[2]).tensors())
    for rank in range(3):
        assert content(ranks.outcome(rank)) == expected
    assert all(len(sent) == 2 for sent in ranks.sent)
    assert len({sent[1].shape for sent in ranks.sent}) == 1


def fails() -> Mapping[str, Tensor]:
    raise MemoryError("too little")


@pytest.mark.parametrize("failed", [fails, MemoryError("too little")], ids=["while packing", "before"])
def test_a_failed_rank_raises_its_own_error_and_the_others_name_it(failed: Any) -> None:
    ranks = Ranks([everything(0).tensors, failed], [IDENTITY] * 2)
    with pytest.raises(SyncError, match="Metric was not synchronised: rank 1 failed with MemoryError: too little"):
        ranks.outcome(0)
    with pytest.raises(MemoryError, match="too little"):
        ranks.outcome(1)


@pytest.mark.parametrize(
    ("other", "difference"),
    [
        (Identity("Other", IDENTITY.config, SCHEMA), 'metric: "Other" there but "Metric" here'),
        (
            Identity("Metric", {"limit": 3, "names": ["a"]}, SCHEMA),
            r'config.names: \["a"\] there but \["a", "b"\] here',
        ),
        (Identity("Metric", {"limit": 3}, SCHEMA), r'config.names: null there but \["a", "b"\] here'),
        (Identity("Metric", [3], SCHEMA), r"config: \[3\] there but {.*} here"),
        (
            Identity("Metric", IDENTITY.config, SCHEMA[:-1]),
            r'fields.lowest: null there but "min of float64 \[2\]" here',
        ),
    ],
)
def test_every_rank_raises_on_another_identity(other: Identity, difference: str) -> None:
    make: Callable[[], Mapping[str, Tensor]] = everything(0).tensors
    ranks = Ranks([make, make, make], [IDENTITY, IDENTITY, other])
    for rank in range(2):
        with pytest.raises(SyncError, match=f"Metric was not synchronised: rank 2 has another {difference}"):
            ranks.outcome(rank)
    with pytest.raises(SyncError, match=f"{other.metric} was not synchronised: rank 0 has another"):
        ranks.outcome(2)


def test_another_protocol_raises() -> None:
    ranks = Ranks([everything(0).tensors] * 2, [IDENTITY] * 2, protocols=(1, 2))
    for rank in range(2):
        there, here = 2 - rank, 1 + rank
        with pytest.raises(SyncError, match=f"rank {1 - rank} speaks protocol {there} but this one {here}: use one"):
            ranks.outcome(rank)


def test_identity_tells_equal_numbers_of_another_form_apart() -> None:
    limits = [1, 1.0, True, 0.0, -0.0, 0, False]
    for _ in range(2):  # the second time, texts are known
        texts = [Identity("Metric", {"limit": limit}, ()).text for limit in limits]
        assert [json.dumps(limit) in text for limit, text in zip(limits, texts)] == [True] * len(limits)
        assert len(set(texts)) == len(limits)


def test_texts_of_configurations_stay_few_and_short(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: dict[bytes, str] = {}
    monkeypatch.setattr(distributed, "_CONFIG_TEXTS", kept)
    for limit in range(1000):
        _ = Identity("Metric", {"limit": limit}, ()).text
    assert 0 < len(kept) <= 256
    before = len(kept)
    _ = Identity("Metric", {"limits": list(range(10_000))}, ()).text
    assert len(kept) == before


def test_identity_ignores_the_order_of_choices_and_the_kind_of_sequence() -> None:
    same = Identity("Metric", {"names": ["a", "b"], "limit": 3}, SCHEMA)
    assert same.digest == IDENTITY.digest
    same.check(IDENTITY.text, "it")
    assert Identity("Metric", {"limit": 3.0, "names": ("a", "b")}, SCHEMA).digest != same.digest
    assert len(IDENTITY.digest) == 16
    with pytest.raises(InputError, match="config must hold numbers, strings, lists and dicts but got Tensor"):
        _ = Identity("Metric", {"limit": torch.tensor(1)}, SCHEMA).text


@pytest.mark.parametrize("rows", [(0, 0), (1, 0), (0, 1), (3, 17)])
def test_pack_and_unpack(rows: tuple[int, int], device: torch.device) -> None:
    tensors = everything(0, *rows).to(device).tensors()
    packed = pack(tensors, SCHEMA, device)
    padded = torch.cat((packed, packed.new_zeros(5)))
    assert packed.numel() % 16 == 0
    assert content(unpack(packed, SCHEMA)) == content(unpack(padded, SCHEMA)) == content(tensors)
    with pytest.raises(InputError, match=rf"a state of \[{rows[0]}, {rows[1]}\] rows takes {len(packed)} bytes but is"):
        unpack(packed[:-1], SCHEMA)
    with pytest.raises(InputError, match="a state must have 2 row counts but is 15 bytes"):
        unpack(packed[:15], SCHEMA)
    packed[:8].view(torch.int64).fill_(-1)
    with pytest.raises(InputError, match=r"a state of \[-1, "):
        unpack(packed, SCHEMA)


def test_pack_takes_any_strides() -> None:
    wide = torch.arange(12.0).reshape(2, 6)[:, ::3]
    state = Everything(wide, torch.tensor([True]), torch.arange(6)[::2], torch.tensor(1), torch.zeros(2).double())
    assert content(unpack(pack(state.tensors(), SCHEMA, CPU), SCHEMA)) == content(state.tensors())


def test_one_row_of_a_wider_table_packs() -> None:
    """Of one element, any stride is contiguous to torch."""
    column = torch.arange(4, dtype=torch.int16).reshape(1, 4)[:, 1]
    schema = (Spec("rows", "cat", torch.int16, ()),)
    assert column.stride() == (4,) and unpack(pack({"rows": column}, schema, CPU), schema)["rows"].tolist() == [1]


def test_no_rows_of_numpy_pack() -> None:
    """``numpy.concatenate`` of nothing has strides of 0."""
    none = torch.from_numpy(np.concatenate([np.zeros(0), np.zeros(0)]))
    schema = (Spec("none", "cat", torch.float64, ()),)
    assert none.stride() == (0,) and unpack(pack({"none": none}, schema, CPU), schema)["none"].shape == (0,)


def test_a_state_without_rows_packs() -> None:
    counts = {"counts": torch.arange(3)}
    schema = tuple(spec for spec in SCHEMA if spec.name == "counts")
    assert unpack(pack(counts, schema, CPU), schema)["counts"].tolist() == [0, 1, 2]


def rewritten(data: bytes, **changes: object) -> bytes:
    """A state file with another header and a checksum that fits."""
    length = struct.unpack_from("<I", data, 12)[0]
    header = json.dumps({**json.loads(data[16 : 16 + length]), **changes}).encode()
    body = data[:12] + struct.pack("<I", len(header)) + header + data[16 + length : -4]
    return body + struct.pack("<I", zlib.crc32(body))


def test_state_file_round_trip() -> None:
    state = everything(3)
    data = dump_state(state.tensors(), IDENTITY, updates=7)
    for given in (data, bytearray(data), memoryview(data)):
        tensors, updates = load_state(given, IDENTITY)
        assert content(tensors) == content(state.tensors())
        assert updates == 7


def test_state_file_of_another_kind_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    data = dump_state(everything(3).tensors(), IDENTITY, updates=7)
    assert load_state(rewritten(data), IDENTITY)[1] == 7
    with pytest.raises(InputError, match="data must be bytes or bytearray or memoryview but got str"):
        load_state("x", IDENTITY)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="data must be of state format 1 but is of format 2"):
        load_state(data[:8] + struct.pack("<I", 2) + data[12:], IDENTITY)
    with pytest.raises(InputError, match=r"data must be .* endian like this machine but is middle endian"):
        load_state(rewritten(data, byteorder="middle"), IDENTITY)
    with pytest.raises(InputError, match="its header holds values of other kinds than expected"):
        load_state(rewritten(data, updates="7"), IDENTITY)
    with pytest.raises(InputError, match="its header must be JSON but cannot be read"):
        load_state(data[:16] + b"]" + data[17:], IDENTITY)
    with pytest.raises(InputError, match=r"data is truncated: its header must be \d+ bytes but 4 are there"):
        load_state(data[:20], IDENTITY)
    with pytest.raises(InputError, match="data is damaged: its checksum must match its content but does not"):
        load_state(data[:-1] + bytes([data[-1] ^ 1]), IDENTITY)
    with pytest.raises(SyncError, match=r"the state has another config.limit: 3 there but 4 here"):
        load_state(data, Identity("Metric", {**IDENTITY.config, "limit": 4}, SCHEMA))


def test_what_was_gathered_serves_only_an_unchanged_state() -> None:
    rows, count = torch.zeros(2), torch.tensor(1)
    gathered = Gathered((None, None), {"rows": [rows, rows], "count": count}, {})
    assert gathered.serves((None, None), {"rows": [rows, rows], "count": count})
    assert not gathered.serves((None, "group"), {"rows": [rows, rows], "count": count})
    assert not gathered.serves((None, None), {"rows": [rows, rows, rows], "count": count})
    assert not gathered.serves((None, None), {"rows": [rows, rows.clone()], "count": count})
    assert not gathered.serves((None, None), {"rows": [rows, rows], "count": count.clone()})


@pytest.mark.parametrize(
    ("backends", "device", "expected"),
    [
        ("cpu:gloo,cuda:gloo", "cpu", "cpu"),
        ("cpu:gloo,cuda:gloo", "cuda:1", "cpu"),
        ("cpu:gloo,cuda:nccl", "cuda:1", "cuda:1"),
        ("cpu:gloo,cuda:nccl", "cpu", "cpu"),
        ("cuda:nccl", "cuda:1", "cuda:1"),
        ("cuda:nccl", "cpu", "cuda:3"),
    ],
)
def test_device_of_the_group(backends: str, device: str, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distributed.dist, "get_backend_config", lambda group: backends)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 3)
    assert distributed._group_device(torch.device(device), None) == torch.device(expected)


def test_state_base_has_no_fields() -> None:
    assert State().schema() == ()
