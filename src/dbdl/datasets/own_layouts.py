"""Folders of the catalogue with a layout of their own: AR, Extended YaleB, UCF Sports."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import numpy as np

from dbdl._files import reading
from dbdl.datasets.dataset import DataError, Dataset, Options, make_dataset
from dbdl.datasets.formats import read_folder
from dbdl.datasets.image_rows import dataset_of_images, is_image

# M-001-01.bmp: man or woman, person, image; 1 to 13 are of the first session
AR_NAME = re.compile(r"([mw]-\d{3})-\d{1,2}", re.IGNORECASE)
BANKED = "_banked.npy.gz"
# dive00_banked.npy.gz: action, number of the video
BANKED_NAME = re.compile(r"([A-Za-z][A-Za-z_-]*?)[_-]?\d+")


def read_ar(folder: Path, options: Options) -> Dataset:
    """Read ``M-001-01.bmp`` and the like, in the folder or in folders in it; people are classes."""
    person_of = {
        path: match[1].upper()
        for path in sorted(folder.rglob("*"))
        if is_image(path) and (match := AR_NAME.fullmatch(path.stem))
    }
    if not person_of:
        raise DataError(
            f"{folder} holds no faces; expected files such as M-001-01.bmp (man or woman, person, "
            "image), the cropped images of the database"
        )
    return dataset_of_images(list(person_of), np.array(list(person_of.values())), folder, options)


def read_yaleb(folder: Path, options: Options) -> Dataset:
    """Read the crops of ``CroppedYale``, without the ambient images, which are whole scenes."""

    def is_crop(path: Path) -> bool:
        return is_image(path) and not path.stem.endswith("_Ambient")

    return read_folder(folder, options, is_crop)


def read_banked(folder: Path, options: Options) -> Dataset:
    """Read ``dive00_banked.npy.gz`` and the like, or the same in one folder per action."""
    paths = sorted(folder.rglob(f"*{BANKED}"))
    if not paths:
        raise DataError(
            f"{folder} holds no features; expected files such as dive00{BANKED}, or folders named "
            "after the actions with such files"
        )
    rows = [_read_vector(path) for path in paths]
    for path, row in zip(paths, rows, strict=True):
        if row.shape != rows[0].shape:
            raise DataError(
                f"{path} holds {len(row)} numbers, but {paths[0].name} holds {len(rows[0])}; all "
                "videos need the same bank of actions"
            )
    actions = np.array([_action(path, folder) for path in paths])
    return make_dataset(np.stack(rows), actions, "ucf_sports", feature_kind="action bank")


def _read_vector(path: Path) -> np.ndarray:
    with reading(path, "file of the action bank"), gzip.open(path) as file:
        return np.load(file, allow_pickle=False).ravel()


def _action(path: Path, folder: Path) -> str:
    if path.parent != folder:
        return path.relative_to(folder).parts[0]
    match = BANKED_NAME.fullmatch(path.name.removesuffix(BANKED))
    if match is None:
        raise DataError(
            f"{path.name}: expected the action and the number of the video, as in dive00{BANKED}"
        )
    return match[1]
