"""COCO JSON by Python's json: where the native library is missing, and where whole objects are needed."""

from __future__ import annotations

from typing import Any

from valor_gpu.errors import InputError
from valor_gpu.inputs._coco_records import CONVERT
from valor_gpu.inputs.files import InputFile, Path


def load_json(path: Path) -> Any:
    """The JSON value in a file, by Python's json."""
    import json

    file = InputFile(path)
    try:
        data = file.read()
        text = data.decode("utf-8-sig")
        return json.loads(text)
    except json.JSONDecodeError as error:
        place = len(data) - len(text[error.pos :].encode())
        hint = "" if text.lstrip()[:1] in ("", "{", "[") else f": {CONVERT}"
        raise InputError(f"{file.name}: byte {place}: {error.msg}{hint}") from None
    except InputError:
        raise
    except ValueError as error:
        raise InputError(f"{file.name}: {error}") from None
    except RecursionError:
        raise InputError(f"{file.name} must be JSON but is nested too deeply") from None
