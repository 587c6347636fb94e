"""``python -m tests.browser.parts.store STORE``: a draft and versions of an evaluator beside the seeded runs."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.browser import seed
from tests.web.pages import client, send
from valor_gpu.evaluation.evaluators.saved import save_evaluator
from valor_gpu.store import Store

PROMPT = "Rate from 1 to 5 how polite this is, as JSON: {{ answer }}\n"
CSV = b"question,passages,answer,expected\nWhat is 1?,One.,It is one.,one\nWhat is 2?,,It is two.,two\n"


def main(path: Path) -> None:
    """Fills the store; where the file is there already, it has the seeded runs."""
    if not path.exists():
        seed.main(path)
    with Store(path) as store:
        save_evaluator(store, "polite", PROMPT, "first words", parameters={"scale": [1, 5]})
        save_evaluator(store, "polite", PROMPT + "Be strict.\n", "stricter", parameters={"scale": [1, 5]})
    browser = client(path)
    draft = str(browser.get("/new").url.path).rsplit("/", 1)[0]
    send(browser, f"{draft}/basics", {"name": "parts", "scenario": "context", "source": "data"})
    send(browser, f"{draft}/data", {"do": "load"}, files={"file": ("rows.csv", CSV)})
    send(browser, f"{draft}/data", {"do": "use:context:passages"})
    metrics = ["gpt_groundedness", "violence", "f1_score", "bleu_score"]
    send(browser, f"{draft}/metrics", {"metric": metrics, "level": "Medium", "do": "settings"})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
