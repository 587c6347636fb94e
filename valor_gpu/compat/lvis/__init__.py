"""Names of lvis-api: ``LVIS``, ``LVISResults``, ``LVISEval`` and its parameters, with its dicts and printed text.

Programs import them from :mod:`valor_gpu.coco`, whose modules compute the numbers.
"""
