"""Metrics as a callback of Lightning, for a module that is not to know them; imports Lightning at the first use."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from valor_gpu.checks import check_int
from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.integrations.lazy_types import lazy_types, trainer_type
from valor_gpu.integrations.metric_group import MetricGroup, Metrics, scalars
from valor_gpu.result import Result

Inputs = Callable[[Any, Any], tuple[Any, Any]]
_PREFIXES = {"validation": "val/", "test": "test/"}


def preds_and_target(outputs: Any, batch: Any) -> tuple[Any, Any]:
    """What a ``validation_step`` returned: a dict with ``preds`` and ``target``, or a pair of them.

    Raises:
        InputTypeError: it is neither.
    """
    if isinstance(outputs, Mapping) and {"preds", "target"} <= outputs.keys():
        return outputs["preds"], outputs["target"]
    if isinstance(outputs, tuple) and len(outputs) == 2:
        return outputs
    raise InputTypeError(
        "the step must return a dict with preds and target, or a pair of them, unless inputs= of the callback makes"
        f" them of its outputs and the batch, but it returned {type(outputs).__name__}"
    )


class MetricHooks:
    """Measures in validation and test, and logs every number; the module changes in nothing but what its step returns.

    ``MetricCallback`` is this class and Lightning's ``Callback``.

    ``EarlyStopping`` and ``ModelCheckpoint`` see the numbers: ``monitor="val/map"``. Under DDP every rank updates its
    own metrics, which synchronise where the numbers are made. The sanity check of validation logs nothing.

    Args:
        metrics: a metric, or several by name: numbers are then called ``name``, or ``name/number`` where a metric has
            several.
        inputs: makes of a step's outputs and its batch what ``update`` takes; default: the outputs are a dict with
            ``preds`` and ``target``, or a pair of them.
        prefixes: before the names, by stage; default ``{"validation": "val/", "test": "test/"}``.
        dataloader: which one is measured, where there are several.

    Attributes:
        results: by stage the last :class:`~valor_gpu.result.Result` of each metric; a single one's name is ``""``.

    Raises:
        InputTypeError: ``metrics`` are not metrics of this library; in training: the step returns something else.
        InputError: an argument is out of range; in training: several data loaders, and none is chosen.
        ImportError: neither ``lightning`` nor ``pytorch_lightning`` is installed.

    Example:
        >>> from valor_gpu.classification import Accuracy
        >>> from valor_gpu.integrations.lightning import MetricCallback
        >>> callback = MetricCallback({"accuracy": Accuracy(num_classes=3)})
        >>> # Trainer(callbacks=[callback, EarlyStopping("val/accuracy", mode="max")])
    """

    def __init__(
        self,
        metrics: Metrics,
        inputs: Inputs | None = None,
        *,
        prefixes: Mapping[str, str] | None = None,
        dataloader: int | None = None,
    ) -> None:
        if dataloader is not None:
            check_int("dataloader", dataloader)
        self._group = MetricGroup(metrics)
        self._inputs = preds_and_target if inputs is None else inputs
        self._prefixes = {**_PREFIXES, **(prefixes or {})}
        if unknown := self._prefixes.keys() - _PREFIXES.keys():
            raise InputError(f"prefixes must be those of {sorted(_PREFIXES)} but has {sorted(unknown)}")
        self._dataloader = dataloader
        self.results: dict[str, dict[str, Result]] = {}

    def _update(self, outputs: Any, batch: Any, dataloader: int) -> None:
        if self._dataloader is None and dataloader > 0:
            raise InputError("dataloader must say which of several data loaders is measured but is None")
        if self._dataloader in (None, dataloader):
            self._group.metrics.update(*self._inputs(outputs, batch))

    def _finish(self, stage: str, trainer: Any, module: Any) -> None:
        if trainer.sanity_checking:
            return
        self.results[stage] = self._group.results()
        numbers = {self._prefixes[stage] + name: v for name, v in scalars(self.results[stage], "/").items()}
        module.log_dict(numbers, sync_dist=trainer.world_size > 1)  # equal on every rank: no warning about it

    def on_validation_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        """Empties the metrics."""
        self._group.start(pl_module.device)

    def on_test_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        """Empties the metrics."""
        self._group.start(pl_module.device)

    def on_validation_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        """Updates the metrics."""
        self._update(outputs, batch, dataloader_idx)

    def on_test_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        """Updates the metrics."""
        self._update(outputs, batch, dataloader_idx)

    def on_validation_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Logs every number."""
        self._finish("validation", trainer, pl_module)

    def on_test_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Logs every number."""
        self._finish("test", trainer, pl_module)


if TYPE_CHECKING:
    from lightning.pytorch import Callback

    class MetricCallback(MetricHooks, Callback):
        """:class:`MetricHooks` as a ``Callback`` of Lightning."""


def _callback_type() -> type:
    package = "lightning" if importlib.util.find_spec("lightning") else "pytorch_lightning"
    module = "lightning.pytorch" if package == "lightning" else package
    return trainer_type("MetricCallback", package, module, "Callback", "pip install lightning")


__getattr__ = lazy_types(__name__, {"MetricCallback": (MetricHooks, _callback_type)})
