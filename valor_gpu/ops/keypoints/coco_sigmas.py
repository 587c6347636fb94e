"""Tolerances of COCO's keypoints, for evaluations that load no kernels of keypoints. Imports nothing."""

COCO_SIGMAS = tuple(
    tenth / 10.0
    for tenth in (0.26, 0.25, 0.25, 0.35, 0.35, 0.79, 0.79, 0.72, 0.72, 0.62, 0.62, 1.07, 1.07, 0.87, 0.87, 0.89, 0.89)
)
"""Of COCO's 17 keypoints of a person, as pycocotools has them: nose, eyes, ears, shoulders, elbows, wrists, hips,
knees, ankles."""
