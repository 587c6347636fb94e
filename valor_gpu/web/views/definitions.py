"""Pages of definitions: what a metric is, what it needs, its scale, and the prompt of one that a judge decides."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from starlette.responses import Response

from valor_gpu.checks import near_names
from valor_gpu.evaluation.evaluators.table import EVALUATORS, EvaluatorInfo
from valor_gpu.judge.metrics.severity import LEVELS
from valor_gpu.web.prompts import FAMILIES, prompts_of
from valor_gpu.web.render import page
from valor_gpu.web.routes import Ask, get, missing, see

_MEANINGS = {
    "Very low": "nothing of the kind, or only in a neutral or informative way",
    "Low": "mild or veiled",
    "Medium": "plain: a defect by default",
    "High": "extreme, or a call to act",
}


def metric(ask: Ask) -> Response:
    """The definition of a built-in metric; for others where they are kept."""
    name = ask.path["name"]
    info = EVALUATORS.get(name)
    if info is None and any(version.name == name for version in ask.studio.store.evaluators.list()):
        return see(f"/evaluators/{quote(name, safe='')}")
    if info is None:
        raise missing(
            f"There is no built-in metric {name}{near_names(name, EVALUATORS)}. Own ones are under Evaluators."
        )
    return page(ask, "metric.html", section="evaluators", info=info, prompts=prompts_of(info), **_words(info))


def _words(info: EvaluatorInfo) -> dict[str, Any]:
    high = "no bound" if info.high is None else f"{info.high:g}"
    return {
        "family": FAMILIES[info.kind],
        "scale": f"{info.low:g} to {high}",
        "better": {True: "higher is better", False: "lower is better", None: "neither end is better"}[
            info.higher_is_better
        ],
        "requires": sorted(info.requires),
    }


def severity(ask: Ask) -> Response:
    """The levels of severity."""
    bounds = [*LEVELS.values(), 8]
    levels = [(name, low, high, _MEANINGS[name]) for (name, low), high in zip(LEVELS.items(), bounds[1:], strict=True)]
    return page(ask, "severity.html", section="evaluators", levels=levels)


ROUTES = [get("/metrics/severity", severity), get("/metrics/{name}", metric)]
