"""Names of pycocotools: ``COCO``, ``COCOeval``, ``Params`` and ``mask``, with its arguments, dicts and printed text.

Programs import them from :mod:`valor_gpu.coco`, whose modules compute the numbers.
"""
