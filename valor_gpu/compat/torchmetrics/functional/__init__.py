"""Functions of torchmetrics, of which ``valor_gpu.functional`` is the front door."""
