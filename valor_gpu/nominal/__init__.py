"""Metrics of categories without an order: how far raters agree."""

# Type checkers read __init__.pyi, which tools/make_names.py writes.

from __future__ import annotations

from valor_gpu._lazy import lazy_names

_MODULES: dict[str, tuple[str, ...]] = {
    "fleiss_kappa": ("FleissKappa",),
}
"""Module to the public names that it defines, a line each."""
_HOMES = {name: f"{__name__}.{module}" for module, names in _MODULES.items() for name in names}

__all__ = sorted(_HOMES)

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
