"""Metrics in wrappers of torchmetrics, such as ``BootStrapper``: rejects metrics that a wrapper cannot serve.

A wrapper does not tell its metric about itself. So a registration hook of torch, which runs whenever a module becomes a
part of another one, looks at the metrics that a wrapper takes; for other modules it looks at a table alone.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

from torch import Tensor
from torch.nn import Module
from torch.nn.modules.module import register_module_module_registration_hook
from torchmetrics import MetricCollection
from torchmetrics.wrappers import (
    BootStrapper,
    ClasswiseWrapper,
    MetricTracker,
    MinMaxMetric,
    MultioutputWrapper,
    Running,
)
from torchmetrics.wrappers.transformations import MetricInputTransformer

from valor_gpu.computed import finished_compute
from valor_gpu.distributed import exchange
from valor_gpu.errors import InputError, ValorError
from valor_gpu.state import Spec

_CLASSWISE, _TRACKER = ClasswiseWrapper.__name__, MetricTracker.__name__
_PICKS = {
    BootStrapper: "use result(intervals=1000), which resamples what the metric has counted",
    MultioutputWrapper: "use MultitaskWrapper with one metric per output",
}
"""Wrappers that give their metrics rows or columns of tensors, and what takes other data."""
_UNKNOWN = object()


class Wrappable:
    """Part of every metric that looks at the wrapper around it."""

    _takes_lists: bool = False
    """Whether ``update`` takes lists with an entry per image or text, not tensors with a row per sample."""
    _learns_classes: bool = False
    """Whether values per class are those of the classes that occur, so that nobody knows their number beforehand."""
    _learns_outputs: bool = False
    """Whether there is a value per output, and only data say how many outputs there are."""
    _one_number: str = "multidim_average='global'"
    """The argument that gives a number over all samples in place of one for each."""
    _wrappers: tuple[str, ...] = ()
    """Names of the wrappers around the metric that its ``update`` or ``compute`` has to look at."""
    _classes: int | None
    _merge: Mapping[str, str]
    _defaults: dict[str, Any]
    _fields: tuple[Spec, ...]
    _schema: tuple[Spec, ...]

    def _in_wrapper(self, name: str) -> None:
        self.__dict__["_wrappers"] = tuple(dict.fromkeys((*self._wrappers, name)))

    def _empty_value(self) -> Any:
        """Returns the value without data; ``_UNKNOWN`` where the metric has none."""
        state = self.__dict__
        saved = {name: state[name] for name in self._merge}
        try:
            state.update({k: v if isinstance(v, Tensor) else [] for k, v in self._defaults.items()})
            return finished_compute(self)
        except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError):
            return _UNKNOWN
        finally:
            state.update(saved)

    def _check_picked(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Raises for an argument that a wrapper passes on whole, beside others whose rows or columns it picked."""
        for wrapper, instead in _PICKS.items():
            if wrapper.__name__ not in self._wrappers:
                continue
            for name, value in {**dict(zip(("preds", "target", "sample_weight"), args)), **kwargs}.items():
                if not (value is None or isinstance(value, Tensor)):
                    raise InputError(
                        f"{wrapper.__name__} needs tensors but {name} is a {type(value).__name__}, which it passes on"
                        f" whole: convert it to a tensor, or {instead}"
                    )

    def _check_compute(self) -> None:
        """Raises where the wrapper around the metric would give a wrong number, or an error that names no way out."""
        metric: Any = self
        with self._failing_together(metric._to_sync and metric._computed is None and metric._merged is None):
            self._check_wrapper()

    def _check_forward(self) -> None:
        metric: Any = self
        with self._failing_together(metric.dist_sync_on_step):
            self._check_labels()

    @contextlib.contextmanager
    def _failing_together(self, is_collective: bool) -> Iterator[None]:
        """Lets all ranks raise: one without data finds nothing wrong, and would wait for those that do."""
        metric: Any = self
        try:
            yield
        except ValorError as error:
            if is_collective and not metric._is_synced and metric.distributed_available_fn():
                exchange(error, metric._identity, metric._gather(metric.dist_sync_fn, None), metric._storage())
            raise

    def _check_wrapper(self) -> None:
        if _CLASSWISE in self._wrappers:
            self._check_dtypes(_CLASSWISE, {name: self.__dict__[name] for name in self._merge})
            self._check_labels()
        if _TRACKER in self._wrappers:
            self._check_best()

    def _check_labels(self) -> None:
        """Raises where ``labels`` of the wrapper would leave out classes, or name some that the metric has not."""
        if _CLASSWISE not in self._wrappers:
            return
        wrapper = _caller(ClasswiseWrapper.compute, ClasswiseWrapper.forward)
        if wrapper is None or (labels := wrapper.labels) is None:
            return
        if (size := self._classes) is None:
            return
        if len(labels) != size:
            raise InputError(f"labels must have {size} names, one per class, but has {len(labels)}")
        if len(set(labels)) != size:
            twice = next(label for label in labels if labels.count(label) > 1)
            raise InputError(f"labels must name each class differently but has {twice!r} twice")

    def _check_best(self) -> None:
        """Raises where ``best_metric`` asks for a metric with several numbers and cannot compare them."""
        if (tracker := _caller(MetricTracker.best_metric)) is None:
            return
        found = f"{type(self).__name__} returns several"
        if isinstance(tracker._base_metric, MetricCollection):
            if not isinstance(tracker.maximize, bool):
                raise InputError(
                    f"best_metric needs one maximize for all numbers since {found}: give"
                    " MetricTracker(collection, maximize=True), or False"
                )
        elif not isinstance(tracker._base_metric, ClasswiseWrapper):
            key = next(iter(self._empty_value()))
            raise InputError(
                f"best_metric needs a single number but {found}: track one of them, as in"
                f" MetricTracker(metric[{key!r}], maximize=True), or use compute_all()"
            )

    def _check_dtypes(self, wrapper: str, states: Mapping[str, Any]) -> None:
        """Raises where ``half`` or ``to(dtype)`` of a wrapper has changed the data of a state."""
        for spec in self._schema:
            held = states[spec.name]
            for tensor in held if isinstance(held, list) else [held]:
                if tensor.dtype != spec.dtype and not spec.holds_nothing(tensor.to(spec.dtype)):
                    raise InputError(
                        f"state field {spec.name} must be {spec} but {wrapper} has made it {tensor.dtype}: move the"
                        " model with .to(device), or convert its dtype before the first update"
                    )

    @property
    def update_called(self) -> bool:
        """Whether ``update`` or ``forward`` was called since the last reset."""
        if super().update_called or _CLASSWISE not in self._wrappers:  # type: ignore[misc]
            return bool(super().update_called)  # type: ignore[misc]
        # A MetricCollection gives the state of one member to others, and counts its updates in their wrappers.
        held = [(spec, self.__dict__[spec.name]) for spec in self._fields]
        return any(len(now) if isinstance(now, list) else not spec.holds_nothing(now) for spec, now in held)

    def _reduce_states(self, incoming_state: dict[str, Any]) -> None:
        """Adds a part of the window of ``Running``, which calls it for every part, whatever their age."""
        metric: Any = self
        caller = sys._getframe(1)
        if caller.f_code is not Running.compute.__code__:
            return metric._add_part(incoming_state)  # type: ignore[no-any-return]
        if caller.f_locals["i"] == 0:  # all parts, the oldest first: some values depend on the order of batches
            for part in _window(caller.f_locals["self"], tuple(self._defaults)):
                metric._add_part(part)
        return None

    def _add_part(self, states: dict[str, Any]) -> None:
        metric: Any = self
        self._check_dtypes(Running.__name__, states)
        dtypes = {spec.name: spec.dtype for spec in self._schema}  # of a part without data, which may have another
        parts = {k: held if isinstance(held, list) else [held.to(dtypes[k])] for k, held in states.items()}
        metric._combine(metric.metric_state, metric._from_elsewhere(parts), metric._update_count + 1)


def _window(running: Any, names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yields the states in the window of a ``Running``, the oldest first."""
    for age in range(running.window):
        slot = (running._num_vals_seen + age) % running.window  # of the next update, so what is there is the oldest
        yield {name: getattr(running, f"{name}_{slot}") for name in names}


def drawable(value: Any, metric: str) -> Any:
    """Returns a value for ``plot``; raises for a dict with a tensor that has no place in a picture of lines."""
    for name, part in value.items() if isinstance(value, dict) else ():
        if isinstance(part, Tensor) and part.ndim > 2:
            raise InputError(
                f"plot draws numbers and vectors but {name} of {metric} has shape {list(part.shape)}: give the"
                " numbers to draw as val, such as metric.plot(metric.compute()['map'])"
            )
    return value


# ----------------------------------------------------------------------------------------------- what wrappers can take


def _check_picking(wrapper: Module, name: str, part: Module) -> None:
    """Rejects a metric whose data cannot be picked from, or whose values cannot be stacked."""
    if name != "metrics":
        return
    kind = next(kind for kind in _PICKS if isinstance(wrapper, kind))
    for copy in part.children():
        for metric in _reached(copy):
            if metric._takes_lists:
                raise InputError(_refusal(kind, metric, f"update takes lists instead of tensors: {_PICKS[kind]}"))
            metric._in_wrapper(kind.__name__)
    first = next(part.children(), None)
    if isinstance(first, Wrappable) and (value := first._empty_value()) is not _UNKNOWN:
        if not isinstance(value, Tensor):
            raise InputError(
                _refusal(kind, first, f"compute returns a {type(value).__name__} instead of a tensor: {_pick(value)}")
            )
        if kind is BootStrapper and value.ndim and not len(value):
            why = f"compute returns a value per sample: choose {first._one_number}"
            raise InputError(_refusal(kind, first, why))


def _check_per_class(wrapper: Module, name: str, part: Module) -> None:
    """Rejects a metric that does not return a tensor with a value per class."""
    if name != "metric":
        return
    if found := next((metric for metric in _reached(part) if metric._learns_classes), None):
        why = "numbers per class are those of the classes that occur: use result()"
        raise InputError(_refusal(ClasswiseWrapper, found, why))
    if not isinstance(part, Wrappable) or (value := part._empty_value()) is _UNKNOWN:
        return
    if not isinstance(value, Tensor):
        why = f"compute returns a {type(value).__name__}: {_pick(value, vectors=True)}"
        raise InputError(_refusal(ClasswiseWrapper, part, why))
    if not (value.ndim or part._learns_outputs):
        why = "compute returns a single number: choose average='none', or use result(), which counts each class"
        raise InputError(_refusal(ClasswiseWrapper, part, why))
    part._in_wrapper(_CLASSWISE)
    if not part._learns_outputs:
        part.__dict__["_classes"] = len(value)
    # A MetricCollection replaces the states of metrics inside of wrappers but resets the cache of the wrappers alone.
    part.__dict__["compute_with_cache"] = False


def _check_number(wrapper: Module, name: str, part: Module) -> None:
    """Rejects a metric that does not return a single number."""
    if name != "_base_metric" or not isinstance(part, Wrappable) or (value := part._empty_value()) is _UNKNOWN:
        return
    if not isinstance(value, Tensor):
        raise InputError(_refusal(MinMaxMetric, part, f"compute returns a {type(value).__name__}: {_pick(value)}"))
    if value.numel() != 1:
        why = "compute returns several numbers: choose another average, or wrap one of them, as in metric[0]"
        raise InputError(_refusal(MinMaxMetric, part, why))


def _note_tracked(wrapper: Module, name: str, part: Module) -> None:
    """Notes that ``best_metric`` cannot compare the values of a metric."""
    if name != "_base_metric":
        return
    for member in part.children() if isinstance(part, MetricCollection) else [part]:
        inner = member.metric if isinstance(member, ClasswiseWrapper) else None
        if isinstance(inner, Wrappable) and not isinstance(getattr(inner, "num_classes", None), int):
            inner._in_wrapper(_TRACKER)  # the tracker counts the values of multiclass metrics alone
        if isinstance(member, Wrappable) and isinstance(member._empty_value(), dict):
            member._in_wrapper(_TRACKER)


def _caller(*methods: Callable[..., Any]) -> Any:
    """Returns the wrapper with one of the ``methods`` among the callers, or None."""
    codes = [method.__code__ for method in methods]
    frame = sys._getframe(1)
    while frame is not None and frame.f_code not in codes:
        frame = frame.f_back  # type: ignore[assignment]
    return None if frame is None else frame.f_locals["self"]


def _pick(value: Any, vectors: bool = False) -> str:
    """Returns the advice to wrap one of the values that a metric returns, one with several numbers if ``vectors``."""
    keys = list(value) if isinstance(value, dict) else range(len(value))
    fitting = [key for key in keys if bool(getattr(value[key], "ndim", 0)) == vectors]
    return f"wrap one of its values, as in metric[{fitting[0]!r}], or use result()" if fitting else "use result()"


def _refusal(wrapper: type, metric: Any, why: str) -> str:
    return f"{wrapper.__name__} cannot wrap {type(metric).__name__}, whose {why}"


def _reached(module: Module) -> Iterator[Any]:
    """Yields the metrics of this package that get the data of a wrapper as the wrapper picked them."""
    if isinstance(module, Wrappable):
        yield module
    elif not isinstance(module, MetricInputTransformer):
        for child in module.children():
            yield from _reached(child)


_RULES: Mapping[type, Callable[[Module, str, Module], None]] = {
    BootStrapper: _check_picking,
    MultioutputWrapper: _check_picking,
    ClasswiseWrapper: _check_per_class,
    MinMaxMetric: _check_number,
    MetricTracker: _note_tracked,
}


@functools.lru_cache(maxsize=1024)
def _rule_of(kind: Any) -> Callable[[Module, str, Module], None] | None:
    return next((rule for wrapper, rule in _RULES.items() if issubclass(kind, wrapper)), None)


def _registered(module: Module, name: str, part: Module | None) -> None:
    if part is not None and (rule := _rule_of(cast(Any, type(module)))) is not None:
        rule(module, name, part)


register_module_module_registration_hook(_registered)
