"""Argument checks with one wording: the argument, what is needed, what came. No torch import."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Sequence
from numbers import Real
from typing import TYPE_CHECKING, Any

from valor_gpu.errors import InputError, InputTypeError, missing_package

if TYPE_CHECKING:
    import torch


def check_choice(name: str, value: object, allowed: Collection[object]) -> None:
    """Raises unless ``value`` is one of ``allowed``."""
    # No array among the choices: one compares by element, and has no truth value.
    if getattr(value, "shape", ()) or value not in allowed:
        raise InputError(f"{name} must be one of {', '.join(map(repr, allowed))} but got {value!r}")


def near_names(name: object, known: Collection[str]) -> str:
    """What a message about an unknown name ends with: the known names that look alike, else nothing.

    Example:
        >>> near_names("groud_truth", ["question", "ground_truth"])
        "; did you mean 'ground_truth'?"
        >>> near_names("f1", ["f1_score", "bleu"])
        "; did you mean 'f1_score'?"
        >>> near_names("wer", ["answer_relevance"])
        ''
    """
    import difflib

    known = list(dict.fromkeys(known))
    near = difflib.get_close_matches(str(name), known, 3)
    if not near and len(str(name)) > 1:  # a word of a name, such as f1
        word = re.compile(rf"(?<![a-z0-9]){re.escape(str(name))}", re.IGNORECASE)
        near = [each for each in known if word.search(each)][:3]
    return f"; did you mean {' or '.join(map(repr, near))}?" if near else ""


def check_type(name: str, value: object, kind: type | tuple[type, ...]) -> None:
    """Raises unless ``value`` is an instance of ``kind``."""
    if not isinstance(value, kind):
        kinds = kind if isinstance(kind, tuple) else (kind,)
        raise InputTypeError(f"{name} must be {' or '.join(k.__name__ for k in kinds)} but got {type(value).__name__}")


def check_dense(name: str, tensor: torch.Tensor) -> None:
    """Raises unless ``tensor`` is dense: no op takes a sparse or quantised one."""
    if str(tensor.layout) != "torch.strided":
        raise InputError(f"{name} must be a dense tensor but is {tensor.layout}: give {name}.to_dense()")
    if tensor.is_quantized:
        raise InputError(f"{name} must be a dense tensor but is quantized, {tensor.dtype}: give {name}.dequantize()")


def check_int(name: str, value: object, least: int = 0) -> None:
    """Raises unless ``value`` is an int of at least ``least``; a bool is none."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise InputTypeError(f"{name} must be int but got {type(value).__name__}")
    if value < least:
        raise InputError(f"{name} must be at least {least} but got {value}")


def check_number(name: str, value: object, low: float = -math.inf, high: float = math.inf) -> None:
    """Raises unless ``value`` is a real number in [low, high]; a bool is none, NaN lies in no range.

    Example:
        >>> check_number("threshold", 0.5, 0, 1)
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InputTypeError(f"{name} must be a number but got {value!r}")
    try:
        number = float(value)
    except OverflowError:  # an int that no float holds
        raise InputError(f"{name} must be a number of at most 1.8e308 but got a larger one") from None
    if math.isnan(number) and math.isinf(low) and math.isinf(high):
        raise InputError(f"{name} must be a number but got nan")
    if not low <= number <= high:
        raise InputError(f"{name} must be in [{low}, {high}] but got {value}")


def check_shape(name: str, tensor: torch.Tensor, shape: Sequence[int | None]) -> None:
    """Raises unless ``tensor`` has ``shape``; None stands for any size.

    Example:
        >>> import torch
        >>> check_shape("boxes", torch.zeros(3, 4), (None, 4))
    """
    got = tuple(tensor.shape)
    if got != tuple([have if want is None else want for want, have in zip(shape, got)]) or len(got) != len(shape):
        wanted = ", ".join("N" if size is None else str(size) for size in shape)
        raise InputError(f"{name} must have shape [{wanted}] but got {list(got)}")


def check_dtype(name: str, tensor: torch.Tensor, dtypes: Collection[torch.dtype]) -> None:
    """Raises unless the dtype of ``tensor`` is one of ``dtypes``."""
    if tensor.dtype not in dtypes:
        raise InputError(f"{name} must have dtype {' or '.join(map(str, dtypes))} but got {tensor.dtype}")


def keys_once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Makes an object of JSON of its pairs, for ``object_pairs_hook``; json alone would keep the last of equal keys.

    Raises:
        ValueError: a key comes twice.

    Example:
        >>> keys_once([("a", 1), ("b", 2)])
        {'a': 1, 'b': 2}
    """
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"an object has the key {twice!r:.80} more than once")
    return found


def check_same_device(names: Sequence[str], tensors: Sequence[torch.Tensor]) -> None:
    """Raises unless all ``tensors`` lie on the device of the first."""
    for name, tensor in zip(names[1:], tensors[1:]):
        if tensor.device != tensors[0].device:
            raise InputError(f"{name} must be on {tensors[0].device} like {names[0]} but is on {tensor.device}")


def check_device(device: Any) -> torch.device:
    """The device that is asked for, None: the CPU. Raises unless it is a CPU or CUDA device that is there."""
    try:
        import torch
    except ModuleNotFoundError as error:
        raise missing_package(error, f"device {str(device)!r}") or error from None
    try:
        usable = torch.device("cpu" if device is None else device)
    except (RuntimeError, TypeError):
        raise InputError(f"device must be cpu, cuda or cuda:N but got {device!r}") from None
    count = torch.cuda.device_count()
    if usable.type == "cuda" and (usable.index or 0) >= count:
        text = f"{count or 'no'} CUDA device{'s' * (count > 1)}"
        raise InputError(f"device must be available but got {str(device)!r} and torch {torch.__version__} finds {text}")
    if usable.type not in ("cpu", "cuda"):
        raise InputError(f"device must be a CPU or CUDA device but got {str(device)!r}")
    return usable
