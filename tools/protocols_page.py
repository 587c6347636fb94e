"""docs/protocols.md: the table of protocols of valor_gpu.coco."""

from __future__ import annotations

from valor_gpu.coco.protocols import PROTOCOLS, Line, Protocol

NOTE = "<!-- Made by tools/make_docs.py from valor_gpu/coco/protocols.py: change that, then run it. -->"
TEXT = """# Protocols

A protocol is what an evaluation starts from and what it reports: a row of `valor_gpu/coco/protocols.py`. Every number
of it is a default of `params`, which may be changed before `evaluate`. Matching and curves are the same for all
(docs/design/004-one-matcher.md); how similar a detection and a ground truth are, and which of them count, differs."""

MEANINGS = {
    "bbox": (
        "COCO boxes",
        '`COCOeval(iouType="bbox")`',
        "IoU of boxes; against a crowd, intersection over detection area",
    ),
    "segm": ("COCO masks", '`COCOeval(iouType="segm")`', "the same of masks"),
    "boundary": (
        "Boundary IoU",
        '`COCOeval(iouType="boundary")`',
        "the smaller of the IoU of masks and of their boundaries (2 % of the diagonal of the image wide); against a"
        " crowd, of masks alone",
    ),
    "rotated": (
        "Rotated boxes",
        '`COCOeval(iouType="rotated")`',
        "IoU of rotated boxes, exact polygon clipping; `bbox` is [centre x, centre y, width, height, degrees"
        " counterclockwise] or four corners; against a crowd, intersection over detection area",
    ),
    "keypoints": (
        "COCO keypoints",
        '`COCOeval(iouType="keypoints")`',
        "object keypoint similarity, also against a crowd; a ground truth without keypoints is ignored",
    ),
    "keypoints_crowd": (
        "CrowdPose",
        '`COCOeval(iouType="keypoints_crowd")`',
        "object keypoint similarity by 0.53 x the area of the box; detections without a confidence above 0 are left"
        " out; easy, medium and hard images by their `crowdIndex`: below 0.2, below 0.8, others",
    ),
    "lvis": (
        "LVIS v0.5 and v1",
        '`LVISEval(iou_type="bbox")`, `"segm"`',
        "IoU, no crowds; the best detections of an image over all categories; an image counts only for the categories"
        " of its ground truths and its negative list; unmatched detections of not exhaustive categories are ignored",
    ),
}


def page() -> str:
    """The page."""
    head = ["| protocol | class | similarity, and what counts | max-detection limits |", "| --- | --- | --- | --- |"]
    rows: list[str] = []
    alike: dict[Protocol, list[str]] = {}
    for name, protocol in PROTOCOLS.items():
        title, home, meaning = MEANINGS[name]
        per = "an image" if name == "lvis" else "an image and category"
        rows.append(f"| {title} | {home} | {meaning} | {', '.join(map(str, protocol.limits))} of {per} |")
        alike.setdefault(protocol, []).append(title)
    (low, high, steps), samples = PROTOCOLS["bbox"].thresholds, PROTOCOLS["bbox"].recalls[2]
    grid = f"""All have {steps} thresholds of similarity from {low} to {high} and {samples} recall samples from 0 to 1.
Area ranges, in square pixels: all; small up to 32 x 32 (not of keypoints), medium up to 96 x 96, large above."""
    details = [_details(", ".join(titles), protocol) for protocol, titles in alike.items()]
    return "\n\n".join([NOTE, TEXT, "\n".join(head + rows), grid, *details]) + "\n"


def _details(title: str, protocol: Protocol) -> str:
    lines = "\n".join(f"{n}. {_line(line, protocol)}" for n, line in enumerate(protocol.lines, 1))
    parts = [f"## Summary: {title}", lines]
    if protocol.sigmas:
        sigmas = ", ".join(f"{sigma:g}" for sigma in protocol.sigmas)
        parts.append(f"Tolerances of the {len(protocol.sigmas)} keypoints (`params.kpt_oks_sigmas`): {sigmas}.")
    return "\n\n".join(parts)


def _line(line: Line, protocol: Protocol) -> str:
    kind = "average precision" if line.precision else "average recall"
    limit = line.limit or protocol.limits[min(line.nth, len(protocol.limits) - 1)]
    parts = [f"threshold {line.iou:g}" if line.iou is not None else "", line.area if line.area != "all" else ""]
    parts += [{"r": "rare", "c": "common", "f": "frequent"}.get(line.group, line.group), f"limit {limit}"]
    name = f"`{line.name.format(limit=limit)}`: " if line.name else ""
    return f"{name}{kind}, {', '.join(part for part in parts if part)}"
