"""A judge that keeps when its requests began."""

from __future__ import annotations

import time
from typing import Any

from valor_gpu.judge import OpenAIJudge
from valor_gpu.judge.protocol import Reply


class Watched(OpenAIJudge):
    """Keeps when each request was handed to the client."""

    def __init__(self, url: str) -> None:
        super().__init__("m", base_url=url)
        self.calls: list[float] = []

    async def __call__(self, messages: Any, schema: Any = None) -> Reply:
        self.calls.append(time.monotonic())
        return await super().__call__(messages, schema)
