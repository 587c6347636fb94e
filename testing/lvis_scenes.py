"""Synthetic LVIS scenes: federated datasets at random, and detections on real ground truths. Same seed, same bits.

No detections for LVIS are published with a licence that would let us ship them, so all of these are made up.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from testing.oracles import pycocotools

Objects = tuple[dict[str, Any], list[dict[str, Any]]]
Random = np.random.Generator

SIZE = (120, 160)
"""Height and width of the images of random scenes."""


def polygon_of(box: list[float]) -> list[list[float]]:
    """An octagon in a box."""
    x, y, w, h = box
    return [_octagon(x, y, w, h)]


def _octagon(x: float, y: float, w: float, h: float) -> list[float]:
    corners = ((0.3, 0), (0.7, 0), (1, 0.3), (1, 0.7), (0.7, 1), (0.3, 1), (0, 0.7), (0, 0.3))
    return [value for a, b in corners for value in (x + w * a, y + h * b)]


def encoded(polygons: list[list[float]], height: int, width: int) -> dict[str, Any]:
    """Polygons as run lengths, whose counts are text."""
    mask_utils = pycocotools("mask")
    rle = mask_utils.merge(mask_utils.frPyObjects(polygons, height, width))
    return {"size": rle["size"], "counts": rle["counts"].decode()}


def _box(rng: Random) -> list[float]:
    """A box of whole pixels, so that similarities tie."""
    w, h = (int(v) for v in rng.integers(2, 60, 2))
    return [float(rng.integers(0, SIZE[1] - w)), float(rng.integers(0, SIZE[0] - h)), float(w), float(h)]


def _moved(rng: Random, box: list[float], share: float) -> list[float]:
    shift = np.round(rng.normal(0, share, 4) * [box[2], box[3], box[2], box[3]])
    x, y, w, h = (np.array(box) + shift).tolist()
    return [x, y, max(w, 1.0), max(h, 1.0)]


def random_lvis(seed: int, masks: bool = False) -> Objects:
    """A small federated dataset and results.

    Ids of images are neither dense nor in order; annotation ids and areas may be 0; some ground truths are
    to be ignored; lists of negative and not exhaustive categories may overlap with the ground truths.

    Args:
        seed: of everything.
        masks: results have run lengths and, every other seed, no boxes.
    """
    rng = np.random.default_rng([seed, 9])
    classes = int(rng.integers(1, 7))
    category_ids = (rng.permutation(classes) * 2 + 1).tolist()
    images: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    results: list[dict[str, Any]] = []
    for image in (rng.permutation(int(rng.integers(1, 7))) * 5 + 2).tolist():
        lists = [rng.choice(category_ids, int(rng.integers(0, classes + 1)), replace=False).tolist() for _ in range(2)]
        images.append(
            {"id": image, "height": SIZE[0], "width": SIZE[1]}
            | {"neg_category_ids": lists[0], "not_exhaustive_category_ids": lists[1] if rng.random() < 0.5 else []}
        )
        boxes = [_box(rng) for _ in range(int(rng.integers(0, 8)))]
        for box in boxes:
            area = float(rng.choice([box[2] * box[3], box[2] * box[3] * 0.7, 32**2, 0], p=[0.4, 0.4, 0.15, 0.05]))
            annotations.append(
                {"id": len(annotations) + seed % 2, "image_id": image, "category_id": int(rng.choice(category_ids))}
                | {"bbox": box, "area": area, "segmentation": polygon_of(box)}
                | ({"ignore": 1} if rng.random() < 0.1 else {})
            )
        results += _results(rng, image, boxes, category_ids)
    categories = [{"id": k, "name": f"class {k}", "frequency": str(rng.choice(list("rcf")))} for k in category_ids]
    if not results:
        return random_lvis(seed + 1000, masks)
    rng.shuffle(results)
    if masks:
        results = [_with_mask(result, SIZE, seed % 2 == 0) for result in results]
    return {"images": images, "annotations": annotations, "categories": categories}, results


def _results(rng: Random, image: int, boxes: list[list[float]], category_ids: list[int]) -> list[dict[str, Any]]:
    """Detections near the boxes and elsewhere, whose categories are drawn, whose scores tie."""
    near = [_moved(rng, box, 0.08) for box in boxes for _ in range(int(rng.integers(0, 4)))]
    away = [_box(rng) for _ in range(int(rng.integers(0, 6)))]
    return [
        {"image_id": image, "category_id": int(rng.choice(category_ids)), "bbox": box}
        | {"score": round(float(rng.random()), 1)}
        for box in near + away
    ]


def _with_mask(result: dict[str, Any], size: tuple[int, int], boxed: bool) -> dict[str, Any]:
    segmentation = encoded(polygon_of(result["bbox"]), *size)
    kept = dict(result) if boxed else {key: value for key, value in result.items() if key != "bbox"}
    return {**kept, "segmentation": segmentation}


def detections_on(dataset: dict[str, Any], seed: int, masks: bool = False) -> list[dict[str, Any]]:
    """Made-up detections on real ground truths: moved ones, wrong categories, and false ones in any category.

    False ones have negative, positive and unlisted categories. Every tenth image has more than 300 detections.

    Args:
        dataset: an LVIS dataset.
        seed: of everything.
        masks: with run lengths of moved polygons (false ones: octagons), else boxes alone.
    """
    rng = np.random.default_rng([seed, 10])
    category_ids = [category["id"] for category in dataset["categories"]]
    by_image: dict[int, list[dict[str, Any]]] = {image["id"]: [] for image in dataset["images"]}
    for annotation in dataset["annotations"]:
        by_image[annotation["image_id"]].append(annotation)
    results = []
    for number, image in enumerate(dataset["images"]):
        truths = by_image[image["id"]]
        found = [
            (_category(rng, truth["category_id"], category_ids), _moved_polygons(rng, truth["segmentation"]))
            for truth in truths
            for _ in range(int(rng.choice(4, p=[0.1, 0.6, 0.2, 0.1])))
        ]
        pools = (image["neg_category_ids"], [truth["category_id"] for truth in truths], category_ids)
        for _ in range(int(rng.integers(310, 420)) if number % 10 == 3 else int(rng.integers(5, 30))):
            pool = pools[int(rng.integers(3))] or category_ids
            w, h = np.exp(rng.uniform(1.5, 5.3, 2))
            x, y = rng.uniform(0, 0.8, 2) * [image["width"], image["height"]]
            found.append((int(rng.choice(pool)), [_octagon(float(x), float(y), float(w), float(h))]))
        results += [_detection(rng, image, category, polygons, masks) for category, polygons in found]
    rng.shuffle(results)
    return results


def _category(rng: Random, category: int, category_ids: list[int]) -> int:
    return category if rng.random() < 0.85 else int(rng.choice(category_ids))


def _moved_polygons(rng: Random, polygons: list[list[float]]) -> list[list[float]]:
    """Polygons, stretched and moved a little."""
    points = [np.array(polygon).reshape(-1, 2) for polygon in polygons]
    spread = np.ptp(np.concatenate(points), axis=0)
    stretch, shift = rng.normal(1, 0.05, 2), rng.normal(0, 0.05, 2) * spread
    centre = np.concatenate(points).mean(0)
    return [((p - centre) * stretch + centre + shift).round(1).reshape(-1).tolist() for p in points]


def _detection(
    rng: Random, image: dict[str, Any], category: int, polygons: list[list[float]], masks: bool
) -> dict[str, Any]:
    points = np.concatenate([np.array(polygon).reshape(-1, 2) for polygon in polygons])
    low, high = points.min(0), points.max(0)
    result: dict[str, Any] = {"image_id": image["id"], "category_id": category}
    result["score"] = round(float(rng.beta(2, 3)), 3 if rng.random() < 0.5 else 1)
    if masks:
        result["segmentation"] = encoded(polygons, image["height"], image["width"])
    else:
        result["bbox"] = [round(float(v), 2) for v in (*low, *(high - low))]
    return result


def random_masks(seed: int) -> Objects:
    """A scene of :func:`random_lvis` as COCO has it: crowds with run lengths, results with masks alone."""
    dataset, results = random_lvis(2 * seed + 1, masks=True)
    rng = np.random.default_rng([seed, 11])
    for number, annotation in enumerate(dataset["annotations"], 1):
        annotation |= {"id": number, "iscrowd": int(rng.random() < 0.2)}
        if annotation["iscrowd"]:
            annotation["segmentation"] = encoded(annotation["segmentation"], *SIZE)
    return dataset, results
