"""
Why was this classified so?
===========================

``explain`` takes a decision apart: which features spoke for the class, which atoms decided, and
which training rows are behind them.
"""

# %%
# Ask about digits that look like another
# ---------------------------------------
#
# The model is asked about the rows of which it is least sure. An explanation compares the
# predicted class with the one that came second.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.model_selection import train_test_split

from dbdl import DBDLClassifier
from dbdl.plotting import ExplanationDisplay

X, y = load_digits(return_X_y=True)
X, X_new, y, y_new = train_test_split(X, y, train_size=300, stratify=y, random_state=0)
model = DBDLClassifier(n_chains=7, random_state=0).fit(X, y)

sure = model.predict_proba(X_new).max(axis=1)
doubtful = np.argsort(sure)[:4]
reasons = [model.explain(X_new[i], X_train=X, y_train=y) for i in doubtful]
print(reasons[0])

# %%
# Pixels that speak for and against
# ---------------------------------
#
# Blue pixels speak for the predicted class, red ones for the other. All shares and a constant
# add up to the difference of the two scores. Below are the training rows that are nearest to the
# atoms that decided.

figure, axes = plt.subplots(3, 4, figsize=(9.5, 6.8), height_ratios=(2, 2, 1.6))
for column, i, why in zip(axes.T, doubtful, reasons, strict=True):
    top, middle, bottom = column
    top.imshow(X_new[i].reshape(8, 8), cmap="gray_r")
    top.set_title(f"a “{y_new[i]}”: {why.predicted}, not {why.against}?", fontsize=10)
    limit = np.abs(why.shares).max()
    shares = why.shares.reshape(8, 8)
    middle.imshow(shares, cmap="RdBu", vmin=-limit, vmax=limit)
    middle.set_title(f"{why.probability:.2f} against {why.probability_against:.2f}", fontsize=10)
    behind = [row.row for row in why.training_rows[:3]]
    bottom.imshow(np.hstack([X[j].reshape(8, 8) for j in behind]), cmap="gray_r")
    bottom.set_title("trained on " + ", ".join(f"“{y[j]}”" for j in behind), fontsize=9)
for ax in axes.ravel():
    ax.axis("off")
plt.show()

# %%
# The same for a table
# --------------------
#
# For measurements with names the shares are bars.

cancer = load_breast_cancer(as_frame=True)
tumours, kind = cancer.data, cancer.target_names[cancer.target]
model = DBDLClassifier(n_chains=7, random_state=0).fit(tumours[:300], kind[:300])
row = 300 + int(np.argmin(model.predict_proba(tumours[300:]).max(axis=1)))
display = ExplanationDisplay.from_explanation(model.explain(tumours.iloc[row]), n_features=8)
plt.show()

# sphinx_gallery_thumbnail_number = 1
