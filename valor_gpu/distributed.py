"""States between processes: one exchange of two collectives, and state files.

Both write a state as one run of bytes: int64 row counts of the joined fields, then every field, each part starting at
a multiple of 16 bytes. What belongs together is decided by :class:`Identity`, never by looking at the data.
"""

from __future__ import annotations

import functools
import hashlib
import json
import pickle
import struct
import sys
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from valor_gpu.checks import check_dense, check_type
from valor_gpu.default_device import device_free
from valor_gpu.errors import InputError, SyncError
from valor_gpu.ops.error_codes import NO_ERROR
from valor_gpu.state import Spec, State, check_state, merge_tensors

Buffer = bytes | bytearray | memoryview
Gather = Callable[[Tensor], Sequence[Tensor]]

_ALIGN = 16  # bytes, so that any dtype can view its part in place
_PROTOCOL = 2  # first word of the exchange header: protocol, failed, identity, payload bytes, note bytes, error
_MAGIC = b"VALORST\n"
_FORMAT = 1
_PREFIX = struct.Struct("<8sII")  # magic, format version, header bytes
_CRC = struct.Struct("<I")


def _refuse(value: object) -> None:
    raise InputError(f"config must hold numbers, strings, lists and dicts but got {type(value).__name__}")


_JSON = json.JSONEncoder(separators=(",", ":"), sort_keys=True, default=_refuse)


_CONFIG_TEXTS: dict[bytes, str] = {}
_MAX_CONFIG_TEXTS, _MAX_CONFIG_BYTES = 256, 1 << 14  # 4 MiB of pickles, and about twice that of text


def _config_text(config: Any) -> str:
    """Canonical JSON of a configuration, kept for the next metric: a hundred thresholds take 40 us to write."""
    try:
        key = pickle.dumps(config)  # equal values are not written alike: 1, 1.0 and True, or 0.0 and -0.0
    except Exception:  # what it holds has no pickle, and as a rule no JSON either, which is told below
        return _JSON.encode(config)
    if (text := _CONFIG_TEXTS.get(key)) is None:
        text = _JSON.encode(config)
        if len(key) <= _MAX_CONFIG_BYTES:
            if len(_CONFIG_TEXTS) >= _MAX_CONFIG_TEXTS:
                _CONFIG_TEXTS.clear()
            _CONFIG_TEXTS[key] = text
    return text


@dataclass(frozen=True)
class Identity:
    """What two states must agree on to be merged.

    Attributes:
        metric: name of the metric.
        config: the choices that ``update`` depends on, as JSON values.
        schema: the tensors of the state.
    """

    metric: str
    config: Any
    schema: tuple[Spec, ...]

    @functools.cached_property
    def text(self) -> str:
        """Canonical JSON of the identity.

        Raises:
            InputError: the configuration holds something that JSON has no form for.
        """
        config = _config_text(self.config)
        fields = ",".join([spec.member for spec in self.schema])
        return f'{{"metric":{_JSON.encode(self.metric)},"config":{config},"fields":{{{fields}}}}}'

    @functools.cached_property
    def digest(self) -> bytes:
        """16 bytes that stand for the identity."""
        return hashlib.sha256(self.text.encode()).digest()[:16]

    def marks(self) -> dict[str, Tensor]:
        """The tensors that every state holds beside its fields: ``signature``, the digest, and ``error``, none yet."""
        signature = np.frombuffer(self.digest, np.uint8).astype(np.int64)  # a third of the time of torch.tensor
        return {"signature": torch.from_numpy(signature), "error": torch.from_numpy(np.array(NO_ERROR))}

    def check(self, text: str, source: str) -> None:
        """Raises :class:`SyncError` unless ``text`` is the identity of this one, and names what differs.

        Args:
            text: identity of the other side, as :attr:`text` gives it.
            source: who the other side is, as the subject of a sentence.
        """
        if text == self.text:
            return
        ours, theirs = json.loads(self.text), json.loads(text)
        raise SyncError(f"{source} has another {_difference((), ours, theirs)}")

    @functools.cached_property
    def counts(self) -> tuple[Spec, ...]:
        """The fields of a state of which all are int64 sums, so that one reduction adds it up; else none."""
        own = [spec for spec in self.schema if spec.name not in ("signature", "error")]
        return tuple(own) if all(spec.merge == "sum" and spec.dtype == torch.int64 for spec in own) else ()

    @staticmethod
    def count(updates: object) -> int:
        """A foreign count of updates, an int or an integer tensor of one element, checked."""
        if isinstance(updates, Tensor) and updates.numel() == 1 and not updates.is_floating_point():
            updates = updates.item()
        if isinstance(updates, bool) or not isinstance(updates, int) or not 0 <= updates < 2**63:
            raise InputError(f"update_count must be an int of at least 0 but is {updates}")
        return updates

    def accept(
        self, states: Mapping[str, Any], device: torch.device, kind: type[State], rule: Any
    ) -> dict[str, list[Tensor]]:
        """Foreign states, each a tensor or a list of tensors, checked and as lists of tensors on ``device``.

        Args:
            states: by name, ``signature`` among them, which is to be the digest of this identity.
            device: where the tensors are moved.
            kind: class of the state that the tensors belong to.
            rule: what :meth:`valor_gpu.state.State.check` of it has to know.

        Raises:
            InputError: a state is missing or unknown, a tensor does not fit the schema, or the values cannot be what a
                metric left.
            SyncError: ``signature`` tells of another identity.
        """
        names = [spec.name for spec in self.schema]
        if set(states) != set(names):
            raise InputError(f"the state must hold {', '.join(names)} but holds {', '.join(states) or 'nothing'}")
        parts = {name: list(s) if isinstance(s, (list, tuple)) else [s] for name, s in states.items()}
        for spec in self.schema:
            for part in parts[spec.name]:
                spec.check(part)
                check_dense(f"state field {spec.name}", part)
                if part.is_meta:
                    raise InputError(f"state field {spec.name} must hold data but is on the device meta")
        if not parts["signature"] or parts["signature"][0].tolist() != list(self.digest):
            raise SyncError(f"the state was made by another class or configuration than this {self.metric}")
        moved = {name: [part.detach().to(device) for part in tensors] for name, tensors in parts.items()}
        check_state(kind, moved, [spec for spec in self.schema if spec.name in kind.__dataclass_fields__], rule)
        return moved


def _difference(path: tuple[str, ...], ours: object, theirs: object) -> str:
    """Where two JSON values differ first, in words."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        absent = object()
        for key in (*ours, *theirs):
            mine, other = ours.get(key, absent), theirs.get(key, absent)
            if absent in (mine, other) or json.dumps(mine) != json.dumps(other):
                return _difference((*path, key), ours.get(key), theirs.get(key))
    return f"{'.'.join(path)}: {json.dumps(theirs)} there but {json.dumps(ours)} here"


def _layout(schema: Sequence[Spec], rows: Sequence[int]) -> tuple[list[tuple[int, int]], int]:
    """Start and size in bytes of the row counts and of every field, and the total size."""
    counts = iter(rows)
    sizes = [8 * len(rows), *(s.row_bytes * (next(counts) if s.joined else 1) for s in schema)]
    parts, at = [], 0
    for size in sizes:
        parts.append((at, size))
        at += -(-size // _ALIGN) * _ALIGN
    return parts, at


@device_free
def pack(tensors: Mapping[str, Tensor], schema: Sequence[Spec], device: torch.device | str) -> Tensor:
    """The tensors as one ``uint8 [P]`` on ``device``."""
    rows = [len(tensors[s.name]) for s in schema if s.joined]
    parts, total = _layout(schema, rows)
    out = torch.zeros(total, dtype=torch.uint8, device=device)
    for (at, size), tensor in zip(parts, [torch.tensor(rows, dtype=torch.int64), *(tensors[s.name] for s in schema)]):
        # no view takes the strides that tensors of one element, or none, may have and still be contiguous
        dense = tensor.contiguous().as_strided((tensor.numel(),), (1,))
        out[at : at + size] = dense.view(torch.uint8)
    return out


def unpack(payload: Tensor, schema: Sequence[Spec]) -> dict[str, Tensor]:
    """The tensors in ``payload``, as views of it; bytes after the last one are padding.

    Raises:
        InputError: the row counts do not fit the size of ``payload``.
    """
    joined = sum(s.joined for s in schema)
    if payload.numel() < 8 * joined:
        raise InputError(f"a state must have {joined} row counts but is {payload.numel()} bytes")
    rows = payload[: 8 * joined].view(torch.int64).tolist()
    parts, total = _layout(schema, rows)
    if min(rows, default=0) < 0 or total > payload.numel():
        raise InputError(f"a state of {rows} rows takes {total} bytes but is {payload.numel()} bytes")
    counts = iter(rows)
    tensors = {}
    for spec, (at, size) in zip(schema, parts[1:]):
        shape = (next(counts), *spec.shape) if spec.joined else spec.shape
        tensors[spec.name] = payload[at : at + size].view(spec.dtype).reshape(shape)
    return tensors


def all_gather(tensor: Tensor, group: Any = None) -> list[Tensor]:
    """``tensor`` of every rank of ``group``, all of one shape, on the device of ``tensor``; one collective.

    A backend that cannot take the device of ``tensor`` is given a copy on a device that it can take.
    """
    if dist.get_rank(group) < 0:
        raise SyncError("this rank is not a member of process_group, so it has nothing to synchronise")
    there = tensor.to(_group_device(tensor.device, group)).contiguous()
    buffer = there.new_empty((dist.get_world_size(group), *there.shape))
    dist.all_gather(list(buffer.unbind(0)), there, group=group)
    return list(buffer.to(tensor.device).unbind(0))


def _all_reduce(tensor: Tensor, group: Any) -> Tensor:
    """The sum of ``tensor`` over the ranks of ``group``, on the device of ``tensor``; one collective."""
    there = tensor.to(_group_device(tensor.device, group))
    dist.all_reduce(there, group=group)
    return there.to(tensor.device)


def _group_device(device: torch.device, group: Any) -> torch.device:
    """``device`` when the backend of ``group`` takes it directly, else one that it takes."""
    pairs = [pair.split(":") for pair in dist.get_backend_config(group).split(",")]
    backends = {kind: backend for kind, backend in pairs}
    if (device.type == "cpu" and "cpu" in backends) or backends.get(device.type, "gloo") != "gloo":
        return device
    if "cpu" in backends:
        return torch.device("cpu")
    kind = next(iter(backends))
    return torch.device(kind, torch.get_device_module(kind).current_device())


def exchange(
    make: Callable[[], Mapping[str, Tensor]] | Exception, identity: Identity, gather: Gather, device: torch.device
) -> dict[str, Tensor]:
    """Merges the state of all ranks, in rank order, by two collectives whatever the data.

    The first tells identity and sizes; the second carries the states, or, when a rank failed or has another identity,
    what every rank has to say about itself. So no rank waits for one that raised, and all raise. States of int64 sums
    alone are added up by a reduction, which takes no room for those of other ranks, where ``gather`` is ours.

    Args:
        make: gives the tensors of this rank; when it raises, or is what this rank failed with, all ranks raise.
        identity: what the ranks must agree on.
        gather: returns the tensor of every rank; called twice, with one shape on all ranks.
        device: where the tensors are, and where ``gather`` is given its own.

    Raises:
        SyncError: another rank failed, or a rank has another identity.
    """
    failure = make if isinstance(make, Exception) else None
    payload, error = torch.zeros(0, dtype=torch.uint8, device=device), 0
    ours = isinstance(gather, functools.partial) and gather.func is all_gather
    counts = identity.counts if ours else ()
    if not isinstance(make, Exception):
        try:
            tensors = make()
            payload = pack(tensors, counts or identity.schema, device)
            error = int(tensors["error"]) if counts else 0
        except Exception as raised:
            failure = raised
    note = (identity.text if failure is None else f"{type(failure).__name__}: {failure}").encode()
    word = int.from_bytes(identity.digest[:8], "little", signed=True)
    header = [_PROTOCOL, int(failure is not None), word, payload.numel(), len(note), error]
    heads = [h.tolist() for h in gather(torch.tensor(header, device=device))]
    agreed = all(head[:3] == [_PROTOCOL, 0, word] for head in heads)
    if agreed and counts:
        whole = _all_reduce(payload.view(torch.int64), gather.keywords["group"])  # type: ignore[attr-defined]
        least = torch.tensor(min(head[5] for head in heads), device=device)
        own = torch.tensor(list(identity.digest), device=device)
        return {**unpack(whole.view(torch.uint8), counts), "signature": own, "error": least}
    if not agreed:
        payload = torch.tensor(list(note), dtype=torch.uint8, device=device)
    size = max(head[3 if agreed else 4] for head in heads)
    gathered = gather(torch.nn.functional.pad(payload, (0, size - payload.numel())))
    if failure is not None:
        raise failure
    if not agreed:
        _raise_disagreement(heads, gathered, identity)
    parts = [unpack(part, identity.schema) for part in gathered]
    return {s.name: merge_tensors(s.merge, [part[s.name] for part in parts]) for s in identity.schema}


def _raise_disagreement(heads: Sequence[Sequence[int]], gathered: Sequence[Tensor], identity: Identity) -> None:
    """Raises for the first rank that failed, else for the first whose identity differs from another's."""
    notes = [bytes(part[: head[4]].tolist()).decode(errors="replace") for head, part in zip(heads, gathered)]
    for rank, (head, note) in enumerate(zip(heads, notes)):
        if head[0] == _PROTOCOL and head[1]:
            raise SyncError(f"{identity.metric} was not synchronised: rank {rank} failed with {note}")
    for rank, (head, note) in enumerate(zip(heads, notes)):
        if head[0] != _PROTOCOL:
            raise SyncError(
                f"rank {rank} speaks protocol {head[0]} but this one {_PROTOCOL}: use one release everywhere"
            )
        identity.check(note, f"{identity.metric} was not synchronised: rank {rank}")
    raise SyncError(f"{identity.metric} was not synchronised: the ranks disagree")


@dataclass(frozen=True)
class Gathered:
    """What an exchange found, and the state of this rank and the way that it was gathered from.

    Attributes:
        way: how it was gathered: the gather function and the process group.
        local: state of this rank by name, row tensors in lists.
        tensors: the merged state of all ranks by name.
    """

    way: tuple[Any, ...]
    local: Mapping[str, Any]
    tensors: Mapping[str, Tensor]

    def serves(self, way: tuple[Any, ...], local: Mapping[str, Any]) -> bool:
        """Whether gathering ``local`` by ``way`` would find nothing new on this rank.

        States are compared by identity: no tensor is changed in place, and rows are only ever appended.
        """
        return way == self.way and all(_same(now, local[name]) for name, now in self.local.items())


def _same(one: Tensor | list[Tensor], other: Tensor | list[Tensor]) -> bool:
    if isinstance(one, list):
        return len(one) == len(other) and all(a is b for a, b in zip(one[-1:], other[-1:]))
    return one is other


def dump_state(tensors: Mapping[str, Tensor], identity: Identity, updates: int) -> bytes:
    """A state file: magic, format version, header length, JSON header, packed tensors, CRC-32; little endian.

    Args:
        tensors: the state.
        identity: written along, so that another configuration can refuse the file.
        updates: how many batches the state holds.
    """
    payload = pack(tensors, identity.schema, "cpu").numpy().data
    about = {"identity": identity.text, "updates": updates, "bytes": len(payload), "byteorder": sys.byteorder}
    header = json.dumps(about).encode()
    head = _PREFIX.pack(_MAGIC, _FORMAT, len(header)) + header
    return b"".join((head, payload, _CRC.pack(zlib.crc32(payload, zlib.crc32(head)))))


def load_state(data: Buffer, identity: Identity) -> tuple[dict[str, Tensor], int]:
    """The tensors of a state file, on the CPU, and its count of updates.

    Raises:
        InputError: ``data`` is no state file, of another format version, truncated or damaged.
        SyncError: the state was made by another metric or configuration.
    """
    check_type("data", data, (bytes, bytearray, memoryview))
    whole = memoryview(data).cast("B")
    if len(whole) < _PREFIX.size or bytes(whole[:8]) != _MAGIC:
        raise InputError(f"data must be a valor_gpu state but starts with {bytes(whole[:8])!r}")
    _, version, length = _PREFIX.unpack_from(whole)
    if version != _FORMAT:
        raise InputError(f"data must be of state format {_FORMAT} but is of format {version}")
    start = _PREFIX.size + length
    about = _read_header(whole[_PREFIX.size : start], length)
    end = start + about["bytes"]
    if len(whole) != end + _CRC.size:
        raise InputError(f"data must be {end + _CRC.size} bytes, as its header says, but is {len(whole)} bytes")
    if _CRC.unpack_from(whole, end)[0] != zlib.crc32(whole[:end]):
        raise InputError("data is damaged: its checksum must match its content but does not")
    identity.check(about["identity"], "the state")
    if about["byteorder"] != sys.byteorder:
        raise InputError(f"data must be {sys.byteorder} endian like this machine but is {about['byteorder']} endian")
    payload = torch.frombuffer(bytearray(whole[start:end]), dtype=torch.uint8)
    return unpack(payload, identity.schema), identity.count(about["updates"])


def _read_header(raw: memoryview, length: int) -> dict[str, Any]:
    """The JSON header of a state file."""
    if len(raw) != length:
        raise InputError(f"data is truncated: its header must be {length} bytes but {len(raw)} are there")
    try:
        about = json.loads(bytes(raw))
        kinds = {"identity": str, "updates": int, "bytes": int, "byteorder": str}
        sound = all(isinstance(about[key], kind) for key, kind in kinds.items()) and json.loads(about["identity"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError("data is damaged: its header must be JSON but cannot be read") from error
    if not sound:
        raise InputError("data is damaged: its header holds values of other kinds than expected")
    return about  # type: ignore[no-any-return]
