"""
What a dictionary is
====================

A dictionary is a list of *atoms*: rows of the same length as the rows of the data. A row is
described by a few of them and how strongly it uses each. These few numbers are its *code*, and
they say what kind of row it is.
"""

# %%
# Learn a dictionary
# ------------------
#
# The rows are pictures of 8 × 8 pixels, written as 64 numbers. One chain in the plain view is
# close to the paper's model, and the smallest thing that can be looked at. (The paper's own
# settings are those of ``DBDLClassifier.paper()``.) For accuracy leave ``n_chains`` and ``views``
# at their defaults.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from dbdl import DBDLClassifier

X, y = load_digits(return_X_y=True)
X, X_new, y, y_new = train_test_split(X, y, train_size=600, stratify=y, random_state=0)
model = DBDLClassifier(n_chains=1, views="plain", n_nonzero=5, random_state=0).fit(X, y)
print(f"{model.n_atoms_} atoms, accuracy on new rows {model.score(X_new, y_new):.3f}")

# %%
# A row is a sum of a few atoms
# -----------------------------
#
# ``transform`` finds the code of a new row. Most entries are zero. The atoms that are not, each
# times its number, add up to almost the row.


def picture(ax, values, title):
    """Draw 64 numbers as 8 × 8 pixels; blue is positive, red is negative."""
    limit = np.abs(values).max()
    ax.imshow(values.reshape(8, 8), cmap="RdBu", vmin=-limit, vmax=limit)
    ax.set_title(title, fontsize=10)
    ax.set(xticks=[], yticks=[])
    for side in ax.spines.values():
        side.set_visible(False)


codes = model.transform(X_new).toarray()
owners = model.classes_[model.selection_probability_.argmax(axis=0)]
# Show a “3” that uses mostly atoms of its own class, as two of three rows do, and some others.
is_right = (model.predict(X_new) == y_new) & (y_new == 3)
n_own = np.count_nonzero(codes[:, owners == 3], axis=1)
n_other = np.count_nonzero(codes[:, owners != 3], axis=1)
strongest = owners[np.abs(codes).argmax(axis=1)]
weakest = np.array([np.abs(code[code != 0]).min() for code in codes])
number = int(np.argmax(is_right * (n_own >= 3) * (n_other >= 1) * (strongest == 3) * weakest))

row, code = X_new[number], codes[number]
used = np.argsort(-np.abs(code))[: np.count_nonzero(code)]
again = model.inverse_transform(code[np.newaxis]).ravel()

figure, axes = plt.subplots(1, len(used) + 2, figsize=(9.5, 1.55))
picture(axes[0], row, f"a new row:\na “{y_new[number]}”")
for ax, k in zip(axes[1:], used, strict=False):
    picture(ax, model.atoms_[k], f"{code[k]:+.2f} ×\natom of “{owners[k]}”")
picture(axes[-1], again, "their sum")
for ax, sign in zip(axes, "=" + "+" * (len(used) - 1) + "≈", strict=False):
    ax.text(1.12, 0.5, sign, transform=ax.transAxes, ha="center", va="center", fontsize=15)
plt.show()

# %%
# Classes use different atoms
# ---------------------------
#
# The model also learns how probable it is that a row of each class uses each atom. In this
# picture each column is an atom and each line a class. Atoms are ordered by the class that uses
# them most. Most atoms belong to one class.

probability = model.selection_probability_
order = np.lexsort((-probability.max(axis=0), probability.argmax(axis=0)))
figure, ax = plt.subplots(figsize=(9.5, 3))
image = ax.imshow(
    np.sqrt(probability[:, order]), aspect="auto", cmap="Blues", interpolation="nearest"
)
ax.set(xlabel="atom", ylabel="class", yticks=range(10))
figure.colorbar(image, label="probability of use (square root)", pad=0.01)
plt.show()

# %%
# The code decides
# ----------------
#
# A linear classifier turns the code into a score per class: every atom adds its strength times
# its *label atom*. So the decision about a row is a sum over the few atoms that the row uses.

scores = code[used, np.newaxis] * model.label_atoms_[used]
figure, ax = plt.subplots(figsize=(9.5, 3))
bottom = np.zeros((2, 10))
for j, k in enumerate(used):
    base = np.where(scores[j] > 0, bottom[0], bottom[1])
    ax.bar(model.classes_, scores[j], bottom=base, label=f"atom of “{owners[k]}”", width=0.7)
    bottom += np.stack([np.maximum(scores[j], 0), np.minimum(scores[j], 0)])
ax.axhline(0, color="#5b6770", linewidth=0.8)
ax.set(xlabel="class", ylabel="part of the score", xticks=range(10))
ax.legend(fontsize=8)
plt.show()

# sphinx_gallery_thumbnail_number = 1
