"""Failures that every later request of a run would share: they end its asking. No torch."""

from __future__ import annotations

from valor_gpu.judge.limits import FATAL, Limits
from valor_gpu.judge.protocol import JudgeError, Status
from valor_gpu.judge.retries import GivenUp

SHARED_FAILURES = 5
"""Failures in a row, by one cause that is the same for every row, after which a run asks no more."""
_SAME_CAUSE = "requests in a row failed by the same cause"


class Causes:
    """The failures in a row of a run.

    Args:
        limits: of the run.

    Attributes:
        rejected_before: requests that the server has rejected in the run before it was resumed.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.rejected_before = 0
        self.clear()

    def clear(self) -> None:
        """Begins to count anew: a request was answered."""
        self._cause: str | None = None
        self._count = 0

    def stop_by(self, error: JudgeError, is_answered: bool) -> str | None:
        """Returns why nothing more is to be asked after a failure; None to go on.

        Args:
            error: the failure of a question.
            is_answered: whether any request of the run was answered.
        """
        if isinstance(error, GivenUp):
            return None
        # A server that is gone after all retries is gone for the next row, too.
        shared = str(error) if error.status is Status.CONNECTION_ERROR else error.shared_cause
        if shared is None and not is_answered:
            shared = error.suspect
        self._count = self._count + 1 if shared is not None and shared == self._cause else 1
        self._cause = shared
        if error.status in FATAL or self._limits.too_long(error):
            return f"an earlier request failed: {error}"
        is_suspect = shared == error.suspect
        if shared is None or self._count < SHARED_FAILURES + (self.rejected_before if is_suspect else 0):
            return None
        hint = f" ({error.hint})" if error.hint else ""
        told = f", and none was answered: {error}{hint}" if is_suspect else f": {shared}"
        return f"{self._count} {_SAME_CAUSE}{told}"


def was_not_asked(error: str) -> bool:
    """Whether a failure's message is that of a run that had stopped: it says nothing of the row that has it."""
    return _SAME_CAUSE in error
