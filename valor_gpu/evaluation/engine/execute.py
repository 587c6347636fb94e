"""A plan becomes a run in the store, and its rows go through it. No torch."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from valor_gpu.errors import InputError, LeaseError, StoreError
from valor_gpu.evaluation.artifacts import write_artifacts
from valor_gpu.evaluation.engine.live import Live
from valor_gpu.evaluation.engine.parts import settle_parts
from valor_gpu.evaluation.engine.pipeline import Pipeline
from valor_gpu.evaluation.engine.plan import Plan
from valor_gpu.evaluation.engine.stages import RowFailed
from valor_gpu.evaluation.engine.tries import end_of_try, was_finished
from valor_gpu.evaluation.engine.work import Work
from valor_gpu.evaluation.result import EvaluationResult
from valor_gpu.evaluation.results.common_errors import without_scores
from valor_gpu.evaluation.results.summary import run_summary
from valor_gpu.evaluation.targets.asked import AskedTarget
from valor_gpu.evaluation.targets.base import ERROR
from valor_gpu.judge.cache import JudgeCache
from valor_gpu.judge.causes import was_not_asked
from valor_gpu.judge.metrics.guard import GuardMetric
from valor_gpu.judge.metrics.ratings import RatingMetric
from valor_gpu.judge.protocol import Messages, Reply, Schema, Status, describe
from valor_gpu.judge.scheduler import Scheduler
from valor_gpu.judge.stream import open_scheduler
from valor_gpu.store import Run, Store
from valor_gpu.store.tries import last_try, note_try

FINISHED, STOPPED, BROKEN = "finished", "stopped", "failed"


class EvaluationInterrupted(KeyboardInterrupt):
    """Ctrl-C stopped a run, which can be resumed.

    Attributes:
        result: of the run as far as it came.
    """

    def __init__(self, result: EvaluationResult) -> None:
        super().__init__()
        self.result = result


def execute(
    plan: Plan, store: Store, run: Run, works: Iterator[Work], tracking_uri: str | None = None
) -> EvaluationResult:
    """Takes rows through a run, ends the run, and writes its files.

    Args:
        plan: of the run.
        store: that has it.
        run: not leased.
        works: its rows.
        tracking_uri: of MLflow, where the result is logged.

    Raises:
        RowFailed: a row failed and ``on_error`` is ``raise``.
        EvaluationInterrupted: Ctrl-C.
    """
    error: BaseException | None = None
    with run.lease(), Live(plan, run) as live:
        reason, before = "", run.finished_summary or {}
        note_try(run, "")
        if (config := {**plan.config.to_dict(), "grammar": run.config.get("grammar", 1)}) != run.config:
            run.reconfigure(config)
        try:
            with _scheduler(plan, store, run) as scheduler:
                _allow_for_rejections(plan, run, scheduler)
                _read_again(plan, run, scheduler)
                live.begin()
                pipeline = Pipeline(plan, live, scheduler)
                pipeline.work(works)
                reason = pipeline.stopped
                if scheduler is not None:
                    _warn_of(scheduler)
        except BaseException as raised:
            error = raised
            ctrl_c = isinstance(raised, KeyboardInterrupt)
            reason = "interrupted by Ctrl-C" if ctrl_c else plan.services.secrets.message(describe(raised))
        interrupted = error is None or isinstance(error, KeyboardInterrupt)
        state, why = (STOPPED if reason else FINISHED) if interrupted else BROKEN, reason
        with contextlib.suppress(*((StoreError, LeaseError) if error is not None else ())):
            live.phase("ending")
            has_moved = settle_parts(run, run.config.get("evaluators") or ())
            live.end(has_moved)
            if state != FINISHED and was_finished(before):
                state, why = end_of_try(run, state, reason)
            _finish(run, state, why, live.seconds)
            if state == FINISHED:
                remove_journal(store, run.id)
    return _outcome(plan, store, run, reason, error, tracking_uri)


def _allow_for_rejections(plan: Plan, run: Run, scheduler: Scheduler | None) -> None:
    """Allows for what was rejected before: a resumed run may begin with it, and must come to the rows behind it."""
    if scheduler is not None:
        names = {each.name for each in plan.judged}
        failed = [each.n_failed for name, each in run.summary().items() if name in names]
        scheduler.causes.rejected_before = sum(each.get(Status.BAD_REQUEST, 0) for each in failed)
    if isinstance(target := plan.services.target, AskedTarget) and run.counts().get(ERROR):
        target.rejected_before = sum(row.status == ERROR and not was_not_asked(row.error) for row in run.stream_rows())


def _read_again(plan: Plan, run: Run, scheduler: Scheduler | None) -> None:
    """Reads the replies of scores again that an older grammar read; then the run is one of the present grammar."""
    config = plan.config.to_dict()

    def tell(note: str) -> None:
        warnings.warn(f"run {run.id} has {note}", UserWarning, stacklevel=6)
        if note not in config["notes"]:  # a process that was killed may have told so
            config["notes"] = [*config["notes"], note]
            run.reconfigure({**config, "grammar": run.config.get("grammar", 1)})

    if scheduler is not None:
        from valor_gpu.evaluation.engine.reread import reread_scores  # here since runs with a judge alone need it

        reread_scores(plan, run, scheduler, tell)
    if config["grammar"] != run.config["grammar"]:
        run.reconfigure(config)


def _outcome(
    plan: Plan, store: Store, run: Run, reason: str, error: BaseException | None, tracking_uri: str | None
) -> EvaluationResult:
    """The result, or the error that ended the run."""
    if type(error) is StoreError:
        raise StoreError(f"{error}; run {run.id} can be resumed once that is mended") from error
    if error is not None and not isinstance(error, (KeyboardInterrupt, RowFailed)):
        raise error
    result = EvaluationResult(store, run, plan.config.output_path)
    if error is None and reason:
        ended = "is finished as before, since trying its failures again ended early" if last_try(run) else "stopped"
        warnings.warn(f"run {run.id} {ended}, and can be resumed: {reason}", UserWarning, stacklevel=5)
    elif error is None and (message := without_scores(run, run.finished_summary or result.summary)):
        warnings.warn(message, UserWarning, stacklevel=5)
    if not store.path.exists():  # open connections go on with a file that has no name any more
        message = f"the store {store.path} was removed while run {run.id} went on: it ends with this process"
        warnings.warn(message, UserWarning, stacklevel=5)
    files = _write_files(plan, run)
    if tracking_uri is not None:
        from valor_gpu.evaluation.tracking import log_run

        log_run(run, tracking_uri, files)
    if isinstance(error, KeyboardInterrupt):
        raise EvaluationInterrupted(result) from None
    if isinstance(error, RowFailed):
        error.result = result
        raise error
    return result


def _write_files(plan: Plan, run: Run) -> dict[str, Path] | None:
    """Writes the files of a run; what cannot be written is a warning, since the run itself is in the store."""
    if plan.config.output_path is None:
        return None
    try:
        return write_artifacts(run, plan.config.output_path, summary=run.finished_summary, baseline=plan.baseline)
    except (OSError, InputError) as error:
        message = f"run {run.id} is in the store, but its files could not be written: {error}"
        warnings.warn(message, UserWarning, stacklevel=5)
        return None


def _finish(run: Run, state: str, reason: str, seconds: float) -> None:
    summary = run_summary(run, seconds=seconds)
    run.finish(state, {**summary, "stopped": reason or None})


@contextlib.contextmanager
def _scheduler(plan: Plan, store: Store, run: Run) -> Iterator[Scheduler | None]:
    """Opens the scheduler of the judge; gives None without judged metrics."""
    if not plan.judged:
        yield None
        return
    judge, cache = plan.services.judge, plan.cache
    journal = journal_path(store, run.id)
    if cache is None and (journal.exists() or any(_asks_several(each.tool) for each in plan.judged)):
        judge, cache = _NamedJudge(judge, run.id), journal
    with contextlib.ExitStack() as opened:
        if cache is not None:  # one of the run, so that purging it can take its replies along
            cache = opened.enter_context(JudgeCache(getattr(cache, "path", cache), run.id))
        yield opened.enter_context(open_scheduler(judge, plan.limits, cache, plan.config.seed, None))


def journal_path(store: Store, run_id: str) -> Path:
    """The file of replies of a run without a cache, beside its store.

    A judgement of several questions is stored when the last reply has come. Until then the replies before it, which
    were paid, are here. The file goes when the run has finished.
    """
    return store.path.with_name(f"{store.path.name}.{run_id}.replies")


def _asks_several(tool: Any) -> bool:
    """Returns whether a judgement may take more than one question."""
    return not (isinstance(tool, (RatingMetric, GuardMetric)) and tool.task == "qa")


class _NamedJudge:
    """A judge whose replies can be kept for its run, also that of a function without a name."""

    def __init__(self, judge: Any, run: str) -> None:
        self._judge, self._run = judge, run

    @property
    def identity(self) -> Mapping[str, Any]:
        """The judge's, else that of the run."""
        return self._judge.identity or {"kind": "callable", "run": self._run}

    async def __call__(self, messages: Messages, schema: Schema | None) -> Reply:
        """Asks the judge."""
        found: Reply = await self._judge(messages, schema)
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._judge, name)


def remove_journal(store: Store, run_id: str) -> None:
    """Removes the file of :func:`journal_path`."""
    path = journal_path(store, run_id)
    for ending in ("", "-wal", "-shm"):
        with contextlib.suppress(OSError):
            path.with_name(path.name + ending).unlink()


def _warn_of(scheduler: Scheduler) -> None:
    """Warnings of the judge that concern the whole run."""
    told = []
    if scheduler.dropped:
        told.append(f"the judge's server rejects {', '.join(scheduler.dropped)}: requests are sent without")
    if scheduler.replies.error is not None:
        told.append(f"the cache failed, replies may not be kept: {scheduler.replies.error}")
    for message in told:
        warnings.warn(message, UserWarning, stacklevel=6)
