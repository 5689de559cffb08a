"""Fifteen Scene Categories: 4485 images of rooms, streets and landscapes (paper, section 5.4).

The paper takes the spatial pyramids that the authors of LC-KSVD published.
"""

from __future__ import annotations

from pathlib import Path

from dbdl.datasets.files import ready_made
from dbdl.datasets.images import dataset_of_images, list_images
from dbdl.datasets.record import DataError, Dataset
from dbdl.datasets.source import Form, Options, Source

KINDS = ("spatial pyramid", "pixels")


def read_scenes(folder: Path, options: Options) -> Dataset:
    """Read a folder of class folders, whatever their names."""
    paths, scenes = list_images(folder)
    if not paths:
        raise DataError(
            f"{folder} holds no images; expected fifteen folders such as bedroom with files such "
            "as image_0001.jpg"
        )
    return dataset_of_images(paths, scenes, folder, "scene15", options)


SOURCE = Source(
    "scene15",
    "Fifteen Scene Categories",
    (
        Form(
            "scene15_spm3000.npz",
            ("spatial pyramid",),
            ready_made("scene15"),
            "spatial pyramids, arrays X (4485, 3000) and y",
        ),
        Form(
            "spatialpyramidfeatures4scene15.mat",
            ("spatial pyramid",),
            ready_made("scene15"),
            "spatial pyramids of the LC-KSVD authors, which the paper used",
        ),
        Form(
            "scene_categories", KINDS, read_scenes, "folder of the images: bedroom/image_0001.jpg"
        ),
        Form("15-Scene", KINDS, read_scenes, "folder of the images: 00/1.jpg, ..."),
        Form("scene15_images", KINDS, read_scenes, "folder of the images, one folder a class"),
    ),
    "the images from figshare.com/articles/dataset/15-Scene_Image_Dataset/7007177; the features of "
    "the LC-KSVD authors from users.umiacs.umd.edu/~zhuolin/projectlcksvd.html",
)
