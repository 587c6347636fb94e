"""Base class of all metrics: a ``torchmetrics.Metric`` whose state is one ``State`` dataclass."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Generic, cast

import torch
import torchmetrics
from torch import Tensor
from torchmetrics.metric import CompositionalMetric as CompositionalMetric  # torchmetrics has it at this path
from torchmetrics.utilities.data import dim_zero_cat, dim_zero_min, dim_zero_sum
from torchmetrics.utilities.distributed import gather_all_tensors
from typing_extensions import Self, TypeVar  # a dependency of torch

from valor_gpu.attributes import Settable, class_has, update_family
from valor_gpu.compat.torchmetrics.wrapped import Wrappable, drawable
from valor_gpu.computed import local_compute
from valor_gpu.default_device import cpu_by_default
from valor_gpu.distributed import Buffer, Gather, Gathered, Identity, all_gather, dump_state, exchange, load_state
from valor_gpu.errors import InputError, InputTypeError, SyncError, ValorError
from valor_gpu.graphs import Graphable, guarded_update, outside_graphs, traced_update, untraced
from valor_gpu.memory import Measured
from valor_gpu.metric_type import MetricType, StateOnly
from valor_gpu.ops.error_codes import NO_ERROR, raise_error
from valor_gpu.plans import Planned
from valor_gpu.result import Result, Served, Signature, require_matplotlib
from valor_gpu.saved_arguments import Saved
from valor_gpu.state import Spec, State, merge_tensors, plain

S = TypeVar("S", bound=State, default=State)

_EXTRA = (Spec("signature", "min", torch.int64, (16,)), Spec("error", "min", torch.int64, ()))
_REDUCERS = {"sum": dim_zero_sum, "cat": dim_zero_cat, "min": dim_zero_min}
_UPDATES = "update_count"  # key under which a persistent state keeps its count of updates


class Metric(
    Wrappable, Graphable, Planned, Measured, Served, Saved, Settable, StateOnly, torchmetrics.Metric, Generic[S]
):
    """Base class of all metrics: a ``torchmetrics.Metric`` whose state is one :class:`~valor_gpu.state.State`.

    A subclass gives the empty state and the choices that ``update`` depends on; its ``update`` ends in one ``_add``;
    its ``compute`` reduces :meth:`state` to a Tensor or a dict of Tensors, its :meth:`result` to a
    :class:`~valor_gpu.result.Result`. It works in ``MetricCollection``, Lightning, the wrappers of torchmetrics.

    ``compute`` and ``result`` are collective: in a distributed run every rank calls them. They reuse what the last
    synchronisation gathered until the state of this rank changes, so that one rank may print or plot. Where only some
    ranks update between two calls, pass ``compute_with_cache=False``. :meth:`memory_plan` says what a batch will take.

    Args:
        empty: the state without data; its fields become torchmetrics states, named unlike any attribute of a metric.
        config: the choices that ``update`` depends on, as JSON values. States of another configuration or class (or
            ``update_family``, as of ``Precision`` and ``Recall``) are never merged, nor shared by MetricCollection.
        kwargs: keywords of ``torchmetrics.Metric``, such as ``dist_sync_on_step`` and ``compute_with_cache``.

    Raises:
        InputError: an argument is out of range; the message names it.

    Example:
        >>> from dataclasses import dataclass
        >>> from valor_gpu.state import summed
        >>> @dataclass(frozen=True)
        ... class Hits(State):
        ...     right: Tensor = summed()  # int64 []
        ...     seen: Tensor = summed()  # int64 []
        >>> class Accuracy(Metric[Hits]):
        ...     def __init__(self, **kwargs):
        ...         super().__init__(Hits(torch.tensor(0), torch.tensor(0)), **kwargs)
        ...     def update(self, preds, target):
        ...         self._add(Hits((preds == target).sum(), torch.tensor(target.numel())))
        ...     def compute(self):
        ...         return self.state().right / self.state().seen
        >>> metric, shard = Accuracy(), Accuracy()
        >>> metric.update(torch.tensor([1, 2]), torch.tensor([1, 3]))
        >>> shard.update(torch.tensor([4, 4]), torch.tensor([4, 4]))
        >>> metric.merge_state(shard.to_bytes())
        >>> metric.compute()
        tensor(0.7500)
    """

    is_differentiable = False
    higher_is_better: bool | None = None
    full_state_update = False  # batches are independent, so forward() updates once
    update_family: ClassVar[str | None] = None
    """Classes with one ``update`` may name it here: MetricCollection runs it once for all that do not replace it."""

    _state_rule: Any = None  # what State.check has to know of the configuration
    _kind: type[S]
    _identity: Identity
    _merged: Gathered | None

    def __init__(self, empty: S = None, config: Any = (), **kwargs: Any) -> None:  # type: ignore[assignment]
        super().__init__(**kwargs)
        if not isinstance(empty, State):
            raise self._needs_state("empty", f"be a State but got {type(empty).__name__}")
        schema = (*(fields := empty.schema()), *_EXTRA)
        identity = Identity(update_family(type(self)), config, schema)
        # As self.name = value would, which looks through parameters, buffers and modules first.
        self.__dict__.update(_kind=type(empty), _fields=fields, _schema=schema, _identity=identity, _merged=None)
        self.__dict__["_merge"] = {spec.name: spec.merge for spec in schema}
        start = {**empty.tensors(), **identity.marks()}
        for index, spec in enumerate(schema):
            taken, own = spec.name in self.__dict__ or class_has(type(self), spec.name), index < len(fields)
            if taken or (own and spec.name in ("signature", "error")):
                raise InputError(f"state field {spec.name} must have another name: every metric has that attribute")
            if own and not spec.holds_nothing(start[spec.name]):
                raise InputError(f"empty must hold no data but its field {spec.name} does")
            self._register(spec, start[spec.name])

    def _register(self, spec: Spec, start: Tensor) -> None:
        """What ``add_state`` does, without its deep copy, which takes as long as the rest of a constructor."""
        if spec.joined:
            self.__dict__[spec.name], self._defaults[spec.name] = [], []
        else:
            now = start if start.device == self._device else start.to(self._device)
            now = self.__dict__[spec.name] = now if now.is_contiguous() else now.contiguous()
            self._defaults[spec.name] = now.clone()
        self._persistent[spec.name], self._reductions[spec.name] = False, _REDUCERS[spec.merge]

    def state(self) -> S:
        """The state accumulated so far (of all ranks inside ``compute``), one tensor per field, on one device."""
        return self._kind(**self._tensors(self._fields))

    def result(self) -> Result:
        """Returns the value of ``compute`` with the choices behind it; collective like ``compute``.

        A metric with more to report (supports, failures, curves) overrides this and reads :meth:`synced_state`.
        """
        value, name, config = self.compute(), type(self).__name__, self._identity.config
        choices = config if isinstance(config, dict) else {}
        return Result(value if isinstance(value, dict) else {name: value}, Signature({"metric": name, **choices}))

    @contextmanager
    def synced_state(self) -> Iterator[S]:
        """The state of all ranks, checked, for ``result``; afterwards the metric is local again.

        Raises:
            InputError: an ``update`` on CUDA met bad data.
            SyncError: the ranks have other configurations, or one of them failed.
        """
        with cpu_by_default(), self.sync_context(self.dist_sync_fn, should_sync=self.sync_on_compute):
            self._check_error()
            yield self.state()

    def _add(self, batch: S, error: Tensor | None = None) -> None:
        """Merges the state of one batch; the last thing that ``update`` does.

        Args:
            batch: on the device of the metric; its tensors must not share memory with the inputs of ``update``.
            error: int64 ``[]``, error code of the batch, which :meth:`_describe_error` reads.

        Raises:
            InputError: a field is on another device than the metric, or of another dtype or shape than in ``empty``.
        """
        given = batch.tensors()
        tensors = {name: plain(tensor) for name, tensor in given.items()}
        for spec in self._fields:
            spec.check(tensors[spec.name])
            if (device := tensors[spec.name].device) != self.error.device:
                need = f"the inputs must be on {self.error.device} like the metric"
                raise InputError(f"{need} but are on {device}: move one of them with .to(device)")
        tensors.update({} if error is None else {"error": error})
        if torch.compiler.is_compiling():
            return self._add_in_graph(tensors)
        for name, tensor in tensors.items():
            now = getattr(self, name)
            if isinstance(now, list):
                now.append(tensor)
            elif given.get(name) is not self._defaults[name]:  # the empty state, which changes nothing
                self.__dict__[name] = merge_tensors(self._merge[name], (now, tensor))  # as in guarded() below

    def _describe_error(self, code: int) -> str:
        """The message of the sticky error ``code``, for metrics that give one to ``_add``."""
        return f"an update failed with code {code}"

    @outside_graphs
    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Adds a batch and returns its own value; when anything raises, the metric is as it was before.

        With ``dist_sync_on_step`` it is the value of all ranks, and if one of them fails, every rank raises.
        """
        if self._wrappers:
            self._check_forward()
        if (alone := self._planned_forward(args, kwargs)) is not None:
            return alone[0]
        self._count_traced_updates()
        names = (*self._merge, "_update_count", "_computed", "_merged", "_to_sync", "compute_on_cpu")
        saved = {name: getattr(self, name) for name in names}
        try:
            value, batch = self._value_of_batch(*args, **kwargs)
        finally:
            self.__dict__.update(saved)  # in one call, which no interrupt can part
        self._combine(self.metric_state, batch, self._update_count + 1)
        self._forward_cache = value
        return value

    def _value_of_batch(self, *args: Any, **kwargs: Any) -> tuple[Any, dict[str, list[Tensor]]]:
        """The value of one batch alone, and its tensors."""
        for name, default in self._defaults.items():
            setattr(self, name, default if isinstance(default, Tensor) else [])
        self._update_count, self._computed, self._merged = 0, None, None
        self._to_sync, self.compute_on_cpu = self.dist_sync_on_step, False
        try:
            self.update(*args, **kwargs)
        except Exception as error:
            if self.dist_sync_on_step and self.distributed_available_fn():
                exchange(error, self._identity, self._gather(self.dist_sync_fn, None), self._storage())
            raise
        batch = {name: now if isinstance(now, list) else [now] for name, now in self.metric_state.items()}
        return self.compute(), batch

    def merge_state(self, incoming_state: torchmetrics.Metric | Mapping[str, Any] | Buffer) -> None:
        """Appends the state of another metric to this one.

        Args:
            incoming_state: a metric of the same class and configuration on any device, its ``metric_state`` (which
                counts as one update), or its :meth:`to_bytes`.

        Raises:
            InputError: it is none of these, or damaged.
            SyncError: it was made by another class or configuration, or this metric is synchronised now.
        """
        self._check_not_synced("merge_state")
        if isinstance(type(incoming_state), MetricType):
            other = cast(Metric[Any], incoming_state)
            self._identity.check(other._identity.text, "the incoming metric")
            other._check_not_synced("merge_state of it")
            theirs, updates = cast(dict[str, Any], other.metric_state), other._update_count
        elif isinstance(incoming_state, (bytes, bytearray, memoryview)):
            theirs, updates = load_state(incoming_state, self._identity)
        else:
            if not isinstance(incoming_state, Mapping):
                need = f"be of class {type(self).__name__}, its metric_state or its to_bytes()"
                raise InputTypeError(f"incoming_state must {need} but got {type(incoming_state).__name__}")
            theirs, updates = dict(incoming_state), 1
        self._load(self.metric_state, theirs, self._update_count + updates)

    def to_bytes(self) -> bytes:
        """The state of this rank as a versioned state file without pickle; raises SyncError while synchronised."""
        self._check_not_synced("to_bytes")
        return dump_state(self._tensors(self._schema), self._identity, self._update_count)

    def from_bytes(self, data: Buffer) -> Self:
        """Replaces the state by one that :meth:`to_bytes` gave, and returns the metric.

        Raises:
            InputError: ``data`` is no state file, of another format version, truncated or damaged.
            SyncError: it was made by another class or configuration, or this metric is synchronised now.
        """
        self._check_not_synced("from_bytes")
        tensors, updates = load_state(data, self._identity)
        self._load(self._defaults, tensors, updates)
        return self

    def reset(self) -> None:
        """Forgets all data. Lists are replaced, never cleared: others may hold them."""
        for name in (spec.name for spec in self._schema if spec.joined):
            setattr(self, name, [])
        super().reset()
        self._merged = self._traced_updates = None

    @contextmanager
    def sync_context(
        self,
        dist_sync_fn: Callable[..., Any] | None = None,
        process_group: Any = None,
        should_sync: bool = True,
        should_unsync: bool = True,
        distributed_available: Callable[..., Any] | None = None,
    ) -> Iterator[None]:
        """As in torchmetrics, and local again after an exception as well."""
        self.sync(dist_sync_fn, process_group, should_sync, distributed_available)
        try:
            yield
        finally:
            self.unsync(should_unsync=self._is_synced and should_unsync)

    def plot(self, val: Any = None, ax: Any = None) -> Any:
        """Plots ``val`` (default: ``compute()``) as torchmetrics does; :meth:`result` has the metric's own plot."""
        require_matplotlib("Metric.plot")
        return self._plot(drawable(self.compute() if val is None else val, type(self).__name__), ax)

    def __hash__(self) -> int:
        return hash((type(self).__name__, id(self)))

    def _wrap_update(self, update: Callable[..., Any]) -> Callable[..., None]:
        """An update that raises leaves the metric as it was."""
        traced = traced_update(self, update) if self.traceable else None
        return self._with_plans(untraced(guarded_update(self, super()._wrap_update(update)), traced), update)

    def _wrap_compute(self, compute: Callable[..., Any]) -> Callable[..., Any]:
        """The sticky error raises inside the synchronised context, so on every rank."""

        def checked(*args: Any, **kwargs: Any) -> Any:
            self._check_error()
            return compute(*args, **kwargs)

        return local_compute(self, compute, untraced(super()._wrap_compute(checked)))

    def _sync_dist(
        self, dist_sync_fn: Callable[..., Any] | None = gather_all_tensors, process_group: Any = None
    ) -> None:
        """Replaces the local state by the state of all ranks, after both collectives have succeeded."""
        way = (dist_sync_fn, process_group or self.process_group)
        local = self._copy_state_dict()
        if self._merged is None or not self._merged.serves(way, local):
            try:
                make = functools.partial(self._tensors, self._schema)
                merged = exchange(make, self._identity, self._gather(*way), self._storage())
            except BaseException:
                self._cache = None
                raise
            self._merged = Gathered(way, local, merged)
        for name, tensor in self._merged.tensors.items():
            setattr(self, name, [tensor] if self._merge[name] == "cat" else tensor)
        self._merged = self._merged if self.compute_with_cache else None

    def _gather(self, dist_sync_fn: Callable[..., Any] | None, process_group: Any) -> Gather:
        """What gives the tensor of every rank; the default of torchmetrics stands for ours."""
        gather = all_gather if dist_sync_fn in (None, gather_all_tensors) else dist_sync_fn
        return functools.partial(cast(Callable[..., Any], gather), group=process_group or self.process_group)

    def _copy_state_dict(self) -> dict[str, Tensor | list[Any]]:
        """No tensor is ever changed in place, so a copy of the lists is a copy of the state."""
        return {name: list(now) if isinstance(now := getattr(self, name), list) else now for name in self._merge}

    def _apply(self, fn: Callable[[Tensor], Tensor], exclude_state: Any = "") -> Self:
        """States follow the device of a module, but keep their own dtypes, whatever ``set_dtype`` says."""

        def keep_dtype(tensor: Tensor) -> Tensor:
            moved = fn(tensor)
            return moved if moved.dtype == tensor.dtype else tensor.to(moved.device)

        self._merged = None
        return super()._apply(keep_dtype, exclude_state)  # type: ignore[return-value]

    def state_dict(  # type: ignore[override]
        self, destination: Any = None, prefix: str = "", keep_vars: bool = False
    ) -> dict[str, Any]:
        """As in torchmetrics (states are left out until ``persistent(True)``), with the count of updates."""
        states = super().state_dict(destination, prefix, keep_vars)
        if any(self._persistent.values()):
            states[prefix + _UPDATES] = torch.tensor(self.update_count)
        return states

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool, missing_keys: list[str], *rest: Any
    ) -> None:
        """Loads a whole state of the same configuration, or none of it."""
        tensors = {name: state_dict.pop(prefix + name) for name in self._merge if prefix + name in state_dict}
        updates = state_dict.pop(prefix + _UPDATES, 1)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, strict, missing_keys, *rest)
        if not tensors:
            missing_keys += [prefix + name for name, kept in self._persistent.items() if kept and strict]
            return
        try:
            self._check_not_synced("load_state_dict")
            self._load(self._defaults, tensors, self._identity.count(updates))
        except ValorError as error:
            rest[-1].append(f"{prefix.rstrip('.') or type(self).__name__}: {error}")

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_merged": None}

    def _storage(self) -> torch.device:
        """Where a whole state is put together."""
        return torch.device("cpu") if self.compute_on_cpu else self.error.device

    def _tensors(self, schema: Sequence[Spec]) -> dict[str, Tensor]:
        """One tensor per state; without data, an empty one of its dtype and shape."""
        return {spec.name: spec.whole(self.__dict__[spec.name], self._storage()) for spec in schema}

    def _load(self, base: Mapping[str, Any], states: Mapping[str, Any], updates: int) -> None:
        """Lets the state be ``base`` and then ``states`` from elsewhere, which are checked as a whole."""
        parts = self._identity.accept(states, self.error.device, self._kind, self._state_rule)
        self._combine(base, self._from_elsewhere(parts), updates)

    def _combine(self, base: Mapping[str, Any], parts: Mapping[str, list[Tensor]], updates: int) -> None:
        """Lets the state be ``base`` and then ``parts``, in new lists and tensors; all of it or nothing."""
        merged: dict[str, Any] = {}
        for name, new in parts.items():
            merge = self._merge[name]
            merged[name] = [*base[name], *new] if merge == "cat" else merge_tensors(merge, (base[name], *new))
        self.__dict__.update(merged, _update_count=updates, _computed=None, _merged=None)
        if self.compute_on_cpu:
            self._move_list_states_to_cpu()

    def _check_not_synced(self, action: str) -> None:
        self._count_traced_updates()
        if self._is_synced:
            raise SyncError(f"{action} needs the state of this rank but the metric holds that of all: call unsync()")

    def _check_error(self) -> None:
        if (error := self.error).is_cuda or int(error) != NO_ERROR:
            raise_error(error, self._describe_error)
