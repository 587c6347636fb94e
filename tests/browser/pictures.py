"""``python -m tests.browser.pictures STORE FOLDER``: pictures of docs/studio.md, of runs of make demo and of others.

The others have the answers of the demo, cut after some words, and a judge on loopback that rates them by a rule and
fails for a while, so that a run can be seen going on.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

from tests.browser.judges import KEY, VARIABLE
from tests.browser.site import NARROW, ROOT, Site, serve
from tests.judge.server import Answer, ChatServer, Request, completion, failure
from tools.browser import FLAGS, find_chromium
from valor_gpu.store import Store

MOST_BYTES = 150_000
DATA = ROOT / "examples" / "data" / "gsm8k_solutions.jsonl"
WORDS = (10, 20, 40, 80)
METRICS = ["f1_score", "rougeL", "bleu"]
_ANSWERED = 32
"""Requests that the judge answers before it fails."""


def take(page: Page, path: Path, height: int, top: int = 0) -> None:
    """Writes a picture of a page in at most 256 colours: letters stay sharp, and the file small."""
    width = page.viewport_size["width"]  # type: ignore[index]
    page.screenshot(path=path, clip={"x": 0, "y": top, "width": width, "height": height}, full_page=bool(top))
    with Image.open(path) as picture:
        few = picture.convert("RGB").quantize(256, dither=Image.Dither.NONE)
    few.save(path, optimize=True)
    if path.stat().st_size > MOST_BYTES:
        raise SystemExit(f"{path} has {path.stat().st_size:,} bytes, more than {MOST_BYTES:,}")


@dataclass
class Rule:
    """Rates by rule, and fails from a request on until it is mended."""

    mended: threading.Event = field(default_factory=threading.Event)

    def __call__(self, request: Request) -> Answer:
        """Answers a request."""
        time.sleep(0.4)
        if request.number >= _ANSWERED and not self.mended.is_set():
            return failure(503, "The model is being loaded.")
        n = len(request.text)
        said = {"reason": "Each step follows from the one before.", "score": 3 + n % 3, "status": "completed"}
        return completion(json.dumps(said), usage=(n // 4, 24))


def cut_answers(store: Path) -> list[str]:
    """Runs of the demo's answers, cut after more and more words; returns their ids. Needs the event loop."""
    from valor_gpu import evaluate

    answers = {row["question"]: row["answer_175b"] for row in map(json.loads, DATA.open(encoding="utf-8"))}

    ids = []
    for words in WORDS:

        def target(question: str, words: int = words) -> dict[str, Any]:
            return {"answer": " ".join(answers[question].split(" ")[:words])}

        target.__qualname__ = f"first_{words}_words"
        result: Any = evaluate(
            evaluation_name=f"at most {words} words",
            data=DATA,
            target=target,
            metrics_list=METRICS,
            store=store,
            tags={"words": words},
        )
        ids.append(result.run_id)
    return ids


def judged_run(store: Path, server: ChatServer) -> str:
    """A run that the server is to judge, and that nobody works on yet."""
    from valor_gpu.evaluation.engine.plan import make_plan
    from valor_gpu.evaluation.engine.settings import Settings

    settings = Settings(
        evaluation_name="word problems, judged",
        data=str(DATA),
        data_mapping={"answer": "${data.answer_175b}"},
        metrics_list=["gpt_coherence", "gpt_fluency", "gpt_similarity", "f1_score"],
        model_config={"model": "judge-1", "base_url": server.url, "api_key_env": VARIABLE},
        prices={"prompt": 2.5, "completion": 10.0, "currency": "USD"},
    )
    with Store(store) as opened:
        config = make_plan(settings, opened).config
        return opened.create_run("word problems, judged", config.to_dict(), None, config.data["hash"]).id


def shoot(site: Site, path: str, file: Path, height: int, **settings: object) -> None:
    """Takes the picture of one page."""
    with site.tab(**settings) as tab:  # type: ignore[arg-type]
        page = tab.open(path)
        page.locator("main:not([data-poll])").wait_for()
        take(page, file, height)


def still(store: Path, folder: Path, cuts: Sequence[str], browser: Browser) -> None:
    """Takes the pictures of runs that have ended."""
    with Store(store) as opened:
        large, small = [head.id for head in opened.heads() if head.name.startswith("word problems, ")][:2]
    three = "&".join(f"runs={uid}" for uid in cuts[1:])
    shots: dict[str, tuple[str, int, dict[str, Any]]] = {
        "studio_run": (f"/runs/{large}", 900, {}),
        "studio_rows": (f"/runs/{large}?sort=gpt_similarity&q=hours&open=9#rows", 900, {"color_scheme": "dark"}),
        "studio_compare": (f"/compare?runs={small}&runs={large}", 900, {}),
        "studio_narrow": (f"/runs/{large}", 844, {"viewport": NARROW}),
        "studio_three": (f"/compare?{three}", 900, {}),
        "studio_trend": ("/trend?metric=mean_rougeL&q=at+most&by=words", 700, {}),
        "studio_label": (f"/runs/{large}/label?of=gpt_similarity&order=random&seed=7", 900, {}),
    }
    with serve(store, browser) as site:
        for name, (path, height, settings) in shots.items():
            shoot(site, path, folder / f"{name}.png", height, **settings)


def going_on(store: Path, folder: Path, browser: Browser) -> None:
    """Takes the pictures of a run while it goes on, and of a trace once it has ended."""
    rule = Rule()
    with (
        ChatServer(rule) as server,
        serve(store, browser, **{VARIABLE: KEY}) as site,
        site.tab() as tab,
    ):
        run = judged_run(store, server)
        page = tab.open(f"/runs/{run}")
        page.get_by_role("button", name="Start", exact=True).click()
        page.get_by_text("for a retry").wait_for(timeout=60_000)
        take(page, folder / "studio_running.png", 800)
        rule.mended.set()
        page.locator(".badge.finished").wait_for(timeout=120_000)
        page = tab.open(f"/runs/{run}/rows/3")
        trace = page.locator("details.trace").first
        trace.locator("summary").first.click()
        box = trace.bounding_box()
        assert box is not None
        take(page, folder / "studio_trace.png", 800, int(box["y"]) - 60)


def main(store: Path, folder: Path) -> None:
    """Takes all pictures."""
    os.environ[VARIABLE] = KEY
    with tempfile.TemporaryDirectory() as place:
        copy = Path(place) / "store.sqlite"
        shutil.copy(store, copy)
        cuts = cut_answers(copy)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=find_chromium(), args=FLAGS)
            still(copy, folder, cuts, browser)
            going_on(copy, folder, browser)
            browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
