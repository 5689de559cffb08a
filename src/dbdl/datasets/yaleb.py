"""Extended YaleB: 2414 frontal faces of 38 people under varying light (paper, section 5.1).

The paper projects the 192×168 crops on 504 random directions. In ``CroppedYale`` the ambient images
are whole scenes of another size, and files that end in ``.bad`` are marked as damaged by the
database: neither counts among the 2414.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from dbdl.datasets.formats import pixels_by_columns, read_folder
from dbdl.datasets.image_rows import is_image
from dbdl.datasets.source import LCKSVD_FEATURES, Form, Source


def is_crop(path: Path) -> bool:
    """Whether a file is a cropped face."""
    return is_image(path) and not path.stem.endswith("_Ambient")


SOURCE = Source(
    "yaleb",
    "Extended YaleB",
    (
        Form(
            "extended_yaleb_randomfaces504.npz",
            ("random faces",),
            "random faces, arrays X (2414, 504) and y",
        ),
        Form(
            "randomfaces4extendedyaleb.mat",
            ("random faces",),
            "random faces of the LC-KSVD authors",
        ),
        Form(
            "extended_yaleb_32x32.npz",
            ("pixels",),
            "32×32 pixels in the order of columns, arrays X (2414, 1024) and y",
            pixels_by_columns(32, 32),
        ),
        Form(
            "CroppedYale",
            ("random faces", "pixels"),
            "folder of the cropped images: yaleB01/yaleB01_P00A+000E+00.pgm, ...",
            partial(read_folder, keep=is_crop),
            {"random faces": {"n_components": 504}},
        ),
    ),
    "CroppedYale.zip from vision.ucsd.edu/~leekc/ExtYaleDatabase/ExtYaleB.html; " + LCKSVD_FEATURES,
)
