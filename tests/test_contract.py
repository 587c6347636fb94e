"""Runs every check of the contract on every metric of its table."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from tests.contract import METRICS, Case
from tests.contract_checks import CHECKS
from tests.contract_ranks import RANK_CHECKS
from tests.ddp import run_ranks

Failures = dict[tuple[str, str], str]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__.removeprefix("check_"))
@pytest.mark.parametrize("case", METRICS, ids=lambda case: case.name)
def test_contract(case: Case, check: Callable[[Case, torch.device], None], device: torch.device) -> None:
    check(case, device)


def _all_checks(rank: int, world: int) -> Failures:
    """Tracebacks of the failed checks; the ranks meet before each, so that one failure does not spoil the next."""
    failures = {}
    for case in METRICS:
        for check in RANK_CHECKS:
            dist.barrier()
            try:
                check(case, rank, world)
            except BaseException:
                failures[case.name, check.__name__] = traceback.format_exc()
    return failures


@pytest.fixture(scope="module")
def failures_of_ranks(tmp_path_factory: pytest.TempPathFactory) -> list[Failures]:
    """One start of three processes serves all checks of all metrics."""
    return run_ranks(_all_checks, tmp_path_factory.mktemp("ranks"))


@pytest.mark.parametrize("check", RANK_CHECKS, ids=lambda check: check.__name__.removeprefix("check_"))
@pytest.mark.parametrize("case", METRICS, ids=lambda case: case.name)
def test_contract_of_ranks(
    case: Case, check: Callable[[Case, int, int], None], failures_of_ranks: list[Failures]
) -> None:
    found = {rank: failures.get((case.name, check.__name__)) for rank, failures in enumerate(failures_of_ranks)}
    assert not any(found.values()), "\n".join(f"rank {rank}: {text}" for rank, text in found.items() if text)


def _one_rank_raises(rank: int, world: int) -> int:
    assert rank != 1, "on purpose"
    return rank


def test_harness_reports_a_rank_that_raises(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"(?s)rank 1 raised.*on purpose"):
        run_ranks(_one_rank_raises, tmp_path)


def _one_rank_hangs(rank: int, world: int) -> None:
    if rank == 1:
        time.sleep(60)


def test_harness_ends_a_rank_that_hangs(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="rank 1 did not answer within 1 s"):
        run_ranks(_one_rank_hangs, tmp_path, limit=1)
