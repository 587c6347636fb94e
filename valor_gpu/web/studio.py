"""The state of one server, shared by its handlers."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from valor_gpu.store import Store
from valor_gpu.web.book import Book
from valor_gpu.web.errands import Errands
from valor_gpu.web.processes.readings import Readings
from valor_gpu.web.processes.trial_pool import TrialPool
from valor_gpu.web.registry import Registry
from valor_gpu.web.security import Session


@dataclass
class Studio:
    """State that handlers share.

    Attributes:
        store: of the server; any number of threads use it.
        session: of the one user.
        uploads: folder of uploaded data sets.
        registry: targets, judges and evaluators of code that forms can choose; None without any.
        memory: what views keep between requests, by their own names.
    """

    store: Store
    session: Session
    uploads: Path
    registry: Registry | None = None
    memory: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def errands(self) -> Errands:
        """Returns the trials of evaluators under way."""
        return Errands()

    @cached_property
    def readings(self) -> Readings:
        """Returns the data sets that are being read."""
        return Readings()

    @cached_property
    def trials(self) -> TrialPool:
        """Returns the processes in which evaluators are tried."""
        return TrialPool()

    @cached_property
    def book(self) -> Book:
        """Returns the entries of runs that lists show."""
        return Book(self.store)
