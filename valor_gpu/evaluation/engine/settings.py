"""The arguments of evaluate(), checked one by one. No torch."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

from valor_gpu.checks import check_choice, check_int, check_number, check_type
from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.evaluation.models import prices_of
from valor_gpu.judge.limits import Limits
from valor_gpu.judge.progress import Progress
from valor_gpu.judge.statistics import Prices

TASK_TYPES = (None, "qa", "chat")
ON_ERROR = ("record", "raise")
JUDGE_TIMEOUT, TARGET_TIMEOUT = 120.0, 600.0  # seconds, where none are given
CONCURRENCY = 8
MOST_RUNS = 10_000  # of a grid: more values were meant as fewer, and their plans alone would take hours
_NUMBERS = ("max_concurrency", "limit", "rpm", "tpm", "timeout", "max_cost")


@dataclass(frozen=True)
class Settings:
    """Arguments of :func:`valor_gpu.evaluation.run.evaluate`, which explains them."""

    evaluation_name: str | None = None
    target: Any = None
    data: Any = None
    task_type: str | None = None
    metrics_list: Sequence[Any] | None = None
    model_config: Any = None
    data_mapping: Mapping[str, str] | None = None
    output_path: str | os.PathLike[str] | None = None
    tracking_uri: str | None = None
    evaluators: Sequence[Any] | Mapping[str, Any] | None = None
    judge: Any = None
    embedding_config: Any = None
    max_concurrency: int | None = None
    rpm: float | None = None
    tpm: float | None = None
    timeout: float | None = None
    cache: Any = None
    resume: Any = None
    repeats: int = 1
    epochs: int = 1
    thresholds: Mapping[str, float | str] | None = None
    metric_params: Mapping[str, Mapping[str, Any]] | None = None
    params_grid: Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Any]] | None = None
    baseline: Any = None
    slice_by: str | Sequence[str] | None = None
    key: str | None = None
    limit: int | None = None
    prices: Mapping[str, Any] | Prices | None = None
    max_cost: float | None = None
    store: Any = None
    on_error: str = "record"
    seed: int = 0
    tags: Mapping[str, Any] | None = None
    keep_prompts: bool = True
    progress: Callable[[Progress], object] | bool = False
    parameters: Mapping[str, Any] = field(default_factory=dict)
    group: str | None = None

    def check(self) -> None:
        """Raises for the first argument that cannot be."""
        for name in ("evaluation_name", "key", "tracking_uri"):
            check_type(name, getattr(self, name), (str, type(None)))
        for name in ("data_mapping", "thresholds", "metric_params", "tags"):
            check_type(name, getattr(self, name), (Mapping, type(None)))
        if (self.tracking_uri or "").lower().startswith("azureml"):
            raise InputError(
                "tracking_uri must be of an MLflow server that needs no plugin but is an address of azureml: give"
                " http://..., sqlite:///FILE or a folder, or None to keep the run in the store alone"
            )
        check_type("output_path", self.output_path, (str, os.PathLike, type(None)))
        check_choice("task_type", self.task_type, TASK_TYPES)
        check_choice("on_error", self.on_error, ON_ERROR)
        check_type("keep_prompts", self.keep_prompts, bool)
        if not (isinstance(self.progress, bool) or callable(self.progress)):
            raise InputTypeError(f"progress must be bool or a function but got {type(self.progress).__name__}")
        self._check_numbers()
        if self.epochs > 1 and self.target is None:
            raise InputError("epochs runs the target again for each row, so that it needs a target but there is none")
        self.token_prices()
        self.slice_columns()
        if self.tracking_uri is not None:
            from valor_gpu.evaluation.tracking import open_client

            open_client(self.tracking_uri)

    def _check_numbers(self) -> None:
        check_int("seed", self.seed)
        for name in ("repeats", "epochs"):
            check_int(name, getattr(self, name), 1)
        given = {name: value for name in _NUMBERS if (value := getattr(self, name)) is not None}
        for name, value in given.items():
            if name in ("max_concurrency", "limit"):
                check_int(name, value, 1)
            elif name in ("rpm", "tpm"):
                check_number(name, value, 1)
            else:
                check_number(name, value)
                if not value > 0:
                    raise InputError(f"{name} must be greater than 0 but got {value}")

    def limits(self) -> Limits:
        """How the judge may be asked."""
        timeout = JUDGE_TIMEOUT if self.timeout is None else float(self.timeout)
        return Limits(self.max_concurrency, self.rpm, self.tpm, timeout)

    def token_prices(self, judge: Any = None) -> Prices | None:
        """Prices of a million of the judge's tokens; None where there are none for its model."""
        return prices_of(self.prices, str(getattr(judge, "model", "")))

    def slice_columns(self) -> tuple[str, ...]:
        """Columns by whose values numbers are given."""
        if self.slice_by is None:
            return ()
        found = (self.slice_by,) if isinstance(self.slice_by, str) else tuple(self.slice_by)
        for name in found:
            check_type("slice_by", name, str)
        return found

    def of_grid(self, grid: Sequence[Mapping[str, Any]], group: str) -> list[Settings]:
        """The settings of every run of a grid; several have names, and folders of ``output_path``, of their own."""
        runs = [replace(self, params_grid=None, parameters=dict(each), group=group) for each in grid]
        if len(runs) == 1:
            return runs
        return [
            replace(
                each,
                evaluation_name=self.evaluation_name and self.evaluation_name + parameters_text(each.parameters),
                output_path=None if self.output_path is None else _numbered(self.output_path, number),
            )
            for number, each in enumerate(runs, 1)
        ]

    def grid(self) -> list[dict[str, Any]] | None:
        """The parameters of every run of the grid; None without a grid.

        Raises:
            InputError: it is empty, or a parameter has no values.
        """
        if self.params_grid is None:
            return None
        if self.target is None:
            raise InputError("params_grid gives its parameters to the target, so that it needs a target")
        if isinstance(self.params_grid, Mapping):
            for name, values in self.params_grid.items():
                check_type("a name in params_grid", name, str)
                if isinstance(values, (str, bytes)) or not isinstance(values, Sequence) or not values:
                    raise InputError(f"params_grid[{name!r}] must be a list with values but is {str(values)[:80]!r}")
            runs = math.prod(map(len, self.params_grid.values()))
            if runs > MOST_RUNS:
                raise InputError(f"params_grid must make at most {MOST_RUNS} runs but would make {runs}")
            found = [dict(zip(self.params_grid, values)) for values in product(*self.params_grid.values())]
        else:
            check_type("params_grid", self.params_grid, (list, tuple))
            for each in self.params_grid:
                check_type("an entry of params_grid", each, Mapping)
            found = [dict(each) for each in self.params_grid]
        if not found or not any(found):
            raise InputError("params_grid must have at least one parameter but has none")
        return found


def parameters_text(parameters: Mapping[str, Any]) -> str:
    """How the name of a run ends that has parameters.

    Example:
        >>> parameters_text({"style": "short", "n": 2})
        ' style=short n=2'
    """
    return "".join(f" {name}={value}" for name, value in parameters.items())[:100]


def _numbered(output_path: str | os.PathLike[str], number: int) -> Path:
    path = Path(output_path)
    return path.parent / str(number) / path.name if path.suffix == ".jsonl" else path / str(number)
