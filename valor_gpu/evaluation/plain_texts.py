"""Texts of values for readers. No torch."""

from __future__ import annotations

import json
from typing import Any

from valor_gpu.judge.protocol import describe


def plain_text(value: Any) -> str:
    """Returns a text as it is, another value as JSON, and what JSON cannot express as its ``repr``.

    Example:
        >>> plain_text("a text"), plain_text({"a": [1, None]}), plain_text({1, 2})
        ('a text', '{"a": [1, null]}', '{1, 2}')
    """
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        pass
    try:
        return repr(value)
    except Exception as error:  # of the user's own class
        return f"{type(value).__name__} without a text: {describe(error)}"
