"""What was registered when the server was started, by name; forms choose among it and can add nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from valor_gpu.errors import InputError
from valor_gpu.evaluation.models import judge_from_config
from valor_gpu.evaluation.secrets import Secrets
from valor_gpu.judge.protocol import Judge


def registered(registry: Any, kind: str) -> Mapping[str, Any]:
    """Names of a kind, ``judges`` or ``targets``, to what was registered; empty without a registry."""
    found = getattr(registry, kind, None) if registry is not None else None
    return found if isinstance(found, Mapping) else {}


def open_judge(registry: Any, name: str, secrets: Secrets) -> Judge:
    """The judge of a name.

    Raises:
        InputError: no such name, or a judge that cannot be made, because the variable of its key is not set, say.
    """
    judges = registered(registry, "judges")
    if name not in judges:
        raise InputError(f"judge must be a registered one of {', '.join(judges) or '(none)'} but is {name!r}")
    said = judges[name]
    if isinstance(said, Mapping):
        said = {key: value for key, value in said.items() if key != "prices"}
    return judge_from_config(said, secrets=secrets, name=f"judge {name}")
