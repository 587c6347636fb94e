"""What went wrong in a run, one entry a row or score; read from the store a page at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from valor_gpu.evaluation.results.common_errors import CommonError, common_errors
from valor_gpu.store.columns import Columns
from valor_gpu.store.records import OK
from valor_gpu.store.runs import Run

PAGE = 500
_SHOWN = 5


class Failures:
    """Rows without an answer, then scores without a value.

    It has a length, is true where there is any, and can be read as often as one likes. Each entry is a dict: ``number``
    and ``key`` of the row, ``evaluator`` (None where the row itself failed), ``repeat``, ``status`` and ``error``.

    Args:
        run: of a store.

    Example:
        >>> import tempfile
        >>> from valor_gpu.store import Store, StoredRow
        >>> with tempfile.TemporaryDirectory() as folder, Store(folder + "/store.sqlite") as store:
        ...     run = store.create_run("capitals", {})
        ...     added = run.add_rows([StoredRow(1, "fr", {}, {}, "timeout", "no answer in 60 s")])
        ...     Failures(run).counts(), list(Failures(run))[0]["error"]
        ({'timeout': 1}, 'no answer in 60 s')
    """

    def __init__(self, run: Run) -> None:
        self._run = run

    def counts(self) -> dict[str, int]:
        """How many there are of each status; of scores as ``<evaluator>: <status>``."""
        found = {status: n for status, n in self._run.counts().items() if status != OK}
        columns = Columns(self._run)
        for name in columns.evaluators():
            for status in columns.failures(name)[1]:
                found[f"{name}: {status}"] = found.get(f"{name}: {status}", 0) + 1
        return found

    def common(self) -> list[CommonError]:
        """The errors by metric and status, the most frequent first, each with its most frequent cause."""
        return common_errors(self._run)

    def __len__(self) -> int:
        return sum(self.counts().values())

    def __iter__(self) -> Iterator[dict[str, Any]]:
        yield from self._rows()
        for name in Columns(self._run).evaluators():
            yield from self._scores(name)

    def _rows(self) -> Iterator[dict[str, Any]]:
        for status in sorted(self._run.counts().keys() - {OK}):
            after = 0
            while page := self._run.rows(after, PAGE, status):
                for row in page:
                    about = {"number": row.number, "key": row.key, "evaluator": None, "repeat": 0}
                    yield {**about, "status": row.status, "error": row.error}
                after = page[-1].number

    def _scores(self, name: str) -> Iterator[dict[str, Any]]:
        numbers = sorted(set(Columns(self._run).failures(name)[0]))
        for start in range(0, len(numbers), PAGE):
            for row in self._run.rows(numbers=numbers[start : start + PAGE]):
                for score in self._run.scores(name, first=row.number, last=row.number):
                    if score.value is None:
                        about = {"number": row.number, "key": row.key, "evaluator": name, "repeat": score.repeat}
                        yield {**about, "status": score.status, "error": score.reason}

    def __repr__(self) -> str:
        counts = self.counts()
        if not counts:
            return "Failures: none"
        parts = [f"{n} {status}" for status, n in sorted(counts.items(), key=lambda each: -each[1])]
        more = f" and {len(parts) - _SHOWN} other kinds" if len(parts) > _SHOWN else ""
        return f"Failures: {', '.join(parts[:_SHOWN])}{more}"
