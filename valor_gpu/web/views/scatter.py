"""Two metrics of a run against each other: points, counted cells or a table, and their correlation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from starlette.responses import Response

from valor_gpu.errors import InputError
from valor_gpu.evaluation.report.bounds import short, short_name
from valor_gpu.evaluation.report.cards import place_of
from valor_gpu.evaluation.results.summary import evaluator_infos
from valor_gpu.pages import numbers, plots
from valor_gpu.stats.correlations import Correlation
from valor_gpu.store import Run
from valor_gpu.store.saved import VISION
from valor_gpu.web.render import page
from valor_gpu.web.routes import Ask, get
from valor_gpu.web.rows.run_rows import find_run
from valor_gpu.web.runs import scatters
from valor_gpu.web.runs.scatters import Pairs, Scale, condition

_KEPT = 8
_WORDS = {"pearson": "Pearson, a straight line", "spearman": "Spearman, of ranks"}


def scatter(ask: Ask) -> Response:
    """The page of two metrics."""
    run = find_run(ask)
    infos = {each["name"]: each for each in sorted(evaluator_infos(run), key=lambda each: place_of(each["kind"]))}
    x, y = _chosen(ask, list(infos))
    pairs = _pairs(ask, run, x, y) if y else None
    drawn: dict[str, Any] = {"heat": None, "chart": "", "limits": [], "places": [], "places_words": ""}
    if pairs is not None and len(pairs.rows):
        drawn |= _drawn(run, pairs, infos[x], infos[y])
    return page(
        ask,
        "scatter.html",
        run={"id": run.id, "name": short(run.name) or "Evaluation", "state": run.state},
        is_vision=run.config.get("kind") in VISION,
        x=x,
        y=y,
        choices=[(name, short_name(name)) for name in infos],
        pairs=pairs,
        facts=[(_WORDS[each.method], _shown(each)) for each in pairs.correlations] if pairs else [],
        n_clusters=pairs.correlations[0].n_clusters if pairs else 0,
        repeats=run.config.get("repeats") not in (None, 1),
        **drawn,
    )


def _chosen(ask: Ask, names: Sequence[str]) -> tuple[str, str]:
    """Both metrics: as the address says, else the first two; the second is empty where there is only one."""
    for end in ("x", "y"):
        given = ask.query.get(end, "")
        if given and given not in names:
            raise InputError(f"{end} must be an evaluator of the run but is {given[:100]!r}")
    x = ask.query.get("x") or next((name for name in names if name != ask.query.get("y")), "")
    y = ask.query.get("y") or next((name for name in names if name != x), "")
    if x and x == y:
        raise InputError(f"x and y must be two metrics but both are {x!r}: choose another one")
    return x, y


def _pairs(ask: Ask, run: Run, x: str, y: str) -> Pairs:
    """Both scores of all rows; of a run that has ended they are kept."""
    ended = ask.studio.store.finished_at(run)
    memory: dict[Any, Pairs] = ask.studio.memory.setdefault("pairs", {})
    key = (run.id, ended, x, y)
    if ended is None or key not in memory:
        found = scatters.read_pairs(run, x, y)
        if ended is None:
            return found
        memory[key] = found
        while len(memory) > _KEPT:
            memory.pop(next(iter(memory)), None)
        return found
    return memory[key]


def _shown(found: Correlation) -> dict[str, str]:
    has_ends = not math.isnan(found.low)
    return {
        "value": numbers.number(found.value, 3),
        "between": numbers.span(found.low, found.high, 3) if has_ends else "",
        "reason": found.reason,
    }


def _drawn(run: Run, pairs: Pairs, x_info: Mapping[str, Any], y_info: Mapping[str, Any]) -> dict[str, Any]:
    """A table of two scores of few whole numbers, points where they are few, else counted cells."""
    across, up = scatters.scale_of(pairs.x, x_info), scatters.scale_of(pairs.y, y_info)
    names = x_info["name"], y_info["name"]
    if across.values and up.values:
        return {"heat": _heat(run, pairs, across, up, names)}
    if scatters.are_few(pairs):
        return _points(run, pairs, across, up, names)
    return _cells(run, pairs, across, up, names)


def _href(run: Run, *conditions: str) -> str:
    """Of the rows of a cell; saved results of vision have no such list."""
    return "" if run.config.get("kind") in VISION else f"/runs/{run.id}?{'&'.join(conditions)}#rows"


def _heat(run: Run, pairs: Pairs, across: Scale, up: Scale, names: tuple[str, str]) -> dict[str, Any]:
    counts = scatters.grid_counts(pairs, across.edges(0), up.edges(0))
    limits = plots.shade_limits(counts.ravel().tolist())
    lines = []
    for value, row in reversed(list(zip(up.values, counts.tolist()))):
        cells = [
            {
                "n": n,
                "shade": plots.shade_of(n, limits) if n else 0,
                "href": _href(run, condition(names[0], left), condition(names[1], value)),
                "words": f"{numbers.rows(n)} with {names[0]} {left:g} and {names[1]} {value:g}",
            }
            for left, n in zip(across.values, row)
        ]
        lines.append((f"{value:g}", cells, sum(row)))
    columns = [f"{value:g}" for value in across.values]
    return {"x": names[0], "y": names[1], "columns": columns, "lines": lines, "sums": counts.sum(0).tolist(),
            "n": int(counts.sum())}  # fmt: skip


def _points(run: Run, pairs: Pairs, across: Scale, up: Scale, names: tuple[str, str]) -> dict[str, Any]:
    found, counts, first = scatters.positions(pairs)
    decimals = [numbers.decimals_of(each.low, each.high) for each in (across, up)]
    is_vision = run.config.get("kind") in VISION
    spots = []
    for (x, y), n, row in zip(found.tolist(), counts.tolist(), first.tolist()):
        said = f"{names[0]} {numbers.number(x, decimals[0])}, {names[1]} {numbers.number(y, decimals[1])}"
        href = f"/runs/{run.id}/{'image' if is_vision else 'rows'}/{row}"
        if n > 1:
            href = _href(run, condition(names[0], x), condition(names[1], y))
        spots.append(plots.Spot(x, y, n, f"{'row ' + str(row) if n == 1 else numbers.rows(n)}: {said}", href))
    label = f"{numbers.rows(len(pairs.rows))} at {numbers.count(len(spots))} positions, {_ends(across, up, names)}"
    chart = plots.scatter(spots, (across.low, across.high), (up.low, up.high), names, label)
    places = [
        {"x": numbers.number(each.x, decimals[0]), "y": numbers.number(each.y, decimals[1]), "n": each.n,
         "href": each.href, "words": each.words}
        for each in spots
    ]  # fmt: skip
    return {"chart": chart, "places": places, "places_words": "Points as a table"}


def _cells(run: Run, pairs: Pairs, across: Scale, up: Scale, names: tuple[str, str]) -> dict[str, Any]:
    x_edges, y_edges = across.edges(scatters.GRID[0]), up.edges(scatters.GRID[1])
    counts = scatters.grid_counts(pairs, x_edges, y_edges)
    columns, lines = _parts(names[0], across, x_edges.tolist()), _parts(names[1], up, y_edges.tolist())
    cells, places = [], []
    for row, column in np.argwhere(counts).tolist():
        n = int(counts[row, column])
        (x_part, x_words), (y_part, y_words) = columns[column], lines[row]
        words, href = f"{numbers.rows(n)}: {names[0]} {x_words}, {names[1]} {y_words}", _href(run, x_part, y_part)
        cells.append(plots.Cell(column, row, n, words, href))
        places.append({"x": x_words, "y": y_words, "n": n, "href": href, "words": words})
    size = len(x_edges) - 1, len(y_edges) - 1
    label = f"{numbers.rows(len(pairs.rows))} in {len(cells)} cells, {_ends(across, up, names)}"
    ends = [(float(each[0]), float(each[-1])) for each in (x_edges, y_edges)]
    limits = plots.shade_limits([each.n for each in cells])
    lows = [1, *(limit + 1 for limit in limits)]
    shades = [(low, high, plots.shade_of(high, limits)) for low, high in zip(lows, limits)]
    chart = plots.cells(cells, size, ends[0], ends[1], names, label)
    return {"chart": chart, "limits": shades, "places": places, "places_words": "Cells as a table"}


def _parts(name: str, scale: Scale, edges: Sequence[float]) -> list[tuple[str, str]]:
    """The condition of each column or row of cells, and its words."""
    if scale.values:
        return [(condition(name, value), f"{value:g}") for value in scale.values]
    decimals = scatters.decimals_between(edges)
    return [(condition(name, *ends), numbers.span(*ends, decimals)) for ends in pairwise(edges)]


def _ends(across: Scale, up: Scale, names: tuple[str, str]) -> str:
    return f"{names[0]} from {across.low:g} to {across.high:g}, {names[1]} from {up.low:g} to {up.high:g}"


ROUTES = [get("/runs/{run}/scatter", scatter)]
