"""One intake of masks in every form, converted when asked. Imports torch only for tensors."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu import native
from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.inputs._mask_forms import runs_of, sizes_of
from valor_gpu.ops.polygons.cpu import RULES
from valor_gpu.ops.runs import cpu as codec
from valor_gpu.ops.runs.op import Runs, check_sizes

WORD_BITS = 64


class Masks:
    """N masks in the form in which they came, which other forms are made of when somebody asks; each is made once.

    Make one by :meth:`of` or by the methods named ``from_...``, not by the constructor, which checks nothing.
    ``MeanAveragePrecision`` takes one as the ``masks`` of an image.
    Arrays are numpy's but for dense masks and words that came as tensors; run lengths, areas and boxes of tensors on a
    device are made on the host, which waits for it. Dense masks and words become each other where they are.

    Args:
        sizes: int32 ``[N, 2]``: heights and widths.
        form: ``dense``, ``words`` or ``runs``.
        value: the masks in that form.
        labels: see below.
        images: see below.

    Attributes:
        sizes: as given.
        form: as given: what other forms are made of.
        labels: int64 ``[N]``: the class of each mask of a label map or of logits; None of others.
        images: int64 ``[N]``: likewise its position in the batch.

    Example:
        >>> masks = Masks.of([{"size": [2, 3], "counts": [1, 2, 3]}, [[0, 0, 2, 0, 2, 2, 0, 2]]], size=(2, 3))
        >>> masks.areas().tolist(), masks.dense()[0].tolist()
        ([2, 4], [[0, 1, 0], [1, 0, 0]])
    """

    def __init__(self, sizes: NDArray[np.int32], form: str, value: Any, labels: Any = None, images: Any = None) -> None:
        self.form = form
        self.sizes = sizes
        self.labels = labels
        self.images = images
        self._made: dict[str, Any] = {form: value}

    def __len__(self) -> int:
        return int(self.sizes.shape[0])

    def __repr__(self) -> str:
        sizes = np.unique(self.sizes, axis=0).tolist()
        shown = " x ".join(map(str, sizes[0])) if len(sizes) == 1 else f"{len(sizes)} sizes"
        return f"Masks({len(self)}, form={self.form!r}, {shown})"

    # ------------------------------------------------------------------------------------------------------ from

    @classmethod
    def of(cls, masks: Any, size: Any = None, rule: str = "coco") -> Masks:
        """Returns masks of any form that tells itself apart; label maps, logits and words have methods of their own.

        Args:
            masks: :class:`Masks`; an array or tensor as :meth:`from_dense` takes it; run lengths
                ``{"size": [height, width], "counts": ...}`` with counts as compressed str or bytes or as a list, one
                or a list of them; or polygons, for each mask a list of rings ``[x0, y0, x1, y1, ...]`` or
                ``[[x, y], ...]``, or a multipolygon ``[[ring, ...], ...]``. A list may mix dicts and polygons.
            size: height and width for polygons, ``[2]`` or ``[N, 2]``; where given, dicts must have it as well.
            rule: of polygons: ``coco``, rings are united as pycocotools does; ``centre``, pixel centres by even-odd
                over all rings, so that rings inside others are holes.

        Raises:
            InputError: naming what is no mask.
        """
        if isinstance(masks, Masks):
            return masks
        if isinstance(masks, np.ndarray) or _is_tensor(masks):
            return cls.from_dense(masks)
        if isinstance(masks, dict):
            masks = [masks]
        if not isinstance(masks, (list, tuple)):
            raise InputTypeError(f"masks must be an array, a tensor, dicts or polygons but got {type(masks).__name__}")
        if rule not in RULES:
            raise InputError(f"rule must be one of {', '.join(map(repr, RULES))} but got {rule!r}")
        sizes = None if size is None else sizes_of(size, len(masks))
        if not masks:
            return cls._of_runs(Runs.empty(np.zeros((0, 2), np.int32)))
        return cls._of_runs(runs_of(masks, sizes, rule))

    @classmethod
    def _of_runs(cls, runs: Runs) -> Masks:
        return cls(runs.sizes, "runs", runs)

    @classmethod
    def from_runs(cls, runs: Runs) -> Masks:
        """Returns masks of run lengths; raises :class:`InputError` where runs do not add up to height x width."""
        return cls._of_runs(codec.run_words(runs)[1])

    @classmethod
    def from_dense(cls, masks: Any) -> Masks:
        """Returns dense masks.

        Args:
            masks: bool or uint8 ``[N, H, W]``, an array or tensor; every value but 0 is set.

        Raises:
            InputError: on another shape or dtype, or more than 2**31 - 1 pixels in a mask.
        """
        dtype = _dtype_of("masks", masks)
        if dtype not in ("bool", "uint8") or len(masks.shape) != 3:
            raise InputError(
                f"masks must be bool or uint8 [N, H, W] but got {dtype} {list(masks.shape)}: label maps and logits have"
                " methods of their own"
            )
        count, height, width = (int(n) for n in masks.shape)
        return cls(_equal_sizes(count, height, width), "dense", masks)

    @classmethod
    def from_words(cls, words: Any, size: Sequence[int], areas: Any = None) -> Masks:
        """Returns masks packed by :func:`valor_gpu.ops.pack_masks`.

        Args:
            words: int64 ``[N, ceil(H * W / 64)]``, an array or tensor; bit i of word j is pixel ``64 * j + i``, and
                bits beyond the last pixel are 0.
            size: H and W.
            areas: int64 ``[N]`` where they are known.

        Raises:
            InputError: on another shape or dtype, or a bit that is set beyond the last pixel.
        """
        ((height, width),) = sizes_of(size, 1).tolist()
        need = (height * width + WORD_BITS - 1) // WORD_BITS
        dtype = _dtype_of("words", words)
        if dtype != "int64" or len(words.shape) != 2 or int(words.shape[1]) != need:
            raise InputError(
                f"words must be int64 [N, {need}] for {height} x {width} pixels but got {dtype} {list(words.shape)}"
            )
        if (used := height * width % WORD_BITS) and bool((words[:, -1] & -(1 << used)).any()):
            raise InputError(f"words must have no bit set beyond pixel {height * width - 1}")
        made = cls(_equal_sizes(int(words.shape[0]), height, width), "words", words)
        if areas is not None:
            made._made["areas"] = _numpy(areas)
        return made

    @classmethod
    def from_label_map(cls, label_map: Any, classes: Any = None) -> Masks:
        """Returns a mask for each image and class of label maps: images one after another, classes in their order.

        They are dense, a byte for each pixel and class.

        Args:
            label_map: integers ``[H, W]`` or ``[B, H, W]``, at least 0, an array or tensor.
            classes: the classes that become masks, whether they occur or not; None: all that occur in any image.

        Returns:
            Masks with ``labels`` and ``images``.

        Raises:
            InputError: on another shape or dtype, a negative value, or classes that are no integers.

        Example:
            >>> masks = Masks.from_label_map(np.array([[0, 7], [7, 2]]), classes=[7, 3])
            >>> masks.labels.tolist(), masks.areas().tolist()
            ([7, 3], [2, 0])
        """
        name = _dtype_of("label_map", label_map)
        if name not in _INTEGERS or len(label_map.shape) not in (2, 3):
            raise InputError(f"label_map must be integers [H, W] or [B, H, W] but got {name} {list(label_map.shape)}")
        maps = label_map if len(label_map.shape) == 3 else label_map[None]
        if _is_tensor(maps) and name in ("uint16", "uint32"):  # of which torch finds no minimum
            maps = maps.long()
        if 0 not in maps.shape and int(maps.min()) < 0:
            raise InputError(f"label_map must be at least 0 but has {int(maps.min())}")
        wanted = _classes(maps, classes)
        shape = (int(maps.shape[0]), len(wanted), *map(int, maps.shape[1:]))
        if _is_tensor(maps):
            import torch

            dense = maps[:, None] == torch.from_numpy(wanted).to(maps.device)[:, None, None]
        else:
            dense = maps[:, None] == wanted[:, None, None]
        made = cls.from_dense(dense.reshape(shape[0] * shape[1], *shape[2:]))
        made.labels, made.images = np.tile(wanted, shape[0]), np.repeat(np.arange(shape[0]), shape[1])
        return made

    @classmethod
    def from_logits(cls, logits: Any, classes: Any = None) -> Masks:
        """Returns the masks of the largest class of each pixel, see :meth:`from_label_map`.

        Args:
            logits: floating ``[B, C, H, W]`` of two or more classes, an array or tensor. Of equal ones the first class
                counts, and NaN is larger than any number, as in ``torch.argmax`` and ``numpy.argmax``.
            classes: as for :meth:`from_label_map`.

        Raises:
            InputError: on another shape or dtype, or fewer than two classes.
        """
        name = _dtype_of("logits", logits)
        if name not in ("float16", "bfloat16", "float32", "float64") or len(logits.shape) != 4 or logits.shape[1] < 2:
            one = len(logits.shape) == 4 and logits.shape[1] == 1
            hint = ": masks of one channel are logits > 0, or probabilities > 0.5" if one else ""
            need = "logits must be floating [B, C, H, W] with two or more classes"
            raise InputError(f"{need} but got {name} {list(logits.shape)}{hint}")
        return cls.from_label_map(logits.argmax(1), classes)

    # -------------------------------------------------------------------------------------------------------- to

    def _get(self, form: str, make: Callable[[], Any]) -> Any:
        if form not in self._made:
            self._made[form] = make()
        return self._made[form]

    def runs(self) -> Runs:
        """Returns run lengths, numpy arrays."""

        def make() -> Runs:
            return codec.from_masks(_numpy(self.dense()))

        return self._get("runs", make)  # type: ignore[no-any-return]

    def dense(self) -> Any:
        """Returns bool or uint8 ``[N, H, W]``, what came where that was dense; raises where sizes differ.

        A tensor where dense masks or words came as one, on its device.
        """

        def make() -> Any:
            if "words" in self._made:
                height, width = self._size()
                if _is_tensor(self._made["words"]):
                    return _unpacked(self._made["words"], height, width)
                words = np.ascontiguousarray(self._made["words"])
                bits = np.unpackbits(words.view(np.uint8), axis=1, count=height * width, bitorder="little")
                return bits.reshape(len(self), height, width)
            return codec.to_masks(self._made["runs"])

        return self._get("dense", make)

    def words(self) -> Any:
        """Returns int64 ``[N, ceil(H * W / 64)]`` as :func:`valor_gpu.ops.pack_masks` does; raises where sizes differ.

        A tensor where dense masks came as one, on its device.
        """

        def make() -> Any:
            dense = self.dense()
            if _is_tensor(dense):
                from valor_gpu.ops.masks.op import pack_masks

                return pack_masks(dense).words
            words, areas = _pack(dense)
            self._made.setdefault("areas", areas)
            return words

        return self._get("words", make)

    def areas(self) -> NDArray[np.int64]:
        """Returns int64 ``[N]``, pixels that are set."""

        def make() -> Any:
            if "runs" in self._made:
                return codec.areas(self._made["runs"])
            dense = self.dense()
            if _is_tensor(dense):
                from valor_gpu.ops.masks.op import pack_masks

                self._made["words"], areas = pack_masks(dense)
                return _numpy(areas)
            return _pack(dense)[1]

        return self._get("areas", make)  # type: ignore[no-any-return]

    def boxes(self) -> NDArray[np.float64]:
        """Returns float64 ``[N, 4]``: left, top, width and height of each mask, zeros where no pixel is set."""
        return self._get("boxes", lambda: codec.boxes(self.runs()))  # type: ignore[no-any-return]

    def _size(self) -> tuple[int, int]:
        height, width = self.sizes[0].tolist() if len(self) else (0, 0)
        return height, width


def _unpacked(words: Any, height: int, width: int) -> Any:
    """uint8 ``[N, H, W]`` of words that are a tensor; takes two bytes for each pixel."""
    import torch

    octets = words.contiguous().view(torch.uint8)[:, :, None]
    bits = (octets >> torch.arange(8, dtype=torch.uint8, device=words.device)) & 1
    return bits.flatten(1)[:, : height * width].reshape(-1, height, width)


_INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64")


def _is_tensor(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def _dtype_of(name: str, value: Any) -> str:
    """The name of the dtype of an array or tensor."""
    if not isinstance(value, np.ndarray) and not _is_tensor(value):
        raise InputTypeError(f"{name} must be an array or a tensor but got {type(value).__name__}")
    return str(value.dtype).removeprefix("torch.")


def _numpy(value: Any) -> Any:
    return value.detach().cpu().numpy() if _is_tensor(value) else value


def _equal_sizes(count: int, height: int, width: int) -> NDArray[np.int32]:
    check_sizes(np.array([[height, width]]))
    return np.broadcast_to(np.array([height, width], np.int32), (count, 2)).copy()


def _classes(maps: Any, classes: Any) -> NDArray[np.int64]:
    """The classes of masks, int64 ``[K]``."""
    if classes is None:
        found: NDArray[np.int64] = np.unique(_numpy(maps)).astype(np.int64)
        return found
    wanted = np.asarray(_numpy(classes))
    if wanted.ndim != 1 or (wanted.size and wanted.dtype.kind not in "iu"):
        raise InputError(f"classes must be a list of integers but got {classes!r:.60}")
    return wanted.astype(np.int64)


def _pack(dense: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Words and areas of dense masks."""
    masks = np.ascontiguousarray(dense)
    count, pixels = masks.shape[0], masks.shape[1] * masks.shape[2]
    words = np.empty((count, (pixels + WORD_BITS - 1) // WORD_BITS), np.int64)
    areas = np.empty(count, np.int64)
    native.function("valor_cpu", "valor_pack_masks_cpu", "pqqppq")(
        masks.ctypes.data, count, pixels, words.ctypes.data, areas.ctypes.data, native.threads()
    )
    return words, areas
