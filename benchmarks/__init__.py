"""Benchmarks: speed and memory against other engines, checks and timings on a GPU. Run from the checkout.

``python -m benchmarks.run detection``  ratios against other COCO evaluators, parity first
``python -m benchmarks.run host``       time of host code on CUDA, without a GPU
``python -m benchmarks.report``         docs/benchmarks.md and both tables of the README
``python -m benchmarks.gpu_check``      parity, synchronisation and timings on a CUDA device
``pytest benchmarks/bench_ops.py``      one row per op
"""
