"""A judge on loopback that is slow, fails and dies as a test says, and runs that it is to rate."""

from __future__ import annotations

import json
import math
import re
import socket
import threading
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from playwright.sync_api import Browser

from tests.browser.site import Site, serve
from tests.judge.server import Answer, ChatServer, Request, completion, failure

KEY, VARIABLE = "a-word-for-tests", "BROWSER_TEST_KEY"
_ROW = re.compile(r"#(\d+)")
MOST_SECONDS = 280  # that an answer is held: less than a test may take


@dataclass
class Judge:
    """Rates each row by its number, which stands behind ``#`` in its question, and has the troubles of its rows.

    Attributes:
        free: requests that are answered at once; the others wait for :attr:`released`, as those of stuck rows do.
        broken: rows that are always answered by HTTP 500.
        stumbles: rows that are answered by HTTP 500 when they are asked for the first time.
        limited: rows that are answered by HTTP 429 and ``Retry-After: 1`` when they are asked for the first time.
        unreadable: rows whose answer is a sentence without a rating.
        stuck: rows whose answers wait for :attr:`released`.
        refuses: whether the key is refused by HTTP 401.
        released: lets all answers go.
        asked: requests of each prompt.
    """

    free: float = math.inf
    broken: Collection[int] = ()
    stumbles: Collection[int] = ()
    limited: Collection[int] = ()
    unreadable: Collection[int] = ()
    stuck: Collection[int] = ()
    refuses: bool = False
    released: threading.Event = field(default_factory=threading.Event)
    asked: Counter[str] = field(default_factory=Counter)

    def __call__(self, request: Request) -> Answer | str:
        """Answers a request."""
        prompt = prompt_of(request)
        found = _ROW.search(prompt)
        row = int(found[1]) if found else 0
        first = not self.asked[prompt]
        self.asked[prompt] += 1
        if row in self.stuck or request.number >= self.free:
            self.released.wait(MOST_SECONDS)
        if self.refuses:
            return failure(401, "the key is not valid here")
        if row in self.broken or (first and row in self.stumbles):
            return failure(500, "the model ran out of memory")
        if first and row in self.limited:
            return failure(429, "too many requests", retry_after="1")
        return completion("I would rather not say." if row in self.unreadable else rating(row), usage=(200, 20))


def prompt_of(request: Request) -> str:
    """The messages of a request, which name a prompt."""
    return json.dumps(request.body["messages"])


def rating(row: int) -> str:
    """What the judge says of a row."""
    return json.dumps({"reason": f"Rated by rule, row {row}.", "score": 1 + row % 5})


class MortalServer(ChatServer):
    """A server whose process seems to die and to be started again at the same port."""

    def die(self) -> None:
        """Closes the port and all connections."""
        self.unlisten()
        for each in list(self.sockets):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def live(self) -> None:
        """Serves again at its port."""
        self.listen(self.httpd.server_address[1])


def write_rows(path: Path, n: int) -> None:
    """Writes a CSV file of questions and answers; every third answer equals its ground truth."""
    lines = [f"What is #{k}?,It is {k}.,It is {k if k % 3 == 0 else k + 1}." for k in range(1, n + 1)]
    path.write_text("\n".join(["question,answer,ground_truth", *lines, ""]))


@dataclass
class Bench:
    """Studio with a judge of ours.

    Attributes:
        site: the server of Studio.
        server: that of the judge.
        judge: what it says.
        store: file of the runs.
        data: file of the rows.
    """

    site: Site
    server: MortalServer
    judge: Judge
    store: Path
    data: Path


@contextmanager
def bench(folder: Path, browser: Browser, judge: Judge, n: int) -> Iterator[Bench]:
    """Serves Studio and a judge whose tokens have a price, beside a file of ``n`` rows."""
    write_rows(folder / "rows.csv", n)
    store, registry = folder / "store.sqlite", folder / "studio.json"
    with MortalServer(judge) as server:
        registry.write_text(json.dumps({"judges": {"ours": config_of(server)}}))
        with serve(store, browser, "--registry", str(registry), **{VARIABLE: KEY}) as site:
            yield Bench(site, server, judge, store, folder / "rows.csv")
        judge.released.set()


def config_of(server: ChatServer) -> dict[str, object]:
    """The judge as a registry has it."""
    prices = {"prompt": 100.0, "completion": 400.0}
    return {"model": "stub", "base_url": server.url, "api_key_env": VARIABLE, "prices": prices}


def add_run(found: Bench, name: str, metrics: list[str], concurrency: int = 4) -> str:
    """Makes a run that nobody works on yet; returns its id."""
    from valor_gpu.evaluation.engine.plan import make_plan
    from valor_gpu.evaluation.engine.settings import Settings
    from valor_gpu.store import Store

    judge = config_of(found.server)
    settings = Settings(
        evaluation_name=name,
        data=str(found.data),
        task_type="qa",
        metrics_list=metrics,
        prices=judge.pop("prices"),  # type: ignore[arg-type]
        model_config=judge,
        max_concurrency=concurrency,
    )
    with Store(found.store) as store:
        config = make_plan(settings, store).config
        return store.create_run(name, config.to_dict(), None, config.data["hash"]).id
