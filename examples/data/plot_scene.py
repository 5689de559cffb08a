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
# Kinds of ground are regions with ragged borders. A pixel near a border is a mixture of both
# sides, the light falls off to one corner, and the sensor adds noise.

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap
from scipy.ndimage import gaussian_filter

from dbdl import DBDLClassifier

rng = np.random.default_rng(4)
HEIGHT, WIDTH, N_BANDS, N_KINDS = 90, 130, 60, 6
NAMES = ("water", "sand", "grass", "shrub", "wood", "rock")
COLOURS = ListedColormap(["#3b76b8", "#e3c878", "#8ec46b", "#c98a4b", "#3c7a4b", "#8d8794"])

fields = np.stack(
    [gaussian_filter(rng.standard_normal((HEIGHT, WIDTH)), 9) for _ in range(N_KINDS)]
)
truth = fields.argmax(axis=0)
mixture = np.stack(
    [gaussian_filter((truth == kind).astype(float), 1.2) for kind in range(N_KINDS)], -1
)

bands = np.linspace(0, 1, N_BANDS)
centres, widths = rng.uniform(0, 1, (N_KINDS, 5, 1)), rng.uniform(0.05, 0.25, (N_KINDS, 5, 1))
common = 0.5 + 0.4 * np.sin(3 * bands)  # most of a spectrum is the same for all kinds
spectra = common + 0.13 * np.sum(np.exp(-(((bands - centres) / widths) ** 2)), axis=1)
light = 0.6 + 0.6 * np.linspace(0, 1, WIDTH)[np.newaxis, :, np.newaxis]
texture = 1 + 0.1 * gaussian_filter(rng.standard_normal((HEIGHT, WIDTH)), 1)[..., np.newaxis]
scene = (mixture @ spectra) * light * texture + 0.03 * rng.standard_normal((HEIGHT, WIDTH, N_BANDS))

# %%
# Learn from twenty pixels per kind
# ---------------------------------

rows, kinds = scene.reshape(-1, N_BANDS), truth.ravel()
chosen = np.concatenate(
    [rng.choice(np.flatnonzero(kinds == k), 20, replace=False) for k in range(N_KINDS)]
)
model = DBDLClassifier(n_chains=7, n_sweeps=20, random_state=0).fit(rows[chosen], kinds[chosen])
probability = model.predict_proba(rows)
answer = model.classes_[probability.argmax(axis=1)]
rest = np.setdiff1d(np.arange(len(rows)), chosen)
share = np.mean(answer[rest] == kinds[rest])
print(f"{len(chosen)} labelled pixels of {len(rows)}; accuracy on the others {share:.3f}")

# %%
# The map, and where not to trust it
# ----------------------------------
#
# The last panel is the probability of the answer. It is low along the borders, where pixels are
# mixtures: the model knows where it is wrong.

figure, axes = plt.subplots(2, 2, figsize=(9.5, 6.8))
picture = scene[..., [50, 30, 10]]
axes[0, 0].imshow((picture - picture.min()) / np.ptp(picture))
axes[0, 0].scatter(
    chosen % WIDTH, chosen // WIDTH, s=5, color="white", edgecolor="black", linewidth=0.3
)
axes[0, 0].set_title("three of the bands, and the labelled pixels")
axes[0, 1].imshow(truth, cmap=COLOURS)
axes[0, 1].set_title("truth")
axes[1, 0].imshow(answer.reshape(HEIGHT, WIDTH), cmap=COLOURS)
axes[1, 0].set_title("map")
image = axes[1, 1].imshow(
    probability.max(axis=1).reshape(HEIGHT, WIDTH), cmap="magma", vmin=0.3, vmax=1
)
axes[1, 1].set_title("probability of the answer")
figure.colorbar(image, ax=axes[1, 1], shrink=0.8)
handles = [plt.Rectangle((0, 0), 1, 1, color=COLOURS(k)) for k in range(N_KINDS)]
figure.legend(handles, NAMES, loc="outside lower center", ncols=6, frameon=False)
for ax in axes.ravel():
    ax.axis("off")
plt.show()

# %%
# Is it right as often as it says?
# --------------------------------
#
# Pixels are grouped by the probability of their answer. In each group the share of right answers
# should be that probability. Here it is higher: the probabilities were fitted on the few labelled
# pixels that the chains left out, and err on the careful side.

confidence, is_right = probability.max(axis=1)[rest], answer[rest] == kinds[rest]
edges = np.linspace(0.3, 1, 8)
group = np.digitize(confidence, edges[1:-1])
said = [confidence[group == g].mean() for g in range(7) if np.any(group == g)]
true = [is_right[group == g].mean() for g in range(7) if np.any(group == g)]
figure, ax = plt.subplots(figsize=(4.2, 3.6))
ax.plot([0.3, 1], [0.3, 1], color="#b8c0c6")
ax.plot(said, true, "o-")
ax.set(xlabel="probability of the answer", ylabel="share of right answers")
plt.show()
