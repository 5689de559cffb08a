"""
A map of a hyperspectral scene
==============================

Every pixel of a hyperspectral picture is a spectrum. A few labelled pixels are enough to colour
the whole map, together with how sure the model is. The scene is generated.
"""

# %%
# A scene of six kinds of ground
# ------------------------------
#
# `make_scene` draws regions of known classes. A pixel near a border is a mixture of both sides, the
# light and the spectra of a class change over the scene, and the sensor adds noise. Files of ENVI
# and GeoTIFF, and arrays of xarray, are opened by `read_cube` in the same way (:doc:`/maps`).

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap

from dbdl import DBDLClassifier
from dbdl.maps import classify_cube, labelled_pixels, make_scene
from dbdl.maps.colours import class_colours
from dbdl.maps.picture import scene_picture

scene = make_scene((80, 110), n_bands=40, region_size=8, noise=0.05, random_state=1)
pixels = labelled_pixels(scene.cube, scene.truth, per_class=40)
model = DBDLClassifier(n_chains=7, random_state=0).fit(pixels.X, pixels.y)

# %%
# The map, and where not to trust it
# ----------------------------------
#
# The last panel is the probability of the answer. It is low along the borders, where pixels are
# mixtures: the model knows where it is wrong. `dbdl.maps.write_map` writes both as files, and
# `dbdl.maps.draw_map` a picture with a legend.

found = classify_cube(model, scene.cube)
print(f"{np.mean(found.numbers == scene.truth):.3f} of all pixels are right")

colours = ListedColormap(class_colours(6) / 255)
figure, axes = plt.subplots(2, 2, figsize=(9.5, 7.2), layout="constrained")
axes[0, 0].imshow(scene_picture(scene.cube)[1])
axes[0, 0].set_title("red, green and blue")
axes[0, 1].imshow(scene.truth, cmap=colours, vmin=1, vmax=6)
axes[0, 1].set_title("truth")
axes[1, 0].imshow(found.numbers, cmap=colours, vmin=1, vmax=6)
axes[1, 0].set_title("map")
image = axes[1, 1].imshow(found.confidence, cmap="magma", vmin=0.3, vmax=1)
axes[1, 1].set_title("probability of the answer")
figure.colorbar(image, ax=axes[1, 1], shrink=0.8)
handles = [plt.Rectangle((0, 0), 1, 1, color=colours(k)) for k in range(6)]
figure.legend(handles, scene.names, loc="outside lower center", ncols=6, frameon=False)
for ax in axes.ravel():
    ax.axis("off")
plt.show()

# %%
# Random pixels are too easy
# --------------------------
#
# The accuracy above is that of pixels among those that were learned from. Pixels side by side are
# alike, so it says little about another part of the land. Here the model learns from the left half
# of the scene and is asked about the right half too: the farther away, the more often it is wrong.

left = np.where(np.arange(110) < 55, scene.truth, 0)
near = labelled_pixels(scene.cube, left, per_class=40)
model = DBDLClassifier(n_chains=7, random_state=0).fit(near.X, near.y)
right = classify_cube(model, scene.cube).numbers == scene.truth
figure, ax = plt.subplots(figsize=(6.4, 3), layout="constrained")
ax.bar(np.arange(5, 110, 10), right.reshape(80, 11, 10).mean(axis=(0, 2)), width=9)
ax.axvline(55, color="black", linestyle="--")
ax.set(xlabel="column of the scene; left of the line was learned from", ylabel="right answers")
plt.show()
