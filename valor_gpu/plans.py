"""Plans: updates of small batches on the CPU, and of any batch on CUDA, in one native call.

The checks, small tensor operations and wrappers of ``update`` take ten times as long as eight rows take to count. So a
metric may name a *planner*: a function that looks at the arguments of ``update`` and either gives the state after the
batch, in new tensors, or None. With None, for whatever reason, nothing has happened and the checked path runs, which
also writes every error message. Nothing is changed in place. Design: docs/design/032-small-updates.md.
"""

from __future__ import annotations

import functools
import struct
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import is_, itemgetter
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from valor_gpu import native
from valor_gpu.attributes import owner
from valor_gpu.computed import finished_compute
from valor_gpu.ops._launch import capturing
from valor_gpu.state import Spec, merge_tensors

MAX_ELEMENTS = 1 << 14
"""Most elements of a tensor that a plan takes: of larger ones the checked path is faster, since it uses all cores."""

_MAX_FORMS = 64  # plans that a metric keeps: batches of ever new sizes must not fill the memory


class Step(NamedTuple):
    """What an update does to a state.

    Attributes:
        tensors: fields after the batch, new ones: all that are summed, or reduced otherwise.
        rows: of joined fields, the rows to append.
    """

    tensors: Mapping[str, Any]
    rows: Sequence[tuple[str, Tensor]] = ()


Planner = Callable[[Mapping[str, Any], tuple[Any, ...], dict[str, Any]], "Step | None"]
"""From the fields of a state by name and the arguments of ``update`` to a step, or None for the checked path."""

Plan = Callable[[Mapping[str, Any], Tensor, Tensor], "Step | None"]
"""A planner for tensors of one form."""


class Form(NamedTuple):
    """Dtypes, shapes and device for which a plan is made; the tensors are dense, contiguous and not empty."""

    preds: torch.dtype
    preds_shape: torch.Size
    target: torch.dtype
    target_shape: torch.Size
    device: torch.device | None = None
    """The CUDA device; None for the CPU."""

    @property
    def on_cpu(self) -> bool:
        """Whether the tensors lie on the CPU."""
        return self.device is None


class _Switch:
    on = True


@contextmanager
def checked_only() -> Iterator[None]:
    """Without plans and other short ways: updates take the checked path. For tests and measurements."""
    before, _Switch.on = _Switch.on, False
    try:
        yield
    finally:
        _Switch.on = before


def switched_on() -> bool:
    """Whether short ways may be taken: not within :func:`checked_only`."""
    return _Switch.on


# ------------------------------------------------------------------------------------------------- updates with plans

_compiling = torch.compiler.is_compiling
_dispatch_modes: Callable[[], int] = torch._C._len_torch_dispatch_stack
_function_modes: Callable[[], int] = torch._C._len_torch_function_stack
_tracing: Callable[[], Any] = torch._C._get_tracing_state


def applicable(state: dict[str, Any]) -> bool:
    """Whether plans may run now: nothing watches or records what torch does, and the metric is local.

    Args:
        state: ``__dict__`` of the metric.
    """
    return not (
        _compiling() or not _Switch.on or _dispatch_modes() or _function_modes() or _tracing() is not None
        or state["_is_synced"]
    )  # fmt: skip


def commit(state: dict[str, Any], step: Step) -> None:
    """Lets ``state``, the ``__dict__`` of a metric, hold what a step gave, and counts the update; all or nothing."""
    count = state["_update_count"]
    if not step.rows:
        state.update(step.tensors, _computed=None, _merged=None, _update_count=count + 1)
        return
    lengths = [(name, len(state[name])) for name, _ in step.rows]
    try:
        for name, rows in step.rows:
            state[name].append(rows)
        state.update(step.tensors, _computed=None, _merged=None, _update_count=count + 1)
    except BaseException:
        if state["_update_count"] == count:  # else an interrupt came after the last line
            for name, length in lengths:
                del state[name][length:]
        raise


class Planned:
    """Gives the ``update`` of a metric plans, as a base of :class:`valor_gpu.metric.Metric`."""

    dist_sync_on_step: bool
    _defaults: dict[str, Any]
    _merge: Mapping[str, str]
    signature: Tensor
    error: Tensor
    _check_error: Callable[[], None]
    _fields: tuple[Spec, ...]
    _schema: tuple[Spec, ...]
    _plan_methods: ClassVar[tuple[str, ...]] = ("update", "_add")
    """What plans stand for: a subclass that replaces one of these methods has no plans, unless it names a planner."""

    def _planner(self) -> Planner | None:
        """The planner of this metric, or None; asked once for every copy of the metric, at its first update."""
        return None

    def _with_plans(self, checked: Callable[..., None], named: Callable[..., Any]) -> Callable[..., None]:
        """An update that takes the step of a plan where there is one, and else the checked path; ``named`` names it.

        Plans live in the function, so that they are in no copy, pickle or checkpoint.
        """
        kind, state = type(self), self.__dict__
        if kind._planner is Planned._planner or not _as_written(kind):  # type: ignore[arg-type]
            return functools.wraps(named)(checked)
        planner: Planner | None = None
        on_cuda = False

        def step(base: Mapping[str, Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Step | None:
            nonlocal planner, on_cuda
            if not applicable(state):
                return None
            if planner is None:
                planner = self._planner() or _never
                on_cuda = getattr(planner, "on_cuda", False)
            # With compute_on_cpu the checked path moves rows to the CPU, so that none fill the memory of a GPU.
            if not state["error"].is_cpu and (not on_cuda or state["compute_on_cpu"]):
                return None
            return planner(base, args, kwargs)

        @functools.wraps(named)
        def update(*args: Any, **kwargs: Any) -> None:
            taken = step(state, args, kwargs)
            if taken is None:
                checked(*args, **kwargs)
            else:
                commit(state, taken)

        update.step = step  # type: ignore[attr-defined]
        return update

    def _planned_forward(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any] | None:
        """What ``forward`` gives where a plan serves its batch, in a tuple; the state is then that with the batch."""
        state = self.__dict__
        if (plan := getattr(state["update"], "step", None)) is None or self.dist_sync_on_step:
            return None
        if (batch := plan(self._defaults, args, kwargs)) is None:
            return None
        saved = {name: state[name] for name in self._merge}
        rows = {name: [tensor] for name, tensor in batch.rows}
        try:
            state.update(_empty(self._defaults), **batch.tensors, **rows)
            if not self.error.is_cpu:  # where a plan does not look at the error
                self._check_error()
            value = finished_compute(self)
        finally:
            state.update(saved)
        merged = {name: merge_tensors(self._merge[name], (saved[name], new)) for name, new in batch.tensors.items()}
        # New lists: metrics of a MetricCollection hold the same ones, and each of them has a forward.
        merged |= {name: [*saved[name], new] for name, new in batch.rows}
        commit(state, Step(merged))
        state["_forward_cache"] = value
        return (value,)


def _empty(defaults: Mapping[str, Any]) -> dict[str, Any]:
    """A state without data."""
    return {name: default if isinstance(default, Tensor) else [] for name, default in defaults.items()}


def _never(base: Mapping[str, Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Step | None:
    return None


@functools.cache
def _as_written(kind: type[Planned]) -> bool:
    """Whether no subclass has replaced a method that the plans of ``kind`` stand for."""
    return all(issubclass(owner(kind, "_planner"), owner(kind, name)) for name in kind._plan_methods)


# ------------------------------------------------------------------------------------------------- plans of two tensors


def pair_planner(
    state: dict[str, Any],
    choices: Sequence[str],
    make: Callable[[Form], Plan | None],
    most: int = MAX_ELEMENTS,
    cuda: Callable[[Form], Plan | None] | None = None,
) -> Planner:
    """A planner for ``update(preds, target)`` that keeps one plan for every form.

    Args:
        state: ``__dict__`` of the metric.
        choices: attributes that plans depend on: plans are made again when one of them is another object. At least two.
        make: gives the plan of a form on the CPU, or None.
        most: elements of a tensor that a plan takes on the CPU.
        cuda: as ``make`` for CUDA tensors, of which a plan takes any number of elements.
    """
    plans: dict[Any, Plan | None] = {}
    chosen = itemgetter(*choices)
    held = chosen(state)

    def step(base: Mapping[str, Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Step | None:
        nonlocal held
        if kwargs or len(args) != 2:
            preds, target = _named(args, kwargs)
        else:
            preds, target = args
        if type(preds) not in _TYPES or type(target) not in _TYPES:
            return None
        if not all(map(is_, held, now := chosen(state))):
            plans.clear()
            held = now
        key: tuple[Any, ...] = (preds.dtype, preds.shape, target.dtype, target.shape)
        # Of plans without fields, the error alone tells where the state lies.
        if not (preds.is_cpu and target.is_cpu and base["error"].is_cpu):
            if cuda is None or not preds.is_cuda or (device := preds.device) != target.device or capturing():
                return None
            key += (device,)
        try:
            plan = plans[key]
        except KeyError:
            if len(plans) >= _MAX_FORMS:
                plans.clear()
            size, maker = (most, make) if len(key) == _OF_CPU or cuda is None else (_ANY, cuda)
            plan = plans[key] = maker(Form(*key)) if _small(size, preds, target) else None
        if plan is None or not (is_plain(preds) and is_plain(target)):
            return None
        return plan(base, preds, target)

    step.on_cuda = cuda is not None  # type: ignore[attr-defined]
    return step


def _named(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
    """``preds`` and ``target`` however they were given; None twice where there is anything else."""
    given = {**dict(zip(("preds", "target", "sample_weight"), args)), **kwargs}
    complete = len(given) == len(args) + len(kwargs)  # else an argument came twice, or there were too many
    weight = given.pop("sample_weight", None)
    return (given["preds"], given["target"]) if complete and weight is None and given.keys() == _PAIR else (None, None)


_PAIR = {"preds", "target"}
_OF_CPU = 4  # parts of a key without a device
_ANY = sys.maxsize
_TYPES = {Tensor}  # others may do more than torch does; tests add tensors that say they lie on a GPU


def _small(most: int, *tensors: Tensor) -> bool:
    return all(0 < tensor.numel() <= most for tensor in tensors)


def is_plain(tensor: Tensor) -> bool:
    """Whether the memory of a tensor holds its values in order."""
    return tensor.layout is torch.strided and tensor.is_contiguous() and not tensor.is_neg()


# ------------------------------------------------------------------------------------------------------- native plans

_address = Tensor.data_ptr
_new = torch.empty_like
_ACTIVATION = 24  # byte of a SmallBatch where its activation stands
_WHEN_OUTSIDE, _LOGITS = struct.pack("q", 1), struct.pack("q", 3)  # Activation in csrc/cpu/small_batch.h


class Field(NamedTuple):
    """A field of a state that a native plan reads and writes anew."""

    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]


def native_plan(
    call: Callable[[bytes, bytes], int],
    words: bytes,
    fields: Sequence[Field],
    rows: Mapping[str, Tensor] | None = None,
    activate: Callable[[Tensor], Tensor] | None = None,
) -> Plan:
    """A plan that is one call of a function of csrc/cpu: from the old state and a batch to new memory.

    Args:
        call: see :func:`valor_gpu.native.update_function`; takes the words, and the addresses of predictions, target,
            old fields, new fields and rows.
        words: a SmallBatch of csrc/cpu/small_batch.h, and what else the function has to know.
        fields: of the state, read and written anew.
        rows: tensors of the dtype and shape of the rows that are appended to joined fields.
        activate: what scores go through where the function asks for it.
    """
    names, templates = tuple(field.name for field in fields), tuple((rows or {}).values())
    pack = struct.Struct(f"{2 + 2 * len(fields) + len(templates)}Q").pack
    done = _LOGITS if words[_ACTIVATION : _ACTIVATION + 8] == _WHEN_OUTSIDE else bytes(8)
    activated = words[:_ACTIVATION] + done + words[_ACTIVATION + 8 :]

    def plan(base: Mapping[str, Any], preds: Tensor, target: Tensor) -> Step | None:
        old = [base[name] for name in names]
        for tensor, field in zip(old, fields):
            if not _fits(tensor, field):
                return None
        new, made = [*map(_new, old)], [*map(_new, templates)]
        try:
            addresses = [*map(_address, (preds, target, *old, *new, *made))]
        except RuntimeError:  # a tensor of torch.func without memory of its own
            return None
        if not all(addresses):
            return None
        status = call(words, pack(*addresses))
        if status == native.ACTIVATE and activate is not None:
            probabilities = activate(preds.detach())  # held while its memory is read
            status = call(activated, pack(_address(probabilities), *addresses[1:]))
        if status:
            return None
        return Step(dict(zip(names, new)), tuple(zip(rows, made)) if rows else ())

    return plan


def _fits(tensor: Tensor, field: Field) -> bool:
    """Whether native code may read a tensor of a state, which users can replace."""
    _, dtype, shape = field
    return tensor.dtype is dtype and tensor.shape == shape and tensor.is_cpu and is_plain(tensor)
