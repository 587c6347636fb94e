"""Damaged copies of a file."""

from __future__ import annotations

import random


def mutated(data: bytes, seed: int) -> bytes:
    """One to three changes: a bit, a stretch taken out or doubled, random bytes, another place's byte, or an end."""
    rng = random.Random(seed)
    found = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 3))):
        at = rng.randrange(len(found) or 1)
        size = rng.randrange(1, 40)
        match rng.randrange(6):
            case 0 if found:
                found[at] ^= 1 << rng.randrange(8)
            case 1:
                del found[at : at + size]
            case 2:
                found[at:at] = found[at : at + size]
            case 3:
                found[at : at + 4] = rng.randbytes(4)
            case 4 if found:
                found[at] = found[rng.randrange(len(found))]
            case 5:
                del found[at if rng.randrange(4) == 0 else len(found) - 1 :]
    return bytes(found)
