"""A draft as text: the same run as a configuration file, a program and a command, and who receives its rows."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from valor_gpu.web.model_names import address_of
from valor_gpu.web.wizard.drafts import Draft


def host_of(said: Mapping[str, Any]) -> str:
    """The host that gets rows, of the configuration of a judge or of a target."""
    is_azure = "azure_deployment" in said or "deployment_id" in said or "azure" in str(said.get("api_type", ""))
    address = address_of(said) or os.environ.get("AZURE_OPENAI_ENDPOINT" if is_azure else "OPENAI_BASE_URL", "")
    return urlsplit(address).netloc.rpartition("@")[2] or ("Azure" if is_azure else "api.openai.com")


def as_yaml(said: Mapping[str, Any]) -> str:
    """Arguments as a configuration file: JSON values, which YAML has too, one name a line."""
    lines = []
    for name, value in said.items():
        if isinstance(value, Mapping) and name in (
            "data_mapping",
            "thresholds",
            "metric_params",
            "model_config",
            "embedding_config",
        ):
            lines += [f"{name}:", *(f"  {json.dumps(key)}: {json.dumps(each)}" for key, each in value.items())]
        else:
            lines.append(f"{name}: {json.dumps(value)}")
    return "\n".join(lines) + "\n"


def as_python(said: Mapping[str, Any]) -> str:
    """Arguments as a program."""
    return "\n".join(
        [
            "from valor_gpu import evaluate",
            "",
            "result = evaluate(",
            *(f"    {name}={value!r}," for name, value in said.items()),
            ")",
        ]
    )


def settings_lines(said: Mapping[str, Any], draft: Draft) -> list[tuple[str, str]]:
    """Settings other than the choice of metrics, each in words."""
    found = [(name, ", ".join(f"{key} {json.dumps(value)}" for key, value in each.items()))
             for name, each in (said.get("metric_params") or {}).items()]  # fmt: skip
    found += [(f"{name} passes at", f"{value:g}") for name, value in (said.get("thresholds") or {}).items()
              if not isinstance(value, str)]  # fmt: skip
    words = {"limit": "Rows at most", "repeats": "Times judged", "epochs": "Times answered", "max_cost": "Stop at cost",
             "baseline": "Baseline"}  # fmt: skip
    found += [(title, str(said[name])) for name, title in words.items() if name in said]
    found += [("Numbers by", ", ".join(said["slice_by"]))] if "slice_by" in said else []
    return found + ([("Embeddings", draft.embedding)] if "embedding_config" in said else [])
