"""What numbers of results are called on pages."""

from __future__ import annotations

TITLES = {
    "map": ("AP", "mean over IoU"),
    "map_50": ("AP50", "IoU 0.50"),
    "map_75": ("AP75", "IoU 0.75"),
    "map_small": ("AP small", "under 32² px"),
    "map_medium": ("AP medium", "32² to 96² px"),
    "map_large": ("AP large", "above 96² px"),
    "map_rare": ("AP rare", "classes on 1 to 10 images"),
    "map_common": ("AP common", "on 11 to 100 images"),
    "map_frequent": ("AP frequent", "on more than 100 images"),
    "mar_small": ("AR small", "under 32² px"),
    "mar_medium": ("AR medium", "32² to 96² px"),
    "mar_large": ("AR large", "above 96² px"),
    "miou": ("mIoU", "all pixels"),
    "image_miou": ("mIoU", "mean of images"),
    "pq": ("PQ", "panoptic quality"),
    "sq": ("SQ", "of matched segments"),
    "rq": ("RQ", "recognition"),
    "roc_auc": ("ROC AUC", ""),
    "f1": ("F1", ""),
    "iou": ("IoU", ""),
    "matthews_corrcoef": ("Matthews", "correlation"),
    "cohen_kappa": ("Cohen's kappa", ""),
    "calibration_error": ("ECE", "calibration error"),
    "average_precision": ("AP", "average precision"),
}


def title(name: str) -> tuple[str, str]:
    """How a number is called, and what it is of.

    Example:
        >>> title("map_50"), title("mar_100"), title("mean_accuracy")
        (('AP50', 'IoU 0.50'), ('AR100', 'at most 100 an image'), ('mean accuracy', ''))
    """
    if name in TITLES:
        return TITLES[name]
    if name.startswith("mar"):
        of = name.removeprefix("mar").removeprefix("_")
        return (f"AR{of}", f"at most {of} an image") if of.isdecimal() else (f"AR {of}".strip(), "")
    return words_of(name), ""


_CAPITALS = {
    "f1": "F1",
    "iou": "IoU",
    "miou": "mIoU",
    "pq": "PQ",
    "sq": "SQ",
    "rq": "RQ",
    "tp": "TP",
    "fp": "FP",
    "fn": "FN",
}


def words_of(name: str) -> str:
    """The name of a number in words.

    Example:
        >>> words_of("image_mean_f1")
        'image mean F1'
    """
    return " ".join(_CAPITALS.get(word, word) for word in name.split("_"))
