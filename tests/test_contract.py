"""Runs every check of the contract on every metric of its table."""

from __future__ import annotations

import runpy
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.utils.data import TensorDataset

from tests.checkout import ROOT
from tests.contract import METRICS, Case
from tests.contract_checks import CHECKS, FAMILY_CHECKS, UPDATE_CHECKS, check_single_sample
from tests.contract_ranks import FAMILY_RANK_CHECKS, RANK_CHECKS
from tests.ddp import run_ranks
from tests.devices import CUDA
from tools.metric_names import metrics_of
from valor_gpu import classification, detection, plans, retrieval, segmentation, text

Check = Callable[[Case, torch.device], None]
Failures = dict[str, list[str]]
OTHER_CHECKS = [check for check in CHECKS if check not in UPDATE_CHECKS]
ALL_RANK_CHECKS = [*RANK_CHECKS, *FAMILY_RANK_CHECKS]
FAMILIES = {(type(metric.state()), type(metric)._planner): case for case in METRICS[::-1] for metric in [case.make()]}
"""The first case of each class of states, and of each way to plan its updates."""
PACKAGES = {type(case.make()).__module__.split(".")[1]: case for case in FAMILIES.values()}
"""A family of each package."""
PLANNED = [case for case in METRICS if type(case.make())._planner is not plans.Planned._planner]


def places(checks: list[Check]) -> list[Any]:
    """The CPU with all checks, and CUDA with each in a test of its own: a kernel that fails there ends its process."""
    on_cuda = [
        pytest.param(torch.device("cuda", 0), [check], marks=place.marks, id=f"cuda-{name_of(check)}")
        for place in CUDA
        for check in checks
    ]
    return [pytest.param(torch.device("cpu"), checks, id="cpu"), *on_cuda]


def name_of(check: Callable[..., None]) -> str:
    return check.__name__.removeprefix("check_")


def broken(case: Case, checks: Sequence[Callable[..., None]], *arguments: Any) -> list[str]:
    """Runs every check, whatever the others find, and returns the broken rules with their tracebacks."""
    found = []
    for check in checks:
        try:
            check(case, *arguments)
        except KeyboardInterrupt:  # noqa: PERF203
            raise
        except BaseException as error:  # also of a check that skips or exits
            found.append(f"{case.name} breaks a rule, {name_of(check)}: {rule(check)}\n{traceback.format_exc()}")
            if "from pytest-timeout" in str(error):  # its timer does not go off again
                break
    return found


@pytest.mark.parametrize(("device", "checks"), places(CHECKS))
@pytest.mark.parametrize("case", METRICS, ids=lambda case: case.name)
def test_contract(case: Case, checks: list[Check], device: torch.device) -> None:
    failures = broken(case, checks, device)
    assert not failures, "\n".join(failures)


@pytest.mark.parametrize(("device", "checks"), places(FAMILY_CHECKS))
@pytest.mark.parametrize(
    "case",
    [pytest.param(case, marks=() if case in PACKAGES.values() else pytest.mark.slow) for case in FAMILIES.values()],
    ids=lambda case: case.name,
)
def test_contract_of_families(case: Case, checks: list[Check], device: torch.device) -> None:
    test_contract(case, checks, device)


@pytest.mark.parametrize("checks", [UPDATE_CHECKS, pytest.param(OTHER_CHECKS, marks=pytest.mark.slow)])
@pytest.mark.parametrize("case", PLANNED, ids=lambda case: case.name)
def test_contract_without_plans(case: Case, checks: list[Check]) -> None:
    with plans.checked_only():
        test_contract(case, checks, torch.device("cpu"))


def rule(check: Callable[..., None]) -> str:
    """What a check is about."""
    return " ".join((check.__doc__ or "").split())


def test_every_public_metric_has_a_case() -> None:
    public = {
        kind for package in (classification, detection, retrieval, segmentation, text) for kind in metrics_of(package)
    }
    missing = public - {type(case.make()) for case in METRICS}
    assert not missing, f"append to METRICS of tests/contract.py: {sorted(kind.__name__ for kind in missing)}"


def test_every_check_states_its_rule() -> None:
    assert [check.__name__ for check in (*CHECKS, *FAMILY_CHECKS, *ALL_RANK_CHECKS) if len(rule(check)) < 20] == []


def test_a_case_whose_single_sample_changes_nothing_is_reported_what_to_do() -> None:
    case = next(case for case in METRICS if case.name == "Accuracy")
    message = r"breaks a rule, single_sample: The value of one sample must differ .*(?s:.*) choose a configuration or"
    with pytest.raises(AssertionError, match=message):
        test_contract(replace(case, single=case.empty), [check_single_sample], torch.device("cpu"))
    reason = "a reason that nothing needs"
    with pytest.raises(AssertionError, match="leave it out"):
        check_single_sample(replace(case, single_like_empty=reason), torch.device("cpu"))
    check_single_sample(replace(case, single=case.empty, single_like_empty=reason), torch.device("cpu"))


def test_a_check_hides_no_other_and_one_that_skips_or_takes_too_long_is_a_failure() -> None:
    def check_first(case: Case) -> None:
        """A rule of twenty letters."""
        assert case is None, "the first fault"

    def check_second(case: Case) -> None:
        pytest.skip("for lack of something")

    def check_third(case: Case) -> None:
        pytest.fail("Timeout (>300.0s) from pytest-timeout.")

    found = broken(METRICS[0], [check_first, check_second, check_third, check_first])
    assert ["the first fault" in found[0], "for lack of" in found[1], "Timeout" in found[2]] == [True] * 3
    assert len(found) == 3 and f"{METRICS[0].name} breaks a rule, first: A rule of twenty letters." in found[0]


def _checks_of_ranks(wanted: frozenset[str], rank: int, world: int) -> Failures:
    """Failures by the name of the metric; the ranks meet before each check: one failure does not spoil the next.

    Args:
        wanted: names of metrics.
        rank: number of this process.
        world: number of processes.
    """
    families = {case.name for case in FAMILIES.values()}
    checks = {case.name: ALL_RANK_CHECKS if case.name in families else RANK_CHECKS for case in METRICS}
    failures: Failures = {}
    steps = [(case, check) for case in METRICS if case.name in wanted for check in checks[case.name]]
    for case, check in steps:
        found = failures.setdefault(case.name, [])
        try:
            dist.barrier()
        except RuntimeError as error:  # after a check in which the ranks took different ways
            found.append(f"the ranks no longer meet: {error}")
            break
        found.extend(broken(case, [check], rank, world))
    return failures


@pytest.fixture(scope="module")
def failures_of_ranks(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[Failures]:
    """One start of three processes serves all checks of all metrics that this session selected."""
    functions = (item for item in request.session.items if isinstance(item, pytest.Function))
    chosen = [item.callspec.params for item in functions if item.function is test_contract_of_ranks]
    wanted = frozenset(params["case"].name for params in chosen)
    return run_ranks(partial(_checks_of_ranks, wanted), tmp_path_factory.mktemp("ranks"))


def test_every_class_of_states_has_a_case_in_three_processes() -> None:
    assert {state for state, _ in FAMILIES} == {type(case.make().state()) for case in METRICS}
    assert METRICS[0] in FAMILIES.values()


@pytest.mark.parametrize("case", METRICS, ids=lambda case: case.name)
def test_contract_of_ranks(case: Case, failures_of_ranks: list[Failures]) -> None:
    unchecked = ["the ranks did not come so far, since they parted before"]
    found = [failures.get(case.name, unchecked) for failures in failures_of_ranks]
    texts = [f"rank {rank}: {text}" for rank, failures in enumerate(found) for text in failures]
    assert not texts, "\n".join(texts)


def _example_of_ranks(rank: int, world: int) -> tuple[float, int]:
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(100, 10), torch.randint(0, 10, (100,)))
    result = runpy.run_path(str(ROOT / "examples/distributed.py"))["validate"](data)
    return result.values["Accuracy"], result.counts["samples"]


def test_the_example_counts_every_sample_once(tmp_path: Path) -> None:
    torch.manual_seed(0)
    logits, target = torch.randn(100, 10), torch.randint(0, 10, (100,))
    expected = float((logits.argmax(1) == target).double().mean())
    assert run_ranks(_example_of_ranks, tmp_path) == [(expected, 100)] * 3


def _one_rank_raises(rank: int, world: int) -> int:
    assert rank != 1, "on purpose"
    return rank


def test_harness_reports_a_rank_that_raises(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"(?s)rank 1 raised.*on purpose"):
        run_ranks(_one_rank_raises, tmp_path)


def _one_rank_hangs(rank: int, world: int) -> None:
    if rank == 0:  # the first that is asked: another would have to answer within the limit, on a busy machine too
        time.sleep(60)


def test_harness_ends_a_rank_that_hangs(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="rank 0 did not answer within 1 s"):
        run_ranks(_one_rank_hangs, tmp_path, limit=1)
