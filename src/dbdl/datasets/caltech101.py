"""Caltech-101: 9144 images of 101 kinds of objects and a background class (paper, section 5.3).

The paper's features are spatial pyramids of dense SIFT, reduced to 3000 numbers by PCA.
BACKGROUND_Google is the 102nd class.
"""

from __future__ import annotations

from dbdl.datasets.source import LCKSVD_FEATURES, Form, Source

SOURCE = Source(
    "caltech101",
    "Caltech-101",
    (
        Form(
            "spatialpyramidfeatures4caltech101.mat",
            ("spatial pyramid",),
            "spatial pyramids of the LC-KSVD authors",
        ),
        Form(
            "101_ObjectCategories",
            ("spatial pyramid", "pixels"),
            "folder of the images: accordion/image_0001.jpg, ...",
        ),
    ),
    "101_ObjectCategories.tar.gz in caltech-101.zip from data.caltech.edu/records/mzrjq-6wc02; "
    + LCKSVD_FEATURES,
)
