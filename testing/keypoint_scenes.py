"""Synthetic keypoints: ground truths and detections of people at random, for COCO (17) and CrowdPose (14 joints).

The ground truths of COCO's example results and of CrowdPose are not ours to ship, so all of these are made up.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Objects = tuple[dict[str, Any], list[dict[str, Any]]]
Random = np.random.Generator
Array = NDArray[np.float64]

SIZE = (240, 320)
"""Height and width of the images."""


def random_keypoints(seed: int, joints: int = 17, crowdpose: bool = False, classes: int = 1) -> Objects:
    """People in images, and results near and far from them.

    Joints are visible, hidden or not annotated; a person may have no joint at all, a crowd some. Scores tie, and some
    images have more than 20 detections.

    Args:
        seed: of everything.
        joints: K of each person.
        crowdpose: ground truths as CrowdPose has them: no areas, ``num_keypoints`` counts visible joints alone, images
            have ``crowdIndex``; some detections have no joint with a confidence above 0.
        classes: number of categories.
    """
    rng = np.random.default_rng([seed, joints, classes])
    images: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    results: list[dict[str, Any]] = []
    for image in (rng.permutation(int(rng.integers(1, 9))) * 5 + 2).tolist():
        centres = rng.uniform([60, 60], [SIZE[1] - 60, SIZE[0] - 60], (int(rng.integers(0, 7)), 2))
        if rng.random() < 0.6 and len(centres):  # close together
            centres = centres[0] + (centres - centres[0]) * 0.2
        people = [_person(rng, centre, joints) for centre in centres]
        images.append({"id": image, "height": SIZE[0], "width": SIZE[1]})
        if crowdpose:
            images[-1]["crowdIndex"] = crowd_index(people)
        for points in people:
            row = _ground_truth(rng, points, crowdpose)
            category = int(rng.integers(1, classes + 1))
            annotations.append({"id": len(annotations) + seed % 2, "image_id": image, "category_id": category, **row})
        results += [
            {"image_id": image, "category_id": int(rng.integers(1, classes + 1)), "keypoints": points}
            | {"score": round(float(rng.random()), 1)}
            for points in _found(rng, people, joints)
        ]
    if not results:
        return random_keypoints(seed + 1000, joints, crowdpose, classes)
    rng.shuffle(results)
    categories = [{"id": k, "name": f"class {k}"} for k in range(1, classes + 1)]
    return {"images": images, "annotations": annotations, "categories": categories}, results


def common_rules(objects: Objects) -> Objects:
    """A scene of which pycocotools and xtcocotools think the same.

    xtcocotools leaves out detections without a confidence above 0, and pycocotools takes an annotation with id 0 for
    none.
    """
    dataset, results = objects
    rows = [{**row, "id": number} for number, row in enumerate(dataset["annotations"], 1)]
    return {**dataset, "annotations": rows}, [row for row in results if any(row["keypoints"][2::3])]


def random_sigmas(joints: int) -> Array:
    """float64 ``[K]``: a tolerance for each joint, in the range of COCO's."""
    return np.random.default_rng([joints, 1]).uniform(0.025, 0.11, joints)


def _person(rng: Random, centre: Array, joints: int) -> Array:
    """float64 ``[K, 3]``: x, y and visibility 0, 1 or 2; joints that are not annotated are 0, 0, 0."""
    size = float(np.exp(rng.uniform(2.3, 4.5)))
    places = np.round(centre + rng.normal(0, size / 3, (joints, 2)))
    visibility = rng.choice(3, joints, p=[0.2, 0.3, 0.5]) * float(rng.random() > 0.1)
    points = np.column_stack((places, visibility))
    points[visibility == 0] = 0
    return points


def box_of(points: Array) -> list[float]:
    """xywh around the annotated joints, a tenth wider; a box somewhere when there is none."""
    known = points[points[:, 2] > 0, :2]
    if not len(known):
        return [20.0, 30.0, 40.0, 50.0]
    low, high = known.min(0) - 2, known.max(0) + 2
    return [*low.tolist(), *(high - low).tolist()]


def crowd_index(people: list[Array]) -> float:
    """CrowdPose's crowd index: over the people, the mean ratio of others' joints in the box to one's own joints.

    Definition: https://arxiv.org/abs/1812.00324, equation 6. At most 1, like the ones that are published.
    """
    ratios = []
    for n, points in enumerate(people):
        x, y, w, h = box_of(points)
        others = [p[p[:, 2] > 0, :2] for m, p in enumerate(people) if m != n]
        joints = np.concatenate(others) if others else np.zeros((0, 2))
        inside = ((joints >= [x, y]) & (joints <= [x + w, y + h])).all(1).sum()
        own = int((points[:, 2] > 0).sum())
        ratios.append(min(inside / own, 1.0) if own else 0.0)
    return round(float(np.mean(ratios)), 4) if ratios else 0.0


def _ground_truth(rng: Random, points: Array, crowdpose: bool) -> dict[str, Any]:
    box = box_of(points)
    crowd = int(rng.random() < 0.1)
    counted = points[:, 2] == 2 if crowdpose else points[:, 2] > 0
    row: dict[str, Any] = {"keypoints": points.reshape(-1).astype(int).tolist(), "bbox": box, "iscrowd": crowd}
    row["num_keypoints"] = int(counted.sum())
    if not crowdpose:
        row["area"] = float(rng.choice([box[2] * box[3] * 0.5, 32**2, 96**2 + 1], p=[0.8, 0.1, 0.1]))
    return row


def _found(rng: Random, people: list[Array], joints: int) -> list[list[float]]:
    """The joints of detections: x, y, confidence of each, as one list."""
    many = rng.random() < 0.15
    found = []
    for points in people:
        size = max(box_of(points)[2:])
        for _ in range(int(rng.integers(4, 9)) if many else int(rng.integers(0, 3))):
            moved = points[:, :2] + np.round(rng.normal(0, size * rng.choice([0, 0.02, 0.08]), (joints, 2)))
            found.append(_with_confidence(rng, moved))
    away = [np.round(rng.uniform(0, SIZE[0], (joints, 2))) for _ in range(int(rng.integers(0, 3)))]
    return found + [_with_confidence(rng, places) for places in away]


def _with_confidence(rng: Random, places: Array) -> list[float]:
    confidence = np.round(rng.random(len(places)), 2) * (rng.random() > 0.1)
    return np.column_stack((places, confidence)).reshape(-1).tolist()
