"""Extended YaleB: 2414 frontal faces of 38 people under varying light (paper, section 5.1).

The paper projects the 192×168 crops on 504 random directions.
"""

from __future__ import annotations

from pathlib import Path

from dbdl.datasets.files import images_ready_made, ready_made
from dbdl.datasets.images import dataset_of_images, is_image, list_images
from dbdl.datasets.record import DataError, Dataset
from dbdl.datasets.source import Form, Options, Source

N_DIRECTIONS = 504


def read_crops(folder: Path, options: Options) -> Dataset:
    """Read ``yaleBNN/yaleBNN_P00A+000E+00.pgm``: a folder a person, the pose and light in the name.

    The ambient images are whole scenes of another size, and files that end in ``.bad`` are
    marked as damaged by the database: neither counts among the 2414.
    """
    paths, people = list_images(
        folder, lambda path: is_image(path) and not path.stem.endswith("_Ambient")
    )
    if not paths:
        raise DataError(
            f"{folder} holds no crops; expected folders such as yaleB01 with files such as "
            "yaleB01_P00A+000E+00.pgm"
        )
    defaults = {"random faces": {"n_components": N_DIRECTIONS}}
    return dataset_of_images(paths, people, folder, "yaleb", options, defaults)


SOURCE = Source(
    "yaleb",
    "Extended YaleB",
    (
        Form(
            "extended_yaleb_randomfaces504.npz",
            ("random faces",),
            ready_made("yaleb"),
            "random faces, arrays X (2414, 504) and y",
        ),
        Form(
            "randomfaces4extendedyaleb.mat",
            ("random faces",),
            ready_made("yaleb"),
            "random faces of the LC-KSVD authors",
        ),
        Form(
            "extended_yaleb_32x32.npz",
            ("pixels",),
            images_ready_made("yaleb", (32, 32), by_columns=True),
            "32×32 pixels in the order of columns, arrays X (2414, 1024) and y",
        ),
        Form(
            "CroppedYale",
            ("random faces", "pixels"),
            read_crops,
            "folder of the cropped images: yaleB01/yaleB01_P00A+000E+00.pgm, ...",
        ),
    ),
    "CroppedYale.zip from vision.ucsd.edu/~leekc/ExtYaleDatabase/ExtYaleB.html; the features of "
    "the LC-KSVD authors from users.umiacs.umd.edu/~zhuolin/projectlcksvd.html",
)
