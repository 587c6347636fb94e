"""Hot loops of csrc/cuda and what each may cost; measured by ``tests.native.sass``."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Budget:
    """What a loop may cost.

    Attributes:
        name: what the loop does.
        source: csrc/cuda/<source>.cu.
        kernel: its name as the compiler has it, demangled, without parameters.
        elements: elements that one pass of the loop takes, or one thread of a kernel without a loop.
        most: instructions an element.
        load_bits: the widest load. Of the innermost loops that with most such loads is meant.
        loop: False for all of a kernel.
        calls: subroutines that the loop may call, such as those of a division.
    """

    name: str
    source: str
    kernel: str
    elements: int
    most: float
    load_bits: int
    loop: bool = True
    calls: int = 0


_VALOR = "valor::(anonymous namespace)::"


def _histogram(name: str, scores: str, target: str, most: float, reading: str = "AsTheyAre", cells: int = 1) -> Budget:
    source = "sweep_tiles" if reading == "AsTheyAre" else "sweep_activated"
    kernel = f"{_VALOR}tile_kernel<valor::{scores}, (valor::Cells){cells}, {_VALOR}{target}, valor::{reading}>"
    return Budget(f"score histogram, {name}", source, kernel, 16, most, 128)


def _largest(name: str, scores: str, ranked: str, elements: int, most: float) -> Budget:
    return Budget(
        f"largest score, {name}", "top", f"{_VALOR}largest_kernel<valor::{scores}, {ranked}>", elements, most, 128
    )


def _maps(name: str, scores: str, elements: int, loads: int, most: float) -> Budget:
    width = elements // 4
    kernel = f"{_VALOR}map_kernel<valor::{scores}, {width}>"
    return Budget(f"largest score of maps, {name}", "top_maps", kernel, elements, most, loads)


def _labels(word: str, name: str, pixels: int, room: int, most: float) -> Budget:
    kernel = f"{_VALOR}count_maps_kernel<unsigned {word}, unsigned {word}, (valor::Room){room}>"
    return Budget(f"label maps, {name}", "label_maps", kernel, pixels, most, 128)


BUDGETS = (
    Budget("IoU of boxes, float32", "boxes", f"{_VALOR}box_iou_kernel<true, false>", 1, 79, 128, calls=1),
    Budget("boundaries of masks, pixels to bits", "boundary", f"{_VALOR}erode_rows_kernel", 64, 12, 128, loop=False),
    Budget("boundaries of masks, bits to pixels", "boundary", f"{_VALOR}boundary_kernel", 64, 8, 32, loop=False),
    _labels("long", "int64, by class", 4, 0, 58),
    _labels("long", "int64, pairs", 4, 1, 56),
    _labels("char", "uint8, by class", 16, 0, 47),
    _labels("char", "uint8, pairs", 16, 1, 46),
    Budget("exact ranks, stretches", "rank_columns", f"{_VALOR}stretch_kernel<unsigned long, long, false>", 16, 33, 32),
    _maps("float32", "F32", 16, 128, 7),
    _maps("float16", "F16", 32, 128, 7),
    _maps("bfloat16", "BF16", 32, 128, 7),
    _maps("float32, not aligned", "F32", 4, 32, 12),
    _largest("float32", "F32", "false", 16, 6.5),
    _largest("float16", "F16", "false", 32, 6.5),
    _largest("bfloat16", "BF16", "false", 32, 7),
    _largest("float64", "F64", "false", 8, 9.5),
    _largest("rank in float32", "F32", "true", 16, 10.5),
    _largest("rank in float16", "F16", "true", 32, 10.5),
    _largest("rank in bfloat16", "BF16", "true", 32, 10.5),
    _histogram("float32, class indices", "F32", "RowFlags", 15.5),
    _histogram("float16, class indices", "F16", "RowFlags", 14.5),
    _histogram("bfloat16, class indices", "BF16", "RowFlags", 15),
    _histogram("float32, class indices of few classes", "F32", "RowClasses", 20),
    _histogram("float32, uint8 labels", "F32", "ByteTarget", 20),
    _histogram("float32, int64 labels", "F32", "WordTarget", 20),
    _histogram("bfloat16, uint8 labels", "BF16", "ByteTarget", 20),
    # 14 of them are of a branch that scores take only beside thresholds too near for leaves of their own.
    _histogram("float32, class indices, uneven", "F32", "RowFlags", 37, cells=2),
    _histogram("float16, class indices, uneven", "F16", "RowFlags", 37, cells=2),
    _histogram("bfloat16, class indices, uneven", "BF16", "RowFlags", 37, cells=2),
    _histogram("float32, uint8 labels, uneven", "F32", "ByteTarget", 41, cells=2),
    _histogram("float32, class indices, softmax", "F32", "RowFlags", 40, "Softmaxes"),
    _histogram("float16, class indices, softmax", "F16", "RowFlags", 44, "Softmaxes"),
    Budget("largest logit, float32", "sweep_activated", f"{_VALOR}share_kernel<valor::F32>", 4, 5, 128),
    Budget("largest logit, float16", "sweep_activated", f"{_VALOR}share_kernel<valor::F16>", 8, 5, 128),
    _histogram("float32, uint8 labels, sigmoid", "F32", "ByteTarget", 56, "Sigmoids"),
    _histogram("bfloat16, uint8 labels, sigmoid", "BF16", "ByteTarget", 60, "Sigmoids"),
)
