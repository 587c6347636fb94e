"""``python -m tests.browser.seed STORE``: runs of every kind that pages show, with texts that try to become markup."""

from __future__ import annotations

import json
import os
import random
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from valor_gpu.store import SavedRun

MARKUP = "<script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">"
RULE = "No. A reserved e-book returns by itself at the end of the loan."


def rows(n: int) -> list[dict[str, Any]]:
    """Questions and answers; every tenth answer is markup, one has a very long word."""
    draw = random.Random(3)
    answers = [RULE, "Yes, twice, for as long as nobody else has reserved it.", "Films are 0.30 a day."]
    found = [
        {
            "question": f"Can I renew e-book number {number} that somebody else has reserved?",
            "context": "6.1 Films: 0.30 per day. 6.2 An e-book returns by itself, and a reserved one is not renewed.",
            "answer": draw.choice(answers) if number % 10 else f"{MARKUP} {number}",
            "ground_truth": RULE,
        }
        for number in range(1, n + 1)
    ]
    found[3]["answer"] = "unbroken" * 60
    return found


def judge(seed: int) -> Any:
    """A judge that rates by chance, and in one answer of twenty says nothing that can be read."""
    draw = random.Random(seed)

    def answer(messages: Any) -> str:
        text = " ".join(message["content"] for message in messages).lower()
        if draw.random() < 0.05:
            return f"I would rather not say. {MARKUP}"
        score = draw.choice([0, 0, 0, 1, 2, 4, 6] if "severity" in text else [1, 2, 3, 4, 5, 5, 5])
        return json.dumps({"reason": "The context gives the rule.", "score": score, "status": "completed"})

    return answer


def conversations() -> list[dict[str, Any]]:
    """Conversations of two turns."""
    turns = [("user", "May I renew it?"), ("assistant", RULE), ("user", "And a film?"), ("assistant", MARKUP)]
    return [{"messages": [{"role": role, "content": text} for role, text in turns]} for _ in range(6)]


class Shelves:
    """A detection result whose names try to become markup."""

    def to_run(self) -> SavedRun:
        """Thirty images of two classes."""
        from valor_gpu.store import SavedImage, SavedRun

        draw = random.Random(4)
        names = ("paperback", f"map roll {MARKUP}")
        images = []
        for n in range(30):
            shapes = [
                {"of": of, "name": draw.choice(names), "box": [20 + 60 * k, 40, 50, 90], "right": draw.random() < 0.7}
                | ({"score": 0.5} if of == "prediction" else {})
                for k in range(4)
                for of in ("truth", "prediction")
            ]
            inputs = {"image": f"shelf_{n:03} {MARKUP}.jpg", "width": 320, "height": 200}
            counts = {"found": 3, "wrong": 1, "missed": 1}
            images.append(SavedImage(str(n), inputs, counts, {"image_f1": round(draw.random(), 3)}, shapes))
        lines = [{"name": f"IoU {iou:.2f}", "points": [[0, 1], [1 - iou, 0.8], [1, 0.1]]} for iou in (0.5, 0.75)]
        return SavedRun(
            "detection",
            {"metric": "COCOeval", "iou_type": "bbox"},
            {"map": 0.487, "map_50": 0.704, "map_small": None},
            counts={"images": 30, "ground_truths": 120},
            reasons={"map_small": "no ground truth counts for it"},
            intervals={"map": (0.481, 0.493)},
            classes={"map": {name: draw.random() for name in names}, "ground_truths": dict.fromkeys(names, 60)},
            curves=[{"name": name, "lines": lines} for name in names],
            matrix={"names": [*names, ""], "background": [2], "counts": [[0, 0, 50], [0, 1, 4], [1, 1, 40], [2, 0, 9]]},
            settings={"IoU threshold": 0.5},
            images=images,
        )


def boxes(shift: float) -> Any:
    """Detections of thirty images, each with two objects of two classes; ``shift`` moves them, in pixels."""
    import contextlib
    import io

    from valor_gpu.coco import COCO, COCOeval

    draw = random.Random(3)
    names = ["shelf", MARKUP]
    truth: dict[str, Any] = {
        "images": [{"id": i, "width": 100, "height": 80, "file_name": f"{i}.jpg"} for i in range(1, 31)],
        "categories": [{"id": i, "name": name} for i, name in enumerate(names, 1)],
        "annotations": [],
    }
    found = []
    for i in range(60):
        box = [draw.randint(0, 50), draw.randint(0, 40), 20, 20]
        at = {"image_id": i // 2 + 1, "category_id": i % 2 + 1}
        truth["annotations"].append({"id": i + 1, **at, "bbox": box, "area": 400, "iscrowd": 0})
        moved = [box[0] + shift * draw.random(), box[1] + shift * draw.random(), 20, 20]
        found.append({**at, "bbox": moved, "score": draw.random()})
    with contextlib.redirect_stdout(io.StringIO()):
        ground_truth = COCO()
        ground_truth.dataset = truth
        ground_truth.createIndex()
        evaluation = COCOeval(ground_truth, ground_truth.loadRes(found), "bbox")
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    return evaluation


def main(path: Path) -> None:
    """Fills the store: three runs to compare, conversations, and one that stopped."""
    from valor_gpu import evaluate
    from valor_gpu.store import Feedback, Store, StoredRow

    os.environ["VALOR_GPU_STORE"] = str(path)
    metrics = ["gpt_groundedness", "gpt_relevance", "violence", "sexual", "f1_score", "rougeL", "exact_match"]
    for k, name in enumerate(("Prompt one", f"Prompt two {MARKUP}", "Prompt three")):
        result: Any = evaluate(
            evaluation_name=name,
            data=rows(40),
            task_type="qa",
            metrics_list=metrics,
            judge=judge(k),
            thresholds={"gpt_groundedness": 4},
            tags={"prompt": f"v{k}"},
        )
        result.run.add_feedback(Feedback(2, "gpt_groundedness", "me", 4.0, True, f"as I read it {MARKUP}"))
    evaluate(
        evaluation_name="Conversations",
        data=conversations(),
        task_type="chat",
        metrics_list=["gpt_relevance", "violence"],
        judge=judge(5),
    )
    with Store(path) as store:
        store.save(Shelves(), "Shelves", tags={"model": "m"}, data={"source": "shelves.json"})
        for shift, name in ((4.0, "Boxes"), (8.0, "Moved")):
            store.save(boxes(shift), name, data={"source": "boxes.json"})
        run = store.create_run(
            "Stopped early", {"version": 1, "evaluators": [], "data": {"source": "x.csv", "rows": 9}}
        )
        with run.lease():
            run.add_rows([StoredRow(1, "k1", {"question": "one", "answer": "of nine"})])
            run.finish("stopped", {"stopped": "The limit of cost was reached."})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
