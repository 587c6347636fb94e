"""The model and the address that a configuration of a judge or of a target names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from valor_gpu.judge.addresses import named_deployment

MODELS = ("model", "azure_deployment", "deployment_id", "deployment", "deployment_name", "model_name")
"""Names under which a configuration has its model or deployment."""
_ADDRESSES = ("url", "base_url", "azure_endpoint", "api_base", "endpoint")


def model_of(said: Mapping[str, Any]) -> str:
    """The model or deployment of a configuration, also one that its address alone names; empty where it says none."""
    named = next((each for key in MODELS if isinstance(each := said.get(key), str) and each.strip()), "")
    return named or named_deployment(address_of(said))


def address_of(said: Mapping[str, Any]) -> str:
    """The address of a judge or of a target, as its configuration has it; empty where it says none."""
    return str(next((said[key] for key in _ADDRESSES if said.get(key)), ""))
