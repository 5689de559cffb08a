"""AR: faces of 100 people, 26 images each, with changing faces, light and disguise (section 5.2).

The paper projects the 165×120 crops of 50 men and 50 women on 540 random directions.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from dbdl.datasets.dataset import DataError, Dataset, Options
from dbdl.datasets.image_rows import dataset_of_images, is_image
from dbdl.datasets.source import LCKSVD_FEATURES, Form, Source

# M-001-01.bmp: man or woman, person, image; 1 to 13 are of the first session.
FILE_NAME = re.compile(r"([mw]-\d{3})-\d{1,2}", re.IGNORECASE)


def read_faces(folder: Path, options: Options) -> Dataset:
    """Read ``M-001-01.bmp`` and the like, in the folder or in folders in it; people are classes."""
    person_of = {
        path: match[1].upper()
        for path in sorted(folder.rglob("*"))
        if is_image(path) and (match := FILE_NAME.fullmatch(path.stem))
    }
    if not person_of:
        raise DataError(
            f"{folder} holds no faces; expected files such as M-001-01.bmp (man or woman, person, "
            "image), the cropped images of the database"
        )
    return dataset_of_images(list(person_of), np.array(list(person_of.values())), folder, options)


SOURCE = Source(
    "ar",
    "AR",
    (
        Form("randomfaces4ar.mat", ("random faces",), "random faces of the LC-KSVD authors"),
        Form(
            "AR",
            ("random faces", "pixels"),
            "folder of the cropped 165×120 images: M-001-01.bmp, W-001-01.bmp, ...",
            read_faces,
            {"random faces": {"n_components": 540}},
        ),
    ),
    "the database, on request, from www2.ece.ohio-state.edu/~aleix/ARdatabase.html; "
    + LCKSVD_FEATURES,
)
