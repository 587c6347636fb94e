"""Names of torchmetrics.wrappers."""

from torchmetrics.wrappers import *  # noqa: F403
