"""
How many atoms are needed?
==========================

The model does not infer the number of atoms. ``n_initial_atoms="auto"`` learns dictionaries of
several sizes and takes the smallest whose accuracy on held-out rows is within one standard error
of the best.
"""

# %%
# One fit, five sizes
# -------------------
#
# Every chain leaves out a tenth of the rows. They say how good each size is, so no test row is
# needed for the choice.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from dbdl import DBDLClassifier

X, y = load_digits(return_X_y=True)
X, X_new, y, y_new = train_test_split(X, y, train_size=700, stratify=y, random_state=0)
model = DBDLClassifier(n_initial_atoms="auto", n_chains=4, random_state=0).fit(X, y)
curve = model.size_curve_
print(curve)

# %%
# The curve
# ---------
#
# The test rows are only for comparison here: for each size, a model of that size is fitted and
# scored on them.

tested = []
for size in curve.n_initial_atoms:
    n_atoms = int(size) or None  # 0 stands for the default
    alone = DBDLClassifier(n_initial_atoms=n_atoms, n_chains=4, random_state=0)
    tested.append(alone.fit(X, y).score(X_new, y_new))

figure, ax = plt.subplots(figsize=(7.5, 3.8))
ax.errorbar(
    curve.n_atoms, 100 * curve.accuracy, 100 * curve.standard_error, fmt="o-", capsize=3,
    label="rows left out by the chains",
)  # fmt: skip
ax.plot(curve.n_atoms, 100 * np.array(tested), "s--", label="test rows")
ax.plot(
    curve.n_atoms[curve.chosen], 100 * curve.accuracy[curve.chosen], "o", markersize=16,
    markerfacecolor="none", markeredgecolor="#3a9b63", markeredgewidth=2, label="chosen",
)  # fmt: skip
ax.set(xscale="log", xlabel="atoms per chain", ylabel="accuracy, %", xticks=curve.n_atoms.round())
ax.xaxis.set_major_formatter("{x:.0f}")
ax.minorticks_off()
ax.grid(alpha=0.3)
ax.legend()
plt.show()

# %%
# A smaller model is faster to use and easier to look at. Where accuracy is all that counts, keep
# the default: it is the right end of the curve.
