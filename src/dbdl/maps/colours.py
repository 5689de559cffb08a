"""Colours of classes that can be told apart; the first seven by colour-blind readers too."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

#: The first colours, by Okabe and Ito (2008); later ones are as far as possible from those before.
FIRST = (
    (0, 114, 178), (230, 159, 0), (0, 158, 115), (204, 121, 167), (213, 94, 0), (86, 180, 233),
    (240, 228, 66),
)  # fmt: skip
NO_DATA = (255, 255, 255)
REFUSED = (40, 40, 40)
#: Lightness of the colours of classes: darker ones look refused, lighter ones without data.
DARKEST, LIGHTEST = 0.4, 0.93
#: From linear RGB to cone responses, and on to Oklab (Ottosson, 2020).
TO_CONES = np.array(
    [[0.4122214708, 0.5363325363, 0.0514459929],
     [0.2119034982, 0.6806995451, 0.1073969566],
     [0.0883024619, 0.2817188376, 0.6299787005]]
)  # fmt: skip
TO_LAB = np.array(
    [[0.2104542553, 0.7936177850, -0.0040720468],
     [1.9779984951, -2.4285922050, 0.4505937099],
     [0.0259040371, 0.7827717662, -0.8086757660]]
)  # fmt: skip


def class_colours(n_classes: int) -> NDArray[np.uint8]:
    """Colours (n_classes, 3) of classes, different from those of no data and of refused pixels."""
    return np.array(_colours(n_classes), dtype=np.uint8)


@lru_cache(maxsize=8)
def _colours(n_classes: int) -> tuple[tuple[int, int, int], ...]:
    found = list(FIRST[:n_classes])
    steps = np.linspace(0, 255, 12).round().astype(int)
    candidates = np.stack(np.meshgrid(steps, steps, steps), axis=-1).reshape(-1, 3)
    light = _seen(candidates)[:, 0]
    candidates = candidates[(light > DARKEST) & (light < LIGHTEST)]
    seen = _seen(candidates)
    taken = np.array([*found, NO_DATA, REFUSED])
    nearest = np.min(np.linalg.norm(seen[:, None] - _seen(taken), axis=2), axis=1)
    while len(found) < n_classes:
        best = int(nearest.argmax())
        r, g, b = candidates[best].tolist()
        found.append((r, g, b))
        nearest = np.minimum(nearest, np.linalg.norm(seen - seen[best], axis=1))
    return tuple(found)


def _seen(colours: NDArray[np.int64]) -> NDArray[np.float64]:
    """Colours (n, 3) in Oklab, where distances are those that people see."""
    share = colours / 255
    linear = np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)
    return np.cbrt(linear @ TO_CONES.T) @ TO_LAB.T
