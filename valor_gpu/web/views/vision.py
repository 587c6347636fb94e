"""The page of a saved result of detection, segmentation or classification: numbers, classes, curves, images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from starlette.exceptions import HTTPException
from starlette.responses import FileResponse, Response

from valor_gpu.evaluation.report.bounds import short
from valor_gpu.evaluation.results.summary import run_summary
from valor_gpu.pages import charts, numbers
from valor_gpu.pages.charts import Estimate
from valor_gpu.report.titles import words_of
from valor_gpu.store import Run, StoredRow, StoredScore
from valor_gpu.store.saved import VISION
from valor_gpu.web.plain import plain_summary
from valor_gpu.web.render import page
from valor_gpu.web.routes import Ask, get, missing, see
from valor_gpu.web.rows.run_rows import find_run
from valor_gpu.web.vision.class_images import class_images
from valor_gpu.web.vision.pictures import picture_file, scene
from valor_gpu.web.vision.tables import class_table, confusions, headline

IMAGES = 24
"""Images on a page, the worst first."""
_CURVES = 24
_WIDE = 880.0
_KEPT = 32


def vision(ask: Ask) -> Response:
    """The page of a saved result."""
    run = find_run(ask)
    if run.config.get("kind") not in VISION:
        return see(f"/runs/{run.id}")
    summary = plain_summary(run.finished_summary or {})
    scores = _scores(ask, run)
    first = next(iter(scores), "")
    wanted = ask.query.get("class", "") if first else ""
    found, after = _worst_of_class(ask, run, wanted) if wanted else _worst(ask, run, first)
    return page(
        ask,
        "vision.html",
        run={"id": run.id, "name": short(run.name) or "Result", "state": run.state},
        facts=list(_facts(run, summary)),
        tags=[f"{short(name)}: {short(value)}" for name, value in list(run.tags.items())[:20]],
        notes=[short(note, 2000) for note in run.config.get("notes") or ()],
        figures=headline(summary),
        scores=[_score_figure(name, each) for name, each in scores.items()],
        classes=class_table(summary, ask.query),
        class_links=bool(first) and run.config["kind"] in ("detection", "classification"),
        wanted=short(wanted, 200),
        why_none=_why_no_images(run),
        curves=_curves(summary, "curves" in ask.query),
        confusion=confusions(summary, "matrix" in ask.query),
        images=found,
        drawn=any(each["picture"] for each in found),
        boxes=any(each["n_shapes"] for each in found),
        what="samples" if run.config["kind"] == "classification" else "images",
        by=words_of(first),
        following=after,
        has_folder=bool((run.config.get("images") or {}).get("folder")),
        settings=[(words_of(name), short(value)) for name, value in (run.config.get("settings") or {}).items()],
    )


def _facts(run: Run, summary: Mapping[str, Any]) -> list[tuple[str, str, bool]]:
    """Name, text and whether it is code."""
    config, counts = run.config, summary.get("counts") or {}
    signature = config.get("signature") or {}
    counted = ", ".join(f"{n:,} {words_of(name)}" for name, n in counts.items() if n)
    made = datetime.fromtimestamp(run.created).strftime("%d %b %Y, %H:%M")
    classes = max((len(column) for column in (summary.get("classes") or {}).values()), default=0)
    task = ", ".join(filter(None, [config["kind"], f"{classes:,} classes" if classes else ""]))
    source = str((config.get("data") or {}).get("source") or "")
    return [
        ("Data", short(source.replace("\\", "/").rsplit("/", 1)[-1]) or numbers.NOTHING, False),
        ("Task", task, False),
        ("Counted", short(counted, 500) or numbers.NOTHING, False),
        ("Saved", f"{made}, by {short(config.get('saved_by', ''))}", False),
        ("Signature", short(" | ".join(f"{name} {_choice(value)}" for name, value in signature.items()), 600), True),
    ]


def _choice(value: Any) -> str:
    return ",".join(map(_choice, value)) if isinstance(value, list) else "none" if value is None else str(value)


def _scores(ask: Ask, run: Run) -> dict[str, dict[str, Any]]:
    """What the scores of the images amount to; of a run that has ended it is computed once."""
    memory: dict[str, dict[str, Any]] = ask.studio.memory.setdefault("vision", {})
    if run.id not in memory:
        memory[run.id] = run_summary(run)["evaluators"] if run.config.get("evaluators") else {}
        while len(memory) > _KEPT:
            memory.pop(next(iter(memory)), None)
    return memory[run.id]


def _score_figure(name: str, found: Mapping[str, Any]) -> dict[str, Any]:
    mean, ends = found.get("mean"), found.get("interval")
    between, chart = "", ""
    if mean is not None and ends:
        between = f"95% interval {numbers.span(ends[0], ends[1], 3)}"
        chart = charts.interval(
            Estimate(mean, *ends), (0.0, 1.0), f"{name} {mean:.3f}, {between}", zero=None, width=130
        )
    without = found.get("n_not_judged") or 0
    return {
        "name": words_of(name),
        "value": numbers.number(mean, 3),
        "between": between,
        "chart": chart,
        "n": found.get("n_scores", 0),
        "without": without,
    }


def _curves(summary: Mapping[str, Any], everything: bool) -> dict[str, Any]:
    kept: Sequence[Mapping[str, Any]] = summary.get("curves") or ()
    classes = summary.get("classes") or {}
    values: Mapping[str, float | None] = classes.get("map") or classes.get("average_precision") or {}
    drawn = []
    for each in kept if everything else kept[:_CURVES]:
        value = values.get(each["name"])
        shown = "" if value is None else numbers.number(value, 3)
        lines = [[(float(r), float(p)) for r, p in line["points"]] for line in each["lines"]]
        label = f"precision over recall of {each['name']}" + (f", AP {shown}" if shown else "")
        drawn.append({"name": short(each["name"]), "value": shown, "chart": charts.curve(lines[:2], label)})
    legend = [line["name"] for line in kept[0]["lines"] if line["name"]] if kept else []
    return {"drawn": drawn, "total": len(kept), "legend": legend[:2], "all": everything}


def _worst(ask: Ask, run: Run, score: str) -> tuple[list[dict[str, Any]], str | None]:
    """Images of the lowest score, and behind which the next page begins."""
    if not score:
        return [], None
    found = run.score_page(score, _after(ask.query.get("after", ""), score), IMAGES + 1, False, 0, None)
    shown = found[:IMAGES]
    rows = {row.number: row for row in run.rows(numbers=[each.row for each in shown])}
    has_folder = bool((run.config.get("images") or {}).get("folder"))
    images = [_image(run, rows[each.row], each, has_folder) for each in shown if each.row in rows]
    following = f"{shown[-1].value!r}:{shown[-1].row}" if len(found) > IMAGES and shown[-1].value is not None else None
    return images, following


def _worst_of_class(ask: Ask, run: Run, name: str) -> tuple[list[dict[str, Any]], str | None]:
    """Images with a class in them, the worst of it first, and behind how many the next page begins."""
    everything = class_images(ask, run).get(name, ())
    text = ask.query.get("after", "")
    start = int(text) if text.isdecimal() and len(text) < 9 else 0
    shown = everything[start : start + IMAGES]
    rows = {row.number: row for row in run.rows(numbers=[each.row for each in shown])}
    has_folder = bool((run.config.get("images") or {}).get("folder"))
    images = []
    for each in shown:
        scores = list(run.scores(first=each.row, last=each.row))
        if each.row not in rows or not scores:
            continue
        best = next((score for score in scores if score.details), scores[0])
        why = f"{each.found:,} found, {each.wrong:,} wrong, {each.missed:,} missed of this class"
        drawn = _image(run, rows[each.row], best, has_folder)
        images.append({**drawn, "value": numbers.number(each.f1, 3), "why": why})
    following = start + IMAGES if start + IMAGES < len(everything) else None
    return images, None if following is None else str(following)


_NO_IMAGES = {
    "Valor": "An evaluation of valor_gpu.valor keeps numbers and labels, and not what was in each datum.",
    "LVISEval": "LVIS counts a class only in the images where it was checked, and its images are not kept.",
}


def _why_no_images(run: Run) -> str:
    metric = str((run.config.get("signature") or {}).get("metric", ""))
    bare = "A result has numbers and no images: saving the COCOeval itself, or by a command with --store, keeps them."
    return _NO_IMAGES.get(metric, bare)


def _after(text: str, score: str) -> StoredScore | None:
    value, _, row = text.rpartition(":")
    if not row.isdecimal() or len(row) > 15 or int(row) < 1:
        return None
    try:
        return StoredScore(int(row), score, 0, float(value))
    except ValueError:
        return None


def _image(run: Run, row: StoredRow, score: StoredScore, has_folder: bool) -> dict[str, Any]:
    name = short(row.inputs.get("image") or row.key)
    shapes = (score.details or {}).get("shapes") or []
    address = _address(run, row)
    size = row.inputs if shapes or address else {}
    value = numbers.number(score.value, 3)
    counts = ", ".join(f"{n:,} {words_of(each)}" for each, n in row.outputs.items() if isinstance(n, int) and n)
    if "ground_truth" in row.inputs:
        counts = f"{row.inputs['ground_truth']} taken for {row.outputs.get('answer', '')}"
    return {
        "number": row.number,
        "name": name,
        "value": value,
        "why": short(counts),
        "n_shapes": len(shapes),
        "picture": scene(size, shapes, address, f"{name}: {words_of(score.evaluator)} {value}, {counts}"),
        "lacks_picture": has_folder and not address,
    }


def _address(run: Run, row: StoredRow) -> str:
    """Of the picture of an image; empty where there is none to show."""
    folder = (run.config.get("images") or {}).get("folder")
    try:
        return f"/runs/{run.id}/images/{row.number}" if folder and picture_file(folder, row.inputs.get("image")) else ""
    except HTTPException:
        return ""


def image(ask: Ask) -> Response:
    """The page of one image: its picture, its numbers and its objects."""
    run, number = find_run(ask), ask.path["number"]
    row = next(iter(run.rows(numbers=[number])), None)
    if row is None or run.config.get("kind") not in VISION:
        raise missing(f"Run {run.id} has no image {number}.")
    scores = list(run.scores(first=number, last=number))
    shapes = next(((each.details or {}).get("shapes") for each in scores if each.details), None) or []
    address = _address(run, row)
    name = short(row.inputs.get("image") or row.key)
    return page(
        ask,
        "vision_image.html",
        run={"id": run.id, "name": short(run.name) or "Result"},
        number=number,
        name=name,
        picture=scene(row.inputs if shapes or address else {}, shapes, address, f"{name} with its boxes", _WIDE),
        scores=[(words_of(each.evaluator), numbers.number(each.value, 3)) for each in scores],
        counts=[(words_of(each), short(value)) for each, value in (*row.outputs.items(), *row.inputs.items())],
        objects=[_object(each) for each in shapes],
        not_drawn=row.outputs.get("not_drawn", 0),
        following=next((each.number for each in run.rows(number, 1)), None),
    )


def _object(shape: Mapping[str, Any]) -> tuple[str, str, str, str]:
    """What it is, its class, its score and its box."""
    kinds = {("truth", True): "found", ("truth", False): "missed", ("prediction", True): "right"}
    kind = kinds.get((str(shape.get("of")), bool(shape.get("right"))), "wrong")
    box = ", ".join(numbers.number(side, 1) for side in shape.get("box") or () if isinstance(side, (int, float)))
    of = "truth" if shape.get("of") == "truth" else "prediction"
    return f"{of}, {kind}", short(shape.get("name", "")), numbers.number(shape.get("score"), 2), box


def picture(ask: Ask) -> Response:
    """The picture of an image of a run: only a file that the run names, in the folder that it was saved with."""
    run = find_run(ask)
    row = next(iter(run.rows(numbers=[ask.path["number"]])), None)
    folder = (run.config.get("images") or {}).get("folder")
    if row is None or not folder:
        raise missing(f"Run {run.id} has no picture {ask.path['number']}.")
    path, media = picture_file(folder, row.inputs.get("image"))
    return FileResponse(path, media_type=media)


ROUTES = [
    get("/runs/{run}/vision", vision),
    get("/runs/{run}/image/{number:number}", image),
    get("/runs/{run}/images/{number:number}", picture),
]
