"""SIFT of one patch, pixel by pixel as Lowe describes it: slow and easy to read."""

import numpy as np


def describe_patch(grey, row, column, patch_size=16):
    """Descriptor (128,) of the patch around a pixel of an image that is already smooth."""
    width = patch_size / 4
    histogram = np.zeros((4, 4, 8))
    height, length = grey.shape
    for r in range(1, height - 1):
        for c in range(1, length - 1):
            y, x = (r - row) / width, (c - column) / width
            dx, dy = (grey[r, c + 1] - grey[r, c - 1]) / 2, (grey[r - 1, c] - grey[r + 1, c]) / 2
            direction = np.arctan2(dy, dx) % (2 * np.pi) * 8 / (2 * np.pi)
            strength = np.hypot(dx, dy) * np.exp(-(x * x + y * y) / 8)
            for b in range(4):
                for a in range(4):
                    near = max(0, 1 - abs(y - (b - 1.5))) * max(0, 1 - abs(x - (a - 1.5)))
                    for d in range(8):
                        turn = abs(direction - d)
                        share = max(0, 1 - min(turn, 8 - turn))
                        histogram[b, a, d] += strength * near * share
    unit = histogram.ravel() / np.linalg.norm(histogram)
    clipped = np.minimum(unit, 0.2)
    return clipped / np.linalg.norm(clipped)
