"""
A stream that brings new classes
================================

``partial_fit`` learns rows as they arrive, and needs no earlier rows. Any batch may bring classes
that the model has not seen before.
"""

# %%
# Two new classes with every batch
# --------------------------------
#
# The first batch has the digits 0 and 1, the second 2 and 3, and so on. After each batch the
# model is tested on all classes that it has seen so far, and on the first two alone: does it
# forget them?

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from dbdl import DBDLClassifier

X, y = load_digits(return_X_y=True)
X, X_new, y, y_new = train_test_split(X, y, test_size=0.4, stratify=y, random_state=0)

model = DBDLClassifier(n_chains=4, random_state=0)
history = []
for first in range(0, 10, 2):
    batch = np.isin(y, (first, first + 1))
    model.partial_fit(X[batch], y[batch])
    seen = np.isin(y_new, model.classes_)
    oldest = y_new < 2
    sizes = np.bincount(model.selection_probability_.argmax(axis=0), minlength=10)
    history.append(
        (model.score(X_new[seen], y_new[seen]), model.score(X_new[oldest], y_new[oldest]), sizes)
    )

# %%
# What the model knows after each batch
# -------------------------------------
#
# The new classes bring atoms of their own. The old ones keep theirs.

number = np.arange(1, 6)
figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.6))
left.plot(number, [100 * a for a, _, _ in history], "o-", label="all classes seen so far")
left.plot(number, [100 * a for _, a, _ in history], "s--", label="only 0 and 1")
left.set(xlabel="batch", ylabel="accuracy on new rows, %", ylim=(90, 100.5), xticks=number)
left.legend(loc="lower left")
left.grid(alpha=0.3)

colours = plt.get_cmap("tab10").colors
bottom = np.zeros(5)
for digit in range(10):
    heights = np.array([sizes[digit] for _, _, sizes in history])
    right.bar(number, heights, bottom=bottom, color=colours[digit], label=str(digit), width=0.75)
    bottom += heights
right.set(
    xlabel="batch", ylabel="atoms of all chains, by the class that uses them most", xticks=number
)
right.yaxis.label.set_size(8)
right.legend(title="class", fontsize=7, ncols=2)
plt.show()

# %%
# Beside a fit of all rows at once
# --------------------------------

whole = DBDLClassifier(n_chains=4, random_state=0).fit(X, y)
print(f"batch by batch {model.score(X_new, y_new):.3f}")
print(f"all rows at once {whole.score(X_new, y_new):.3f}")
