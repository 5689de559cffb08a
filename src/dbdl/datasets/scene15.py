"""Fifteen Scene Categories: 4485 images of rooms, streets and landscapes (paper, section 5.4).

The paper takes the spatial pyramids that the authors of LC-KSVD published.
"""

from __future__ import annotations

from dbdl.datasets.source import LCKSVD_FEATURES, Form, Source

READY_MADE, OF_IMAGES = ("spatial pyramid",), ("spatial pyramid", "pixels")

SOURCE = Source(
    "scene15",
    "Fifteen Scene Categories",
    (
        Form("scene15_spm3000.npz", READY_MADE, "spatial pyramids, arrays X (4485, 3000) and y"),
        Form(
            "spatialpyramidfeatures4scene15.mat",
            READY_MADE,
            "spatial pyramids of the LC-KSVD authors, which the paper used",
        ),
        Form("scene_categories", OF_IMAGES, "folder of the images: bedroom/image_0001.jpg"),
        Form("15-Scene", OF_IMAGES, "folder of the images: 00/1.jpg, ..."),
        Form("scene15_images", OF_IMAGES, "folder of the images, one folder per class"),
    ),
    "the images from figshare.com/articles/dataset/15-Scene_Image_Dataset/7007177; "
    + LCKSVD_FEATURES,
)
