"""State files of metrics: the class, the arguments of its constructor and the state, from which a metric comes back."""

from __future__ import annotations

import os
from typing import Any

from valor_gpu.errors import InputError
from valor_gpu.metric import Metric
from valor_gpu.result import Result
from valor_gpu.saved_arguments import KIND, rebuilt
from valor_gpu.state_file import StateFile, read_state


def load_metric(path: str | os.PathLike[str]) -> Metric[Any]:
    """Reads the metric of a file that its ``save_state`` wrote, on the CPU, with all that it had accumulated.

    Args:
        path: of the file. Nothing in it is executed: the class must be a public metric of this package.

    Raises:
        InputError: the file is no state file of a metric, is damaged, or has a newer format.
        SyncError: this version of the package has another configuration of the metric.
        OSError: the file cannot be read.

    Example:
        >>> import tempfile, torch
        >>> from valor_gpu.classification import Accuracy
        >>> metric = Accuracy(num_classes=3, average="micro")
        >>> metric.update(torch.tensor([0, 1, 2, 2]), torch.tensor([0, 1, 2, 1]))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     metric.save_state(f"{folder}/old.state")
        ...     load_metric(f"{folder}/old.state").compute()
        tensor(0.7500)
    """
    file = read_state(path)
    if file.kind != KIND:
        raise InputError(f"path must be a state file of a metric but {os.fspath(path)} is one of kind {file.kind!r}")
    return metric_of(file)


def metric_of(file: StateFile) -> Metric[Any]:
    """Returns the metric of a state file; see :func:`load_metric`."""
    metric = rebuilt(file.choices)
    try:
        data = file.arrays["state"].tobytes()
    except KeyError:
        raise InputError("the state file of a metric must have an array state but has none") from None
    found: Metric[Any] = metric.from_bytes(data)
    return found


def result_of(file: StateFile) -> Result:
    """Computes the result of the metric of a state file again."""
    metric = metric_of(file)
    metric.sync_on_compute = False  # the file holds all ranks, whatever process reads it
    result: Result = metric.result()
    return result
