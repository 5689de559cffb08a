"""Features of images: random faces, dense SIFT, spatial pyramids."""

from dbdl.features.dense_sift import DenseSIFT, LocalDescriptors, dense_sift
from dbdl.features.images import read_grey
from dbdl.features.random_faces import RandomFaces
from dbdl.features.spatial_pyramid import SpatialPyramid

__all__ = [
    "DenseSIFT",
    "LocalDescriptors",
    "RandomFaces",
    "SpatialPyramid",
    "dense_sift",
    "read_grey",
]
