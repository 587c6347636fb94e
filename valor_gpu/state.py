"""State: the frozen sufficient statistics of a metric, and how two of them become one."""

from __future__ import annotations

import functools
import json
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np
import torch
from torch import Tensor

from valor_gpu.digests import COUNTS_ALONE, DataHashes
from valor_gpu.errors import InputError, SyncError
from valor_gpu.ops.error_codes import NO_ERROR
from valor_gpu.row_digests import multiset_hash

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from typing_extensions import Self

ROUNDING = 1e-6
"""Relative error that sums of weights are given in comparisons of the fields of a state."""

MAX_SUM = 1e80
"""Limit of counts and sums of weights in a state, far above what any data reach and far below overflow."""


_device_of = operator.attrgetter("device")


def _concatenate(parts: Sequence[Tensor]) -> Tensor:
    """The rows of all parts; on the CPU by numpy, since torch's threads stall where all cores are busy."""
    if len(parts) == 1:
        return parts[0]
    if all(part.is_cpu and part.dtype != torch.bfloat16 for part in parts):
        return torch.from_numpy(np.concatenate([part.detach().numpy() for part in parts]))
    return torch.cat(list(parts))


_MERGE: dict[str, Callable[[Sequence[Tensor]], Tensor]] = {
    "sum": lambda parts: functools.reduce(torch.add, parts),
    "cat": _concatenate,
    "min": lambda parts: functools.reduce(torch.minimum, parts),
}


def summed() -> Any:
    """A field that two batches combine by addition, any shape; of integers, it is exact in any grouping."""
    return field(metadata={"merge": "sum"})


def joined() -> Any:
    """A field of rows ``[N, ...]`` that two batches combine by concatenation, in order."""
    return field(metadata={"merge": "cat"})


def least() -> Any:
    """A field that two batches combine by the element-wise minimum, any shape."""
    return field(metadata={"merge": "min"})


def merge_tensors(merge: str, parts: Sequence[Tensor]) -> Tensor:
    """One tensor out of at least one, left to right, by ``merge``: ``sum``, ``cat`` or ``min``."""
    return parts[0] if len(parts) == 1 else _MERGE[merge](parts)


def plain(tensor: Tensor) -> Tensor:
    """``tensor`` without gradient, as a Tensor of torch itself: what a subclass carries along is no part of a state."""
    tensor = tensor.detach()
    kind = type(tensor)
    if kind is Tensor or kind.__torch_dispatch__ is not Tensor.__torch_dispatch__:  # one without memory of its own
        return tensor
    return tensor.as_subclass(Tensor)


def array_of(tensor: Tensor) -> NDArray[Any]:
    """The array of a tensor on any device; of bfloat16, which numpy lacks, its bits."""
    there = tensor.detach().cpu()
    found: NDArray[Any] = (there.view(torch.int16) if there.dtype == torch.bfloat16 else there).numpy()
    return found


@dataclass(frozen=True)
class Spec:
    """What one tensor of a state is, whatever the data.

    Attributes:
        name: the field.
        merge: ``sum``, ``cat`` or ``min``; also the reducer that torchmetrics gets.
        dtype: the dtype, which merging never changes.
        shape: the shape; of a joined field, the shape of one row.
    """

    name: str
    merge: str
    dtype: torch.dtype
    shape: tuple[int, ...]

    @property
    def joined(self) -> bool:
        """Whether the tensor is made of rows."""
        return self.merge == "cat"

    @property
    def row_bytes(self) -> int:
        """Bytes of one row, or of the whole tensor when it is not made of rows."""
        return math.prod(self.shape) * self.dtype.itemsize

    def identity(self, device: torch.device | str = "cpu") -> Tensor:
        """The tensor that changes nothing when merged: no rows, zeros, or the largest value of the dtype."""
        if self.joined:
            return torch.zeros((0, *self.shape), dtype=self.dtype, device=device)
        if self.merge == "sum":
            return torch.zeros(self.shape, dtype=self.dtype, device=device)
        top = math.inf if self.dtype.is_floating_point else torch.iinfo(self.dtype).max
        return torch.full(self.shape, top, dtype=self.dtype, device=device)

    def whole(self, held: Tensor | list[Tensor], device: torch.device) -> Tensor:
        """One tensor on ``device`` of what a metric holds: a tensor, or a list of tensors of rows."""
        if type(held) is not list:
            tensor: Tensor = held  # type: ignore[assignment]
            return tensor if tensor.device == device else tensor.to(device)
        elsewhere = not {device}.issuperset(map(_device_of, held))
        parts = [part.to(device) for part in held] if elsewhere else held
        return merge_tensors(self.merge, parts) if parts else self.identity(device)

    def holds_nothing(self, value: Tensor) -> bool:
        """Whether ``value`` is :meth:`identity`, on any device."""
        if self.joined:
            return len(value) == 0
        if self.merge == "sum":
            return value.count_nonzero().item() == 0  # in half the time of any()
        return torch.equal(value.cpu(), self.identity())

    def check(self, value: object) -> None:
        """Raises :class:`InputError` unless ``value`` is a Tensor of this dtype and shape, with any number of rows."""
        if not isinstance(value, Tensor):
            raise InputError(f"state field {self.name} must be a Tensor but got {type(value).__name__}")
        shape = tuple(value.shape[1:] if self.joined else value.shape)
        if value.dtype != self.dtype or value.ndim < self.joined or shape != self.shape:
            raise InputError(f"state field {self.name} must be {self} but got {value.dtype} {list(value.shape)}")

    def __str__(self) -> str:
        return self._text

    @functools.cached_property
    def member(self) -> str:
        """What an identity tells of the field: a member of a JSON object."""
        return f"{json.dumps(self.name)}:{json.dumps(f'{self.merge} of {self}')}"

    @functools.cached_property
    def _text(self) -> str:
        sizes = ("N", *self.shape) if self.joined else self.shape
        return f"{str(self.dtype).removeprefix('torch.')} [{', '.join(map(str, sizes))}]"


@dataclass(frozen=True)
class State:
    """Base of the sufficient statistics of a metric: a frozen dataclass of tensors.

    Every field is declared by :func:`summed`, :func:`joined` or :func:`least`. ``merge`` is associative and the empty
    state is its identity, on either side. Tensors are never changed in place, so states may share them.

    Example:
        >>> @dataclass(frozen=True)
        ... class Scores(State):
        ...     score: Tensor = joined()  # float64 [N]
        ...     hits: Tensor = summed()  # int64 []
        >>> a = Scores(torch.tensor([0.5, 0.25]), torch.tensor(1))
        >>> a.merge(Scores(torch.tensor([1.0]), torch.tensor(2)))
        Scores(score=tensor([0.5000, 0.2500, 1.0000]), hits=tensor(3))
        >>> a.merge(a.empty()).score.tolist() == a.empty().merge(a).score.tolist() == a.score.tolist()
        True
    """

    hashed: ClassVar[str | None] = None
    """What :meth:`hashes` are of, ``rows`` or ``images``; None: the state cannot tell which data it is of."""
    row_fields: ClassVar[tuple[str, ...]] = ()
    """Joined fields with one row for each row of the data, in the same order; a field without rows was not given."""
    truth_fields: ClassVar[tuple[str, ...]] = ()
    """Those among them that hold what is true."""

    def hashes(self) -> DataHashes:
        """Returns hashes of the data, which no order of updates, batches or ranks changes."""
        if self.hashed is None:
            return DataHashes.none(COUNTS_ALONE)
        columns = {name: array_of(getattr(self, name)) for name in self.row_fields}
        columns = {name: column for name, column in columns.items() if len(column)}
        rows = multiset_hash(f"{type(self).__name__} predictions", columns)
        if not self.truth_fields:
            reason = f"the state keeps what came out of the {self.hashed}, not their truths"
            return DataHashes(self.hashed, None, rows, {"ground_truth": reason})
        truths = {name: columns[name] for name in self.truth_fields if name in columns}
        return DataHashes(self.hashed, multiset_hash(f"{type(self).__name__} truths", truths), rows)

    def tensors(self) -> dict[str, Tensor]:
        """The fields by name, in the order of declaration."""
        return {name: getattr(self, name) for name in _names(type(self))}

    def schema(self) -> tuple[Spec, ...]:
        """What each field is; equal for every state of one metric configuration.

        Raises:
            InputError: a field is not declared by ``summed``, ``joined`` or ``least``, or holds no fitting tensor.
        """
        return tuple(_spec(f.name, f.metadata, getattr(self, f.name)) for f in fields(self))

    def empty(self) -> Self:
        """The state without data of the same schema, on the CPU."""
        return type(self)(**{spec.name: spec.identity() for spec in self.schema()})

    def merge(self, other: Self) -> Self:
        """This state followed by ``other``, on the device of this one.

        Raises:
            SyncError: ``other`` is of another class.
            InputError: a field of ``other`` has another dtype or shape.
        """
        if type(other) is not type(self):
            raise SyncError(f"a {type(self).__name__} merges with its own kind but got {type(other).__name__}")
        merged = {}
        for spec in self.schema():
            ours, theirs = getattr(self, spec.name), getattr(other, spec.name)
            spec.check(theirs)
            merged[spec.name] = merge_tensors(spec.merge, (ours, theirs.to(ours.device)))
        return type(self)(**merged)

    def check(self, rule: Any) -> None:
        """Raises :class:`InputError` unless the values are such as ``update`` leaves; metrics check what they load.

        A state file, a checkpoint or another process may hold anything, and kernels index by what tables hold. So a
        subclass looks at every number that a table is indexed by, that two fields must agree on, or that would make a
        result meaningless.

        Args:
            rule: what the metric tells of its configuration.
        """

    def to(self, device: torch.device | str) -> Self:
        """The same state on ``device``."""
        return type(self)(**{name: tensor.to(device) for name, tensor in self.tensors().items()})


_State = TypeVar("_State", bound=State)


def on_host(state: _State) -> _State:
    """Returns a state with all fields on the CPU but those of rows, by one copy from a device."""
    held = {name: tensor for name, tensor in state.tensors().items() if name not in state.row_fields}
    if all(tensor.is_cpu for tensor in held.values()):
        return state
    fields = sorted(held.items(), key=lambda item: -item[1].element_size())  # so that each is aligned
    packed = torch.cat([tensor.reshape(-1).view(torch.uint8) for _, tensor in fields]).cpu()
    parts = packed.split([tensor.nbytes for _, tensor in fields])
    copied = {name: part.view(tensor.dtype).view(tensor.shape) for (name, tensor), part in zip(fields, parts)}
    return replace(state, **copied)


_FIELD_NAMES: dict[type[State], tuple[str, ...]] = {}


def _names(kind: type[State]) -> tuple[str, ...]:
    """The fields of a state: looking them up takes longer than reading them. torch.compile cannot trace lru_cache."""
    if kind not in _FIELD_NAMES:
        _FIELD_NAMES[kind] = tuple(f.name for f in fields(kind))
    return _FIELD_NAMES[kind]


def check_elements(name: str, values: Tensor, good: Tensor, need: str) -> None:
    """Raises :class:`InputError` that names the first element or row of a state field that is not good.

    Args:
        name: the field.
        values: the field.
        good: bool, in the shape of ``values`` or of its first dimensions.
        need: what an element must be, for example ``"be 0 or 1"``.
    """
    if not bool(good.all()):
        index = (~good).nonzero()[0].tolist()
        raise InputError(f"state field {name}{index or ''} must {need} but is {values[tuple(index)].tolist()}")


def check_sums(name: str, values: Tensor) -> None:
    """Raises :class:`InputError` unless all of a state field are counts or sums of weights, from 0 to ``MAX_SUM``."""
    check_elements(name, values, (values >= 0) & (values <= MAX_SUM), f"be from 0 to {MAX_SUM:g}")


def check_rows(name: str, values: Tensor, rows: int, like: str) -> None:
    """Raises :class:`InputError` unless a state field has so many rows, which ``like`` tells."""
    if len(values) != rows:
        raise InputError(f"state field {name} must have {rows} rows, as {like} says, but has {len(values)}")


def check_state(kind: type[State], parts: Mapping[str, Sequence[Tensor]], schema: Sequence[Spec], rule: Any) -> None:
    """Raises :class:`InputError` unless a foreign state can be what a metric left; see :meth:`State.check`.

    A state whose error code is set is not looked at any further, since every ``compute`` of it raises.

    Args:
        kind: class of the state.
        parts: tensors of every field by name, and under ``error`` the error code.
        schema: the fields of ``kind``.
        rule: handed on to :meth:`State.check`.
    """
    error = min((int(part) for part in parts["error"]), default=NO_ERROR)
    if error < 0:
        raise InputError(f"state field error must be an error code but is {error}")
    if error == NO_ERROR:
        whole = {s.name: merge_tensors(s.merge, parts[s.name]) if parts[s.name] else s.identity() for s in schema}
        kind(**whole).check(rule)


def _spec(name: str, metadata: Mapping[str, Any], value: object) -> Spec:
    if metadata.get("merge") not in _MERGE:
        raise InputError(f"state field {name} must be declared by summed(), joined() or least()")
    if not isinstance(value, Tensor):
        raise InputError(f"state field {name} must be a Tensor but got {type(value).__name__}")
    merge = metadata["merge"]
    if merge == "cat" and value.ndim == 0:
        raise InputError(f"state field {name} must be rows [N, ...] but has no dimension")
    return _shared_spec(name, merge, value.dtype, tuple(value.shape[1:] if merge == "cat" else value.shape))


@functools.lru_cache(maxsize=1024)
def _shared_spec(name: str, merge: str, dtype: torch.dtype, shape: tuple[int, ...]) -> Spec:
    """Metrics of one class have equal specs, whose description is written once."""
    return Spec(name, merge, dtype, shape)
