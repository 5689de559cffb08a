"""From raw images to a classifier: random faces from CroppedYale, pyramids from real scenes."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.model_selection import train_test_split

import dbdl
from dbdl.datasets import load


def need(data_dir, name):
    path = data_dir / name
    if not path.is_dir():
        pytest.skip(f"needs real data: no {name} in the folder that DBDL_DATA names")
    return path


def halves(dataset, seed, test_size):
    return train_test_split(
        dataset.X, dataset.y, test_size=test_size, stratify=dataset.y, random_state=seed
    )


def test_random_faces_of_real_crops_tell_people_apart(data_dir, tmp_path):
    faces = load("yaleb", folder=need(data_dir, "CroppedYale"), cache=tmp_path)
    assert faces.X.shape == (60, 504) and len(faces.classes) == 6
    for name in ("CRC", "DBDL 1 chain"):
        accuracy = []
        for seed in range(3):
            X, X_new, y, y_new = halves(faces, seed, 0.3)
            model = dbdl.methods()[name](random_state=0).fit(X, y)
            accuracy.append(model.score(X_new, y_new))
        assert np.mean(accuracy) > 0.6, name  # chance is 1/6


def test_random_faces_made_here_are_as_good_as_the_shared_ones(data_dir, tmp_path):
    # Another seed, another order of pixels, but distances between faces survive any projection.
    ready = load("yaleb", folder=data_dir)
    with np.load(data_dir / "extended_yaleb_randomfaces504.npz") as file:
        names = [str(name).split("/")[-1].removesuffix(".pgm") for name in file["filename"]]
    root = need(data_dir, "CroppedYale")
    faces = load("yaleb", folder=root, cache=tmp_path)
    stems = [path.stem for path in sorted(root.glob("*/*.pgm"))]
    rows = [names.index(stem) for stem in stems]
    shared = ready.X[rows] / np.linalg.norm(ready.X[rows], axis=1, keepdims=True)
    assert np.abs(faces.X @ faces.X.T - shared @ shared.T).max() < 0.2


def test_pyramids_of_real_scenes_tell_them_apart(data_dir, tmp_path):
    root = need(data_dir, "scene15_images")
    settings = {"n_words": 128, "n_sampled": 10_000, "n_components": 30}
    scenes = load("scene15", folder=root, settings=settings, cache=tmp_path, n_jobs=2)
    assert scenes.X.shape == (150, 30) and len(scenes.classes) == 15
    again = load("scene15", folder=root, settings=settings, cache=tmp_path, n_jobs=1)
    np.testing.assert_array_equal(again.X, scenes.X)
    accuracy = []
    for seed in range(3):
        X, X_new, y, y_new = halves(scenes, seed, 0.3)
        accuracy.append(dbdl.methods()["CRC"]().fit(X, y).score(X_new, y_new))
    assert np.mean(accuracy) > 0.35  # chance is 1/15
