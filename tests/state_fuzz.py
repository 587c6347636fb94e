"""Changes states at random, and serves the plain references instead of kernels."""

from __future__ import annotations

import json
import math
import struct
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.contract import Case, updated
from valor_gpu import ops
from valor_gpu.metric import Metric
from valor_gpu.ops import _library

_NUMBERS = (0, 1, -1, 2, 7, 255, 2**31 - 1, 2**31, -(2**31), 2**53 + 1, 10**9, 2**62, -(2**63), 2**63 - 1)
_FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, 1e-320, 1e60, 1e300, math.inf, -math.inf, math.nan, 2.0**53, 3.5, 1e9)

States = dict[str, Tensor]
Change = Callable[[np.random.Generator, States], None]


def _field(rng: np.random.Generator, states: States, rows: bool = False) -> str | None:
    """A field with elements, of ``rows`` if wanted; the data before the error code, the signature never."""
    names = [n for n, t in states.items() if t.numel() and n != "signature" and (not rows or (t.ndim and len(t) > 1))]
    data = [name for name in names if name != "error"]
    choices = data if data and rng.random() < 0.95 else names
    return str(rng.choice(choices)) if choices else None


def _set_value(rng: np.random.Generator, states: States) -> None:
    if name := _field(rng, states):
        flat = states[name].reshape(-1)
        index = int(rng.integers(flat.numel()))
        if flat.is_floating_point():
            flat[index] = torch.tensor(float(rng.choice(_FLOATS)), dtype=torch.float64).to(flat.dtype)
        else:
            top = torch.iinfo(flat.dtype)
            flat[index] = min(max(int(rng.choice(np.array(_NUMBERS, object))), top.min), top.max)


def _add_little(rng: np.random.Generator, states: States) -> None:
    if name := _field(rng, states):
        flat = states[name].reshape(-1)
        index = int(rng.integers(flat.numel()))
        flat[index] = flat[index] + (1 if rng.random() < 0.5 else -1)


def _flip_bits(rng: np.random.Generator, states: States) -> None:
    if name := _field(rng, states):
        raw = states[name].reshape(-1).view(torch.uint8)
        for index in rng.integers(raw.numel(), size=int(rng.integers(1, 4))):
            raw[index] ^= 1 << int(rng.integers(8))


def _random_row(rng: np.random.Generator, states: States) -> None:
    if name := _field(rng, states, rows=True):
        row = states[name][int(rng.integers(len(states[name])))].reshape(-1).view(torch.uint8)
        row.copy_(torch.from_numpy(rng.integers(0, 256, row.numel()).astype(np.uint8)))


def _choose_rows(rng: np.random.Generator, states: States) -> None:
    """Rows of one table left out, doubled, shuffled or cut off."""
    if name := _field(rng, states, rows=True):
        size = len(states[name])
        kinds = (
            rng.permutation(size),
            np.delete(np.arange(size), rng.integers(size)),
            np.insert(np.arange(size), rng.integers(size), rng.integers(size)),
            np.arange(rng.integers(size)),
            np.arange(0),
        )
        states[name] = states[name][torch.from_numpy(kinds[int(rng.integers(len(kinds)))])]


def _swap_columns(rng: np.random.Generator, states: States) -> None:
    if (name := _field(rng, states, rows=True)) and states[name].ndim > 1:
        order = torch.from_numpy(rng.permutation(states[name].shape[1]))
        states[name] = states[name][:, order].contiguous()


def _clear(rng: np.random.Generator, states: States) -> None:
    if name := _field(rng, states):
        states[name] = torch.zeros_like(states[name])


CHANGES: tuple[Change, ...] = (
    _set_value, _set_value, _add_little, _flip_bits, _random_row, _choose_rows, _swap_columns, _clear,
)  # fmt: skip


def changed_state(rng: np.random.Generator, metric: Metric[Any]) -> States:
    """The tensors of ``metric``, changed once or a few times."""
    states = {name: tensor.clone() for name, tensor in metric._tensors(metric._schema).items()}
    for _ in range(int(rng.integers(1, 4))):
        CHANGES[int(rng.integers(len(CHANGES)))](rng, states)
    return states


def changed_bytes(rng: np.random.Generator, metric: Metric[Any]) -> bytes:
    """A state file whose payload, or count of updates, was changed, with a checksum that is right."""
    data = bytearray(metric.to_bytes())
    length = struct.unpack_from("<I", data, 12)[0]
    start = 16 + length
    about = json.loads(bytes(data[16:start]))
    payload = bytearray(data[start : start + about["bytes"]])
    if rng.random() < 0.05:
        about["updates"] = [-1, 2**70, True, 0][int(rng.integers(4))]
    words = np.frombuffer(payload, np.int64)
    for _ in range(int(rng.integers(1, 4))):
        if rng.random() < 0.5 and len(words):
            words[int(rng.integers(len(words)))] = int(rng.choice(np.array(_NUMBERS, object)))
        else:
            payload[int(rng.integers(len(payload)))] = int(rng.integers(256))
    header = json.dumps(about).encode()
    whole = bytes(data[:12]) + struct.pack("<I", len(header)) + header + bytes(payload)
    return whole + struct.pack("<I", zlib.crc32(whole))


def load_changed(way: str, rng: np.random.Generator, source: Metric[Any], metric: Metric[Any]) -> None:
    """Load a changed state of ``source`` into ``metric``; raises what the metric raises.

    Args:
        way: ``merge_state`` of tensors, ``load_state_dict``, or ``from_bytes``.
        rng: says what is changed.
        source: a metric with data.
        metric: what loads.
    """
    if way == "from_bytes":
        metric.from_bytes(changed_bytes(rng, source))
        return
    states = changed_state(rng, source)
    lists = {name: [tensor] if metric._merge[name] == "cat" else tensor for name, tensor in states.items()}
    if way == "merge_state":
        metric.merge_state(lists)
        return
    metric.persistent(True)
    metric.load_state_dict({**lists, "update_count": torch.tensor(3)})


def metric_with_data(case: Case, rng: np.random.Generator) -> Metric[Any]:
    """A metric of the table after two batches."""
    first = int(rng.integers(50))
    return updated(case.make(), [case.batch(first), case.batch(first + 1)])


@cache
def definitions() -> list[tuple[ModuleType, str, Callable[..., Any]]]:
    """Modules of ops, the names of the ops in them, and what defines each."""
    ops.backends()  # imports every module of ops
    modules = [module for name, module in sys.modules.items() if name.startswith("valor_gpu.ops.")]
    return [
        (module, name, _library.reference(value._schema.name.split("::")[1]))
        for module in modules
        for name, value in vars(module).items()
        if isinstance(value, torch._ops.OpOverload) and value.namespace == _library.NAMESPACE
    ]


@contextmanager
def references() -> Iterator[None]:
    """Let every op be computed by its plain definition, called without the dispatcher."""
    with pytest.MonkeyPatch.context() as patch:
        for module, name, definition in definitions():
            patch.setattr(module, name, definition)
        yield
