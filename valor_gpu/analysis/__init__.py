"""Why a result is what it is: errors of detection, operating points, tables of images and objects, slices. No torch.

Users reach all of it through :class:`valor_gpu.result.Result`. Design: docs/design/046-analysis.md.
"""
