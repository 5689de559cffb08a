"""Images for tests: smooth noise, with gradients of every direction and strength."""

import numpy as np
from scipy.ndimage import gaussian_filter


def smooth_noise(height=48, width=60, seed=0, smoothing=2.0):
    """Grey levels, uint8, from dark to bright."""
    noise = gaussian_filter(np.random.default_rng(seed).standard_normal((height, width)), smoothing)
    noise -= noise.min()
    return np.round(255 * noise / noise.max()).astype(np.uint8)


def stripes(height=48, width=60, angle=0.0, seed=0):
    """Stripes across an image, with some noise: a texture that is told apart by its angle."""
    rng = np.random.default_rng(seed)
    r, c = np.mgrid[:height, :width]
    along = np.cos(angle) * c + np.sin(angle) * r
    wave = 0.5 + 0.4 * np.sin(along / 1.7 + rng.uniform(0, 6))
    return np.clip(255 * (wave + 0.05 * rng.standard_normal(wave.shape)), 0, 255).astype(np.uint8)
