"""Metrics on several processes.

Usage: torchrun --nproc-per-node 2 examples/distributed.py
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset

from valor_gpu import Result
from valor_gpu.classification import Accuracy


def validate(data: Dataset[tuple[torch.Tensor, ...]]) -> Result:
    """Validate a part of the data on each rank; every rank gets the result of all."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    part = Subset(data, range(rank, len(data), ranks))  # type: ignore[arg-type]  # parts may differ in size
    metric = Accuracy(num_classes=10)  # on a GPU: .to(f"cuda:{local_rank}"), with the backend nccl
    for logits, target in DataLoader(part, batch_size=64):
        metric.update(logits, target)
    result = metric.result()  # collective: every rank calls it, also one without data
    if rank == 0:
        print(result)
    return result


def main() -> None:
    """Validate a "model" whose logits are in the data."""
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    validate(TensorDataset(torch.randn(1001, 10), torch.randint(0, 10, (1001,))))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
