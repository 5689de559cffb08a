"""Tiny data sets in the databases' own layouts, written by the tests."""

import gzip

import numpy as np
from PIL import Image
from scipy.ndimage import gaussian_filter


def write_image(path, class_number, number, shape):
    """An image whose class can be seen: a smooth pattern of the class, and some noise."""
    rng = np.random.default_rng(class_number)
    pattern = gaussian_filter(rng.standard_normal(shape), 2.0)
    noise = np.random.default_rng([class_number, number]).standard_normal(shape)
    grey = 128 + 60 * pattern / pattern.std() + 8 * noise
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.clip(grey, 0, 255).astype(np.uint8)).save(path)


def write_yaleb(folder, n_people=3, n_images=6, shape=(24, 21)):
    """CroppedYale/yaleBNN/*.pgm, with the ambient images and the files marked as damaged."""
    root = folder / "CroppedYale"
    for person in range(1, n_people + 1):
        name = f"yaleB{person:02d}"
        for i in range(n_images):
            write_image(root / name / f"{name}_P00A+{5 * i:03d}E+00.pgm", person, i, shape)
        write_image(root / name / f"{name}_P00_Ambient.pgm", person, 99, (48, 64))
        (root / name / f"{name}_P00A+130E+20.pgm.bad").write_bytes(b"damaged")
        (root / name / f"{name}_P00.info").write_text("a list of files")
    return root


def write_ar(folder, n_people=2, n_images=5, shape=(33, 24)):
    """AR/M-001-01.bmp and W-001-01.bmp."""
    root = folder / "AR"
    for kind, sex in enumerate("MW"):
        for person in range(1, n_people + 1):
            for i in range(1, n_images + 1):
                name = f"{sex}-{person:03d}-{i:02d}.bmp"
                write_image(root / name, 10 * kind + person, i, shape)
    return root


def write_classes(root, names, n_images=5, shape=(40, 48), suffix=".jpg"):
    """A folder of class folders; sizes differ a little from image to image."""
    for number, name in enumerate(names):
        for i in range(1, n_images + 1):
            size = (shape[0] + 2 * i, shape[1] - 2 * i)
            write_image(root / name / f"image_{i:04d}{suffix}", number, i, size)
    return root


def write_banked(root, names, n_videos=3, n_features=20):
    """dive00_banked.npy.gz and the like: the action bank's own files."""
    root.mkdir(parents=True, exist_ok=True)
    for number, name in enumerate(names):
        for i in range(n_videos):
            values = np.random.default_rng([number, i]).integers(0, 255, n_features, dtype=np.uint8)
            with gzip.open(root / f"{name}{i:02d}_banked.npy.gz", "wb") as file:
                np.save(file, values)
    return root


def columns_and_one_hot(n_samples=6, n_features=4, n_classes=3):
    """featureMat (n_features, n_samples) and labelMat (n_classes, n_samples)."""
    rng = np.random.default_rng(0)
    label = np.arange(n_samples) % n_classes
    one_hot = np.eye(n_classes)[label].T
    return rng.standard_normal((n_features, n_samples)), one_hot
