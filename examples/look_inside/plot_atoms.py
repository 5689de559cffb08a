"""
Atoms, and which class uses them
================================

The atoms of a fitted model are pictures if the rows are pictures. Here they are, class by class,
with the probability that a row of the class uses them.
"""

# %%
# Few atoms
# ---------
#
# By default most training rows are atoms themselves. With fewer initial atoms, each has to stand
# for many rows, and shows what they have in common.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from dbdl import DBDLClassifier
from dbdl.plotting import AtomsDisplay, SelectionDisplay

X, y = load_digits(return_X_y=True)
model = DBDLClassifier(n_initial_atoms=120, n_chains=1, views="plain", random_state=0)
model.fit(X[:1200], y[:1200])
print(f"{model.n_atoms_} atoms, accuracy on new rows {model.score(X[1200:], y[1200:]):.3f}")

AtomsDisplay.from_estimator(model, image_shape=(8, 8), n_atoms=60)
plt.show()

# %%
# Who uses which atom
# -------------------
#
# Each panel is one class. Atoms are grouped by the class that uses them most, so that a class has
# its own group of peaks, and lower ones where it borrows from other classes.

SelectionDisplay.from_estimator(model)
plt.show()

# %%
# Shared atoms
# ------------
#
# Some atoms are used by several classes. The entropy of the classes that use an atom tells how
# many: its exponential is 1 for an atom of one class, and 10 for one that all classes use
# equally.

probability = model.selection_probability_
share = probability / probability.sum(axis=0)
n_users = np.exp(-np.sum(share * np.log(np.maximum(share, 1e-12)), axis=0))
order = np.argsort(-n_users)
shown = [*order[:5], *order[-5:]]
figure, axes = plt.subplots(2, 10, figsize=(9.5, 2.9), height_ratios=(1, 1))
for (top, bottom), k in zip(axes.T, shown, strict=True):
    top.imshow(model.atoms_[k].reshape(8, 8), cmap="RdBu", vmin=-0.45, vmax=0.45)
    top.set_title(f"{n_users[k]:.1f}", fontsize=9)
    top.axis("off")
    bottom.bar(range(10), probability[:, k], width=0.9)
    bottom.set(xticks=[0, 5, 9], yticks=[], ylim=(0, None))
figure.suptitle(
    "most shared (left) and least shared atoms (right): users, and use by class", fontsize=10
)
plt.show()

# sphinx_gallery_thumbnail_number = 1
