"""Plugin of pytest that draws the sample, seeds every test and writes each outcome as a line of JSON."""

from __future__ import annotations

import hashlib
import json
import os
import random
from collections.abc import Generator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import testing.prepare  # noqa: F401  (it lets torchvision be imported)
from tools.peers import OUTCOMES, SAMPLE


def is_drawn(node: str, sample: float) -> bool:
    """Whether a test belongs to the sample, by the hash of its id: the same in every run."""
    return int(hashlib.sha1(node.encode()).hexdigest()[:8], 16) < sample * 2**32


def seed(text: str) -> None:
    """Seeds all generators by a text, so that unseeded data of a test are the same in every run."""
    value = int(hashlib.sha1(text.encode()).hexdigest()[:8], 16)
    random.seed(value)
    np.random.seed(value)
    torch.manual_seed(value)


def pytest_collectstart(collector: pytest.Collector) -> None:
    """Seeds data that a file makes when it is imported."""
    seed(collector.nodeid)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out tests that are not drawn."""
    sample = float(os.environ[SAMPLE])
    out = [item for item in items if not is_drawn(item.nodeid, sample)]
    config.hook.pytest_deselected(items=out)
    items[:] = [item for item in items if is_drawn(item.nodeid, sample)]


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Seeds data that a test makes."""
    seed(item.nodeid)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    """Adds the first line of the error to each report; xdist carries it to the first process."""
    report = yield
    report.cause = cause_of(call.excinfo.value) if call.excinfo is not None else ""
    return report


def cause_of(error: BaseException) -> str:
    """Returns type and first line of an error."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0].strip()}" if lines else type(error).__name__


def pytest_runtest_logreport(report: Any) -> None:
    """Writes the outcome of a test; of its setup and teardown only what is no success."""
    if "PYTEST_XDIST_WORKER" in os.environ or (report.when != "call" and report.passed):
        return
    outcome = report.outcome
    if hasattr(report, "wasxfail"):
        outcome = "xfailed" if report.skipped else "failed"
    cause = getattr(report, "cause", "")
    if not cause and report.failed:  # of a process that died, or of a test that was to fail
        cause = str(report.longrepr).strip().splitlines()[-1]
    _write(report.nodeid, outcome, cause)


def pytest_collectreport(report: Any) -> None:
    """Writes the error of a file that cannot be imported."""
    if "PYTEST_XDIST_WORKER" not in os.environ and report.failed:
        _write(report.nodeid, "not collected", str(report.longrepr).strip().splitlines()[-1].removeprefix("E").strip())


def _write(node: str, outcome: str, cause: str) -> None:
    line = {"test": node.removeprefix("unittests/"), "outcome": outcome, "cause": cause}
    with Path(os.environ[OUTCOMES]).open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
