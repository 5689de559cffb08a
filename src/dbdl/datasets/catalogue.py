"""All data sets by name: the files that each may come as, and where to get it.

The first five are those of the paper's sections 5.1 to 5.5. The command line, the experiments and
the tests walk this table. Four small data sets come with scikit-learn and are always available.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine

from dbdl.datasets.dataset import DataError, Dataset, make_dataset
from dbdl.datasets.formats import pixels_by_columns
from dbdl.datasets.own_layouts import read_ar, read_banked, read_yaleb
from dbdl.datasets.source import Form, Source

LCKSVD_FEATURES = (
    "the features of the LC-KSVD authors from users.umiacs.umd.edu/~zhuolin/projectlcksvd.html"
)
FACES, PYRAMIDS, BANK, PIXELS = (
    (kind,) for kind in ("random faces", "spatial pyramid", "action bank", "pixels")
)

SOURCES = (
    # 2414 frontal faces of 38 people under varying light. The paper projects the 192×168 crops on
    # 504 random directions. Files that end in .bad are marked as damaged by the database, and do
    # not count.
    Source(
        "yaleb",
        "Extended YaleB",
        (
            Form("extended_yaleb_randomfaces504.npz", FACES,
                 "random faces, arrays X (2414, 504) and y"),
            Form("randomfaces4extendedyaleb.mat", FACES, "random faces of the LC-KSVD authors"),
            Form("extended_yaleb_32x32.npz", PIXELS,
                 "32×32 pixels in the order of columns, arrays X (2414, 1024) and y",
                 pixels_by_columns(32, 32)),
            Form("CroppedYale", FACES + PIXELS,
                 "folder of the cropped images: yaleB01/yaleB01_P00A+000E+00.pgm, ...",
                 read_yaleb, {"random faces": {"n_components": 504}}),
        ),
        "CroppedYale.zip from vision.ucsd.edu/~leekc/ExtYaleDatabase/ExtYaleB.html; "
        + LCKSVD_FEATURES,
    ),
    # Faces of 50 men and 50 women, 26 images each, with changing faces, light and disguise. The
    # paper projects the 165×120 crops on 540 random directions.
    Source(
        "ar",
        "AR",
        (
            Form("randomfaces4ar.mat", FACES, "random faces of the LC-KSVD authors"),
            Form("AR", FACES + PIXELS,
                 "folder of the cropped 165×120 images: M-001-01.bmp, W-001-01.bmp, ...",
                 read_ar, {"random faces": {"n_components": 540}}),
        ),
        "the database, on request, from www2.ece.ohio-state.edu/~aleix/ARdatabase.html; "
        + LCKSVD_FEATURES,
    ),
    # 9144 images of 101 kinds of objects; BACKGROUND_Google is the 102nd class. The paper's
    # features are spatial pyramids of dense SIFT, reduced to 3000 numbers by PCA.
    Source(
        "caltech101",
        "Caltech-101",
        (
            Form("spatialpyramidfeatures4caltech101.mat", PYRAMIDS,
                 "spatial pyramids of the LC-KSVD authors"),
            Form("101_ObjectCategories", PYRAMIDS + PIXELS,
                 "folder of the images: accordion/image_0001.jpg, ..."),
        ),
        "101_ObjectCategories.tar.gz in caltech-101.zip from data.caltech.edu/records/mzrjq-6wc02; "
        + LCKSVD_FEATURES,
    ),
    # 4485 images of rooms, streets and landscapes.
    Source(
        "scene15",
        "Fifteen Scene Categories",
        (
            Form("scene15_spm3000.npz", PYRAMIDS, "spatial pyramids, arrays X (4485, 3000) and y"),
            Form("spatialpyramidfeatures4scene15.mat", PYRAMIDS,
                 "spatial pyramids of the LC-KSVD authors, which the paper used"),
            Form("scene_categories", PYRAMIDS + PIXELS,
                 "folder of the images: bedroom/image_0001.jpg"),
            Form("15-Scene", PYRAMIDS + PIXELS, "folder of the images: 00/1.jpg, ..."),
            Form("scene15_images", PYRAMIDS + PIXELS, "folder of the images, one folder per class"),
        ),
        "the images from figshare.com/articles/dataset/15-Scene_Image_Dataset/7007177; "
        + LCKSVD_FEATURES,
    ),
    # Videos of ten sports actions. Only ready-made features are read: the program of the action
    # bank's authors needs a bank of templates of its own, and hours per video.
    Source(
        "ucf_sports",
        "UCF Sports",
        (
            Form("ucf_sports_actionbank", BANK,
                 "folder of the action bank's authors: dive00_banked.npy.gz, ...", read_banked),
            Form("ucf_sports_actionbank.npz", BANK, "action bank features, arrays X and y"),
            Form("ucf_sports_actionbank.mat", BANK,
                 "action bank features, arrays X and y or featureMat and labelMat"),
        ),
        "the features that its authors computed from cse.buffalo.edu/~jcorso/r/actionbank; the "
        "videos, from which no public program makes these features, from "
        "www.crcv.ucf.edu/data/UCF_Sports_Action.php",
    ),
    # 9298 handwritten digits of 16×16 pixels, of which 2007 are a test set.
    Source(
        "usps",
        "USPS digits",
        (
            Form("usps_16x16.npz", PIXELS, "pixels in the order of columns, arrays "
                 "X_train (7291, 256), y_train, X_test, y_test", pixels_by_columns(16, 16)),
        ),
        "zip.train.gz and zip.test.gz from hastie.su.domains/ElemStatLearn/data.html, each image "
        "turned into the order of columns, saved as the arrays named above",
    ),
    # 20 objects on a turntable, 72 views each.
    Source(
        "coil20",
        "COIL-20",
        (
            Form("coil20_32x32.npz", PIXELS, "pixels in the order of columns, arrays "
                 "X (1440, 1024) and y", pixels_by_columns(32, 32)),
            Form("COIL20.mat", PIXELS, "the same as arrays fea and gnd", pixels_by_columns(32, 32)),
        ),
        "COIL20.mat (32×32) from www.cad.zju.edu.cn/home/dengcai/Data/MLData.html; the raw images "
        "from www.cs.columbia.edu/CAVE/software/softlib/coil-20.php",
    ),
    # 3248 labelled pixels of a satellite's image in 145 spectral bands, 14 land covers.
    Source(
        "botswana",
        "Botswana spectra",
        (
            Form("botswana_spectra145.npz", ("spectra",),
                 "labelled pixels, arrays X (3248, 145) and y"),
        ),
        "Botswana.mat and Botswana_gt.mat from "
        "www.ehu.eus/ccwintco/index.php/Hyperspectral_Remote_Sensing_Scenes; save the pixels with "
        "a label as the arrays named above",
    ),
)  # fmt: skip


def sources() -> dict[str, Source]:
    """Return the data sets that are looked for on disk, by name.

    Returns
    -------
    sources : dict of str to Source

    Examples
    --------
    >>> from dbdl.datasets import sources
    >>> list(sources())
    ['yaleb', 'ar', 'caltech101', 'scene15', 'ucf_sports', 'usps', 'coil20', 'botswana']
    """
    return {source.name: source for source in SOURCES}


#: Data sets of scikit-learn: the reader of each, and what is known of its rows.
SCIKIT_LEARN: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "digits": (load_digits, {"feature_kind": "pixels", "image_shape": (8, 8)}),
    "wine": (load_wine, {"feature_kind": "measurements"}),
    "iris": (load_iris, {"feature_kind": "measurements"}),
    "breast_cancer": (load_breast_cancer, {"feature_kind": "measurements"}),
}


def read_scikit_learn(name: str, features: str | None = None) -> Dataset:
    """Return a data set of scikit-learn by name; it has one kind of features."""
    read, details = SCIKIT_LEARN[name]
    kind = details["feature_kind"]
    if features not in (None, kind):
        raise DataError(f"{name} has no features {features!r}; there are {kind!r}")
    X, y = read(return_X_y=True)
    return make_dataset(X, y, name, **details)
