"""The benchmark of error analysis: CPU seconds of TIDE, oLRP, thresholds, tables and slices beside other libraries.

Files are read, matched and accumulated before the clock runs, where a library has these as steps of their own.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks import machine
from benchmarks.baselines import OURS
from benchmarks.in_turn import clocked, conditions, measure_in_turn, row_of
from testing.datasets import CASES as DETECTION
from testing.formats import cached

CASES = ("tide", "olrp", "thresholds", "tables", "slices-10", "slices-1000")
SIZES = (5_000, 100)
"""Images, generated at the scale of val2017."""
TEXT = {
    "tide": "TIDE: eight gains and counts",
    "olrp": "oLRP and its parts, every class",
    "thresholds": "threshold of the best F1, every class",
    "tables": "outcome of every image and object",
    "slices-10": "10 slices of the images",
    "slices-1000": "1,000 slices of the images, every class",
}

Run = Callable[[], Any]
"""Computes, and gives a number to look at."""


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    with contextlib.redirect_stdout(io.StringIO()):
        yield


def _files(size: int, data: str) -> tuple[str, str]:
    files = cached(DETECTION["val2017"], size, 0, Path(data))
    return str(files.gt), str(files.dt)


def _evaluated(size: int, data: str) -> Any:
    from valor_gpu.coco import COCO, COCOeval

    gt, dt = _files(size, data)
    with _quiet():
        truth = COCO(gt)
        evaluator = COCOeval(truth, truth.loadRes(dt), "bbox")
        evaluator.evaluate()
        evaluator.accumulate()
    return evaluator


def _ours(ask: Callable[[Any], Any]) -> Callable[[str, int, str], Run]:
    def prepare(case: str, size: int, data: str) -> Run:
        ask(_evaluated(10, data).result())  # imports and first calls
        result = _evaluated(size, data).result()
        return lambda: ask(result)

    return prepare


def _images(case: str) -> int:
    return int(case.rpartition("-")[2])


def _slices_ours(case: str, size: int, data: str) -> Run:
    names = ("map", "map_50", "map_per_class")

    def ask(evaluator: Any) -> Any:
        ids = sorted(evaluator.params.imgIds)
        table = {"image_id": ids, "slice": [place % _images(case) for place in range(len(ids))]}
        return len(evaluator.result().by(table, "slice", numbers=names))

    ask(_evaluated(10, data))
    evaluator = _evaluated(size, data)
    return lambda: ask(evaluator)


def _accumulation_ours(case: str, size: int, data: str) -> Run:
    evaluator = _evaluated(size, data)

    def run() -> float:
        with _quiet():
            evaluator.accumulate()
            return float(evaluator.result().values["map"])

    run()
    return run


def _hotcoco(ask: Callable[[Any, str], Any]) -> Callable[[str, int, str], Run]:
    def prepare(case: str, size: int, data: str) -> Run:
        import hotcoco

        gt, dt = _files(size, data)
        truth = hotcoco.COCO(gt)
        evaluator = hotcoco.COCOeval(truth, truth.load_res(dt), "bbox")
        evaluator.evaluate()
        evaluator.accumulate()
        return lambda: ask(evaluator, case)

    return prepare


def _slices_hotcoco(evaluator: Any, case: str) -> Any:
    ids = sorted(evaluator.coco_gt.get_img_ids())
    count = _images(case)
    return len(evaluator.slice_by({f"slice {place}": ids[place::count] for place in range(min(count, len(ids)))}))


def _vernier(ask: Callable[[Any, Any, Any], Any]) -> Callable[[str, int, str], Run]:
    def prepare(case: str, size: int, data: str) -> Run:
        import vernier.instance as peer

        gt, dt = (Path(path).read_bytes() for path in _files(size, data))
        truth = peer.CocoDataset.from_json(gt)
        return lambda: ask(peer, truth, dt)

    return prepare


def _tidecv(case: str, size: int, data: str) -> Run:
    import tidecv

    gt, dt = (json.loads(Path(path).read_bytes()) for path in _files(size, data))
    truth, found = tidecv.Data("gt"), tidecv.Data("dt")
    for image in gt["images"]:
        truth.add_image(image["id"], str(image["id"]))
    for category in gt["categories"]:
        truth.add_class(category["id"], category["name"])
    for each in gt["annotations"]:
        add = truth.add_ignore_region if each["iscrowd"] else truth.add_ground_truth
        add(each["image_id"], each["category_id"], each["bbox"], None)
    for each in dt:
        found.add_detection(each["image_id"], each["category_id"], each["score"], each["bbox"], None)

    def run() -> float:
        peer = tidecv.TIDE()
        peer.evaluate(truth, found, mode=tidecv.TIDE.BOX)
        return float(peer.get_all_errors()["main"]["dt"]["Cls"])

    return run


def _tables_ours(result: Any) -> Any:
    return len(result.images()), len(result.matches())


ENGINES: dict[str, dict[str, Callable[[str, int, str], Run]]] = {
    "tide": {
        OURS: _ours(lambda result: float(result.errors().values["gains"]["classification"])),
        "hotcoco": _hotcoco(lambda evaluator, _: evaluator.tide_errors()["delta_ap"]["Cls"]),
        "vernier": _vernier(lambda peer, truth, dt: len(str(peer.error_decomposition(truth, dt)))),
        "tidecv": _tidecv,
    },
    "olrp": {
        OURS: _ours(lambda result: float(result.olrp().values["olrp"])),
        "vernier": _vernier(lambda peer, truth, dt: len(str(peer.optimal_lrp(truth, dt)))),
    },
    "thresholds": {
        OURS: _ours(lambda result: len(result.operating_points(beta=1).values)),
        "hotcoco": _hotcoco(lambda evaluator, _: evaluator.f_scores()["F1_50"]),
    },
    "tables": {
        OURS: _ours(_tables_ours),
        "hotcoco": _hotcoco(lambda evaluator, _: len(evaluator.image_diagnostics())),
    },
    "slices-10": {OURS: _slices_ours, "hotcoco": _hotcoco(_slices_hotcoco)},
    "slices-1000": {OURS: _slices_ours, f"{OURS}, accumulate() and result() once": _accumulation_ours},
}
"""Of each case what prepares an engine from the case, a size and the folder of generated data."""


def timed(case: str, engine: str, size: int, data: str) -> dict[str, Any]:
    """CPU and wall seconds of one call, and the peak of memory above that before, in MB."""
    return clocked(ENGINES[case][engine](case, size, data))


def measure(case: str, size: int, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Rows of all engines of a case."""
    given = (size, str(arguments.data))
    found = measure_in_turn("benchmarks.analysis", case, [*ENGINES[case]], given, arguments)
    head = {"case": f"{case} {size}", "path": case, "images": size}
    return [row_of({**head, "tool": engine, "package": engine.split(",")[0]}, runs) for engine, runs in found.items()]


def benchmark(arguments: argparse.Namespace) -> dict[str, Any]:
    """All cases asked for, as the JSON that is stored."""
    names = CASES if arguments.case == "all" else [arguments.case]
    sizes = SIZES[1:] if arguments.quick else SIZES
    found = [row for name in names for size in sizes for row in measure(name, size, arguments)]
    choices = {name: getattr(arguments, name) for name in ("quick", "repeats", "threads")}
    packages = (OURS, "hotcoco", "vernier", "tidecv")
    return {"kind": "analysis", **machine.describe(packages), **choices, "rows": found}


def report(results: list[dict[str, Any]]) -> str:
    """One Markdown table, and how the numbers were measured."""
    rows = [row for result in results for row in result["rows"]]
    lines = ["| work | images | valor_gpu | others |", "| --- | --- | --- | --- |"]
    for case in dict.fromkeys(row["case"] for row in rows):
        ours, *others = [row for row in rows if row["case"] == case]
        lines.append(f"| {TEXT[ours['path']]} | {ours['images']:,} | {_own(ours)} | {_others(others, ours)} |")
    return "\n\n".join(["\n".join(lines), *(conditions(result, _CONDITIONS) for result in results)])


def _own(row: dict[str, Any]) -> str:
    if row["status"] != "ok":
        return "not run"
    return f"{row['cpu']['median']:.3f} s, {max(row['memory_mb']['median'], 0):,.0f} MB"


def _others(rows: list[dict[str, Any]], ours: dict[str, Any]) -> str:
    cells = []
    for row in rows:
        if row["status"] != "ok" or ours["status"] != "ok":
            cells.append(f"{row['tool']}: not run")
            continue
        cpu, memory = row["cpu"]["median"], row["memory_mb"]["median"]
        ratio = cpu / ours["cpu"]["median"]
        cells.append(f"{row['tool']} {cpu:,.3f} s ({ratio:,.{1 if ratio > 0.95 else 2}f}x), {memory:,.0f} MB")
    return "; ".join(cells)


_CONDITIONS = (
    "and the memory above that before. Reading, matching and accumulating are not counted, but for vernier, which"
    " reads the detections and matches in the call, and tidecv, which matches in it. hotcoco's and vernier's tables of"
    " errors have other numbers than tidecv's; its best F1 comes without the threshold."
)


if __name__ == "__main__":
    print(json.dumps(timed(*json.loads(sys.argv[1]))))
