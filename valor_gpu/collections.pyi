"""Names of torchmetrics.collections."""

from torchmetrics.collections import *  # noqa: F403
