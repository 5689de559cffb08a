"""Caltech-101: 9144 images of 101 kinds of objects and a background class (paper, section 5.3).

The paper's features are spatial pyramids of dense SIFT, reduced to 3000 numbers by PCA.
"""

from __future__ import annotations

from pathlib import Path

from dbdl.datasets.files import ready_made
from dbdl.datasets.images import dataset_of_images, list_images
from dbdl.datasets.record import DataError, Dataset
from dbdl.datasets.source import Form, Options, Source


def read_categories(folder: Path, options: Options) -> Dataset:
    """Read ``accordion/image_0001.jpg`` and the like; BACKGROUND_Google is the 102nd class."""
    paths, categories = list_images(folder)
    if not paths:
        raise DataError(
            f"{folder} holds no images; expected folders such as accordion with files such as "
            "image_0001.jpg"
        )
    return dataset_of_images(paths, categories, folder, "caltech101", options)


SOURCE = Source(
    "caltech101",
    "Caltech-101",
    (
        Form(
            "spatialpyramidfeatures4caltech101.mat",
            ("spatial pyramid",),
            ready_made("caltech101"),
            "spatial pyramids of the LC-KSVD authors",
        ),
        Form(
            "101_ObjectCategories",
            ("spatial pyramid", "pixels"),
            read_categories,
            "folder of the images: accordion/image_0001.jpg, ...",
        ),
    ),
    "101_ObjectCategories.tar.gz in caltech-101.zip from data.caltech.edu/records/mzrjq-6wc02; the "
    "features of the LC-KSVD authors from users.umiacs.umd.edu/~zhuolin/projectlcksvd.html",
)
