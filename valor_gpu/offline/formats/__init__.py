"""Formats of shards, by name."""

from __future__ import annotations

import importlib

from valor_gpu.offline.chunks import Format

_HOMES = {"jsonl": "text_rows", "csv": "text_rows", "parquet": "arrow_rows", "arrow": "arrow_rows",
          "webdataset": "tar_rows", "coco": "coco_images"}  # fmt: skip


def format_named(name: str) -> Format:
    """What reads shards of a format."""
    module = importlib.import_module(f"{__name__}.{_HOMES[name]}")
    reader: Format = getattr(module, f"read_{name}")
    return reader
