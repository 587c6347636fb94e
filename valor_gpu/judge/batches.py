"""Single calls gathered into batches, for models that answer many prompts at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

from valor_gpu.judge.protocol import in_thread

A = TypeVar("A")
B = TypeVar("B")
_GATHER = 0.005  # seconds to wait for more calls before a batch that is not full begins


class Batcher(Generic[A, B]):
    """Calls that come together go together, one batch at a time, in a thread beside the event loop.

    Args:
        function: gives an answer for each of a list of arguments.
        size: largest number of arguments of a batch, at least 1.

    Example:
        >>> async def squares():
        ...     batcher = Batcher(lambda numbers: [n * n for n in numbers], size=2)
        ...     return await asyncio.gather(*(batcher(n) for n in range(3)))
        >>> asyncio.run(squares())
        [0, 1, 4]
    """

    def __init__(self, function: Callable[[list[A]], list[B]], size: int) -> None:
        self._function = function
        self.size = size
        self._waiting: list[tuple[A, asyncio.Future[B]]] = []
        self._worker: asyncio.Task[None] | None = None

    async def __call__(self, argument: A) -> B:
        """The answer for ``argument``."""
        loop = asyncio.get_running_loop()
        if self._worker is None or self._worker.done() or self._worker.get_loop() is not loop:
            self._waiting = []  # what an earlier, closed loop left
            self._worker = loop.create_task(self._work())
        future: asyncio.Future[B] = loop.create_future()
        self._waiting.append((argument, future))
        return await future

    async def _work(self) -> None:
        await asyncio.sleep(0)
        while self._waiting:
            if len(self._waiting) < self.size:
                await asyncio.sleep(_GATHER)
            batch = [pair for pair in self._waiting if not pair[1].done()][: self.size]
            taken = {id(future) for _, future in batch}
            self._waiting = [pair for pair in self._waiting if id(pair[1]) not in taken and not pair[1].done()]
            if batch:
                await self._answer(batch)

    async def _answer(self, batch: list[tuple[A, asyncio.Future[B]]]) -> None:
        arguments = [argument for argument, _ in batch]
        try:
            answers = await in_thread(lambda: self._function(arguments))
        except Exception as error:
            for _, future in batch:
                if not future.done():
                    future.set_exception(error)
            return
        for (_, future), answer in zip(batch, answers):
            if not future.done():
                future.set_result(answer)
