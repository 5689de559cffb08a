"""
Rows with missing pixels
========================

Rows may have missing values, both those to learn from and those to predict. ``inverse_transform``
fills them.
"""

# %%
# Lose a third of all pixels
# --------------------------
#
# NaN marks a missing value. Nothing has to be set.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.impute import SimpleImputer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

from dbdl import DBDLClassifier

X, y = load_digits(return_X_y=True)
X, X_new, y, y_new = train_test_split(
    X, y, train_size=400, test_size=400, stratify=y, random_state=0
)
rng = np.random.default_rng(0)


def lose(rows, share):
    """Return the rows with a share of their values missing."""
    return np.where(rng.random(rows.shape) < share, np.nan, rows)


model = DBDLClassifier(views="plain + constant", n_chains=3, random_state=0).fit(lose(X, 1 / 3), y)

# %%
# Fill new rows
# -------------
#
# A row is coded with what is there. The sum of its atoms has all pixels. This model sees the rows
# as they are, with a constant coordinate for their size, which is best for pictures of the sum.

damaged = lose(X_new, 1 / 3)
filled = model.inverse_transform(model.transform(damaged))
figure, axes = plt.subplots(3, 10, figsize=(9.5, 3.2))
for column, digit in zip(axes.T, range(10), strict=True):
    i = int(np.flatnonzero(y_new == digit)[0])
    for ax, row in zip(column, (damaged[i], filled[i], X_new[i]), strict=True):
        ax.set_facecolor("#f3c9ae")  # missing
        ax.imshow(row.reshape(8, 8), cmap="gray_r", vmin=0, vmax=16)
        ax.set(xticks=[], yticks=[])
for ax, words in zip(axes[:, 0], ("seen", "filled", "whole"), strict=True):
    ax.set_ylabel(words)
plt.show()

# %%
# What does it cost?
# ------------------
#
# Accuracy on rows with the same share of missing pixels, beside the usual way: the mean of each
# pixel in place of what is missing.

settings = {"n_chains": 7, "random_state": 0}
shares = (0.0, 0.3, 0.6)
found = {"rows as they are": [], "means of the pixels first": []}
for share in shares:
    train, test = lose(X, share), lose(X_new, share)
    own, filled_first = (
        DBDLClassifier(**settings),
        make_pipeline(SimpleImputer(), DBDLClassifier(**settings)),
    )
    found["rows as they are"].append(own.fit(train, y).score(test, y_new))
    found["means of the pixels first"].append(filled_first.fit(train, y).score(test, y_new))

figure, ax = plt.subplots(figsize=(7.5, 3.4))
for name, values in found.items():
    ax.plot(100 * np.array(shares), 100 * np.array(values), "o-", label=name)
ax.set(xlabel="missing pixels, %", ylabel="accuracy, %")
ax.grid(alpha=0.3)
ax.legend()
plt.show()

# sphinx_gallery_thumbnail_number = 1
