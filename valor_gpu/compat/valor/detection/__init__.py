"""Names of ``valor_core.detection``, and the dicts of its metrics."""
