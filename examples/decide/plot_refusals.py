"""
Probabilities and refusals
==========================

A model should say when it does not know. ``predict_proba`` is calibrated, ``refuse`` keeps a
promise about the errors that are left, ``predict_set`` returns all classes that are possible, and
``score_samples`` finds rows of another kind.
"""

# %%
# Learn eight of ten digits
# -------------------------
#
# Rows that take no part in the fit are given to ``fit_refusals``. The digits 8 and 9 are kept
# away from the model.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from dbdl import DBDLClassifier

digits, numbers = load_digits(return_X_y=True)
known = numbers < 8
X, X_rest, y, y_rest = train_test_split(
    digits[known], numbers[known], train_size=80, stratify=numbers[known], random_state=0
)
X_judge, X_new, y_judge, y_new = train_test_split(X_rest, y_rest, train_size=500, random_state=1)
model = DBDLClassifier(n_chains=7, random_state=0).fit(X, y)
model.fit_refusals(X_judge, y_judge)
print(f"accuracy on {len(y_new)} new rows: {model.score(X_new, y_new):.3f}")

# %%
# Refuse the doubtful rows
# ------------------------
#
# With a confidence of 95 %, at most 2 % of the answers that are left are wrong. The probability
# of the answer alone does not promise that: the threshold is found on the rows of
# ``fit_refusals``.

refused = model.refuse(X_new, max_error=0.02)
is_right = model.predict(X_new) == y_new
errors = np.mean(~is_right[~refused])
print(f"refused {refused.mean():.1%}; errors among the others {errors:.2%}")

probability = model.predict_proba(X_new).max(axis=1)
order = np.argsort(-probability)
error_rate = np.cumsum(~is_right[order]) / np.arange(1, len(order) + 1)
figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.4))
left.plot(100 * np.arange(1, len(order) + 1) / len(order), 100 * error_rate)
left.axhline(2, color="#de6e28", linestyle="--", label="the promise: 2 %")
left.axvline(
    100 * (1 - refused.mean()), color="#5b6770", linestyle=":", label="rows that are answered"
)
left.set(xlabel="answered rows, %, surest first", ylabel="errors among them, %")
left.legend(fontsize=8)
left.grid(alpha=0.3)

coverages = np.linspace(0.5, 0.99, 12)
sets = [model.predict_set(X_new, coverage=coverage) for coverage in coverages]
place = np.searchsorted(model.classes_, y_new)
covered = [chosen[np.arange(len(place)), place].mean() for chosen in sets]
right.plot([50, 100], [50, 100], color="#b8c0c6", label="promised")
right.plot(100 * coverages, 100 * np.array(covered), "o-", label="measured")
right.set(xlabel="coverage that was asked for, %", ylabel="sets with the true class, %")
right.legend(fontsize=8)
right.grid(alpha=0.3)
plt.show()

# %%
# Look at refused rows
# --------------------
#
# The rows with the lowest probability, with all classes that are possible at a coverage of 97 %.

doubtful = order[::-1][:10]
possible = model.predict_set(X_new[doubtful], coverage=0.97)
figure, axes = plt.subplots(1, 10, figsize=(9.5, 1.5))
for ax, i, chosen in zip(axes, doubtful, possible, strict=True):
    ax.imshow(X_new[i].reshape(8, 8), cmap="gray_r")
    ax.set_title(", ".join(map(str, model.classes_[chosen])) or "none", fontsize=8)
    ax.axis("off")
plt.show()

# %%
# Rows of another kind
# --------------------
#
# The digits 8 and 9 belong to no class of the model, so its probabilities mean nothing for them.
# The density of a row does.

density, strange = model.score_samples(X_new), model.score_samples(digits[~known])
figure, ax = plt.subplots(figsize=(7.5, 2.8))
bins = np.linspace(min(density.min(), strange.min()), density.max(), 50)
ax.hist(density, bins, density=True, alpha=0.75, label="new rows of known classes")
ax.hist(strange, bins, density=True, alpha=0.75, label="8 and 9, never seen")
ax.set(xlabel="score_samples: the lower, the more unusual", yticks=[])
ax.legend(fontsize=9)
plt.show()

# sphinx_gallery_thumbnail_number = 1
