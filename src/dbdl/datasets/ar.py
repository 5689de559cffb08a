"""AR: faces of 100 people, 26 images each, with changing faces, light and disguise (section 5.2).

The paper projects the 165×120 crops of 50 men and 50 women on 540 random directions.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from dbdl.datasets.files import ready_made
from dbdl.datasets.images import dataset_of_images, is_image
from dbdl.datasets.record import DataError, Dataset
from dbdl.datasets.source import Form, Options, Source

N_DIRECTIONS = 540

# M-001-01.bmp: man or woman, person, image; 1 to 13 are of the first session.
FILE_NAME = re.compile(r"([mw])-(\d{3})-(\d{1,2})", re.IGNORECASE)


def read_faces(folder: Path, options: Options) -> Dataset:
    """Read ``M-001-01.bmp`` and the like, in the folder or in folders in it; people are classes."""
    named = [
        (match, path)
        for path in sorted(folder.rglob("*"))
        if is_image(path) and (match := FILE_NAME.fullmatch(path.stem))
    ]
    if not named:
        raise DataError(
            f"{folder} holds no faces; expected files such as M-001-01.bmp (man or woman, person, "
            "image), the cropped images of the database"
        )
    people = np.array([f"{match[1].upper()}-{match[2]}" for match, _ in named])
    paths = [path for _, path in named]
    defaults = {"random faces": {"n_components": N_DIRECTIONS}}
    return dataset_of_images(paths, people, folder, "ar", options, defaults)


SOURCE = Source(
    "ar",
    "AR",
    (
        Form(
            "randomfaces4ar.mat",
            ("random faces",),
            ready_made("ar"),
            "random faces of the LC-KSVD authors",
        ),
        Form(
            "AR",
            ("random faces", "pixels"),
            read_faces,
            "folder of the cropped 165×120 images: M-001-01.bmp, W-001-01.bmp, ...",
        ),
    ),
    "the database, on request, from www2.ece.ohio-state.edu/~aleix/ARdatabase.html; the features "
    "of the LC-KSVD authors from users.umiacs.umd.edu/~zhuolin/projectlcksvd.html",
)
