"""The page of targets: what was registered when the server was started, each with its variants."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from valor_gpu.evaluation.report.bounds import short
from valor_gpu.evaluation.secrets import Secrets
from valor_gpu.web.library.uses import entries, run_line
from valor_gpu.web.render import page
from valor_gpu.web.routes import Ask, get

_WHAT = ("url", "module", "function", "target", "azure_deployment", "deployment_id", "model")
"""Names by which a target says what it is, the first one that is there."""


def targets(ask: Ask) -> Response:
    """The list of registered targets."""
    used: dict[str, list[dict[str, Any]]] = {}
    for entry in entries(ask):
        target = entry.config.get("target")
        name = target.get("name") if isinstance(target, Mapping) else None
        used.setdefault(str(name or ""), []).append(run_line(entry))
    registry = ask.studio.registry
    found = [
        {
            "name": name,
            "what": _what(said["use"]),
            "kind": _kind(said["use"]),
            "about": short(said.get("about", ""), 300),
            "variants": _variants(said.get("variants") or {}),
            "n_runs": len(used.get(name, ())),
            "last": used.get(name, [])[:1],
        }
        for name, said in (registry.targets if registry is not None else {}).items()
    ]
    known = {each["name"] for each in found}
    others = [(name, runs[0], len(runs)) for name, runs in used.items() if name and name not in known]
    return page(ask, "targets.html", section="targets", found=found, others=others)


def _what(said: Any) -> str:
    """What a target is, without what may be secret in its address."""
    if isinstance(said, Mapping):
        said = next((said[name] for name in _WHAT if said.get(name)), "")
    shown = said if isinstance(said, str) else getattr(said, "__name__", type(said).__name__)
    return short(Secrets().mask(shown), 300)


def _kind(said: Any) -> str:
    if isinstance(said, Mapping):
        if said.get("url"):
            return "HTTP endpoint"
        if any(said.get(name) for name in _WHAT[4:]):
            return "model with a prompt"
        said = next((said[name] for name in _WHAT if said.get(name)), "")
    return "HTTP endpoint" if isinstance(said, str) and said.startswith(("http://", "https://")) else "function"


def _variants(found: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Names of variants with their parameters."""
    return [(name, short(Secrets().mask(str(each)), 300)) for name, each in found.items()]


ROUTES = [get("/targets", targets)]
