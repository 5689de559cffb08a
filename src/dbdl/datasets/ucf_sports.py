"""UCF Sports: videos of ten sports actions, as action bank features (paper, section 5.5).

No public extractor of action bank features could be called from here (the authors' code needs a
bank of templates of its own and hours per video). So only ready-made features are read: the
authors' own files, one per video, or an array of all videos.
"""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import numpy as np

from dbdl._files import reading
from dbdl.datasets.dataset import DataError, Dataset, Options, make_dataset
from dbdl.datasets.source import Form, Source

SUFFIX = "_banked.npy.gz"

# dive00_banked.npy.gz: action, number of the video
FILE_NAME = re.compile(r"([A-Za-z][A-Za-z_-]*?)[_-]?\d+")


def read_banked(folder: Path, options: Options) -> Dataset:
    """Read ``dive00_banked.npy.gz`` and the like, or the same in one folder per action."""
    paths = sorted(folder.rglob(f"*{SUFFIX}"))
    if not paths:
        raise DataError(
            f"{folder} holds no features; expected files such as dive00{SUFFIX}, or folders named "
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
    match = FILE_NAME.fullmatch(path.name.removesuffix(SUFFIX))
    if match is None:
        raise DataError(
            f"{path.name}: expected the action and the number of the video, as in dive00{SUFFIX}"
        )
    return match[1]


SOURCE = Source(
    "ucf_sports",
    "UCF Sports",
    (
        Form(
            "ucf_sports_actionbank",
            ("action bank",),
            f"folder of the action bank's authors: dive00{SUFFIX}, ...",
            read_banked,
        ),
        Form("ucf_sports_actionbank.npz", ("action bank",), "action bank features, arrays X and y"),
        Form(
            "ucf_sports_actionbank.mat",
            ("action bank",),
            "action bank features, arrays X and y or featureMat and labelMat",
        ),
    ),
    "the features that its authors computed from cse.buffalo.edu/~jcorso/r/actionbank; the videos, "
    "from which no public program makes these features, from "
    "www.crcv.ucf.edu/data/UCF_Sports_Action.php",
)
