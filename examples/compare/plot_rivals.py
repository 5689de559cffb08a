"""
DBDL beside its rivals
======================

Every method of the package has the same interface, so comparing them is a loop. The question is
not only which is most accurate, but how long it takes and how good its probabilities are.
"""

# %%
# The same rows for all of them
# -----------------------------
#
# Digits, twenty rows per class. Settings are the defaults; ``dbdl compare`` on the command line
# chooses settings on training rows, repeats this over folds, and writes a page.

import time

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from dbdl import methods

X, y = load_digits(return_X_y=True)
X, X_new, y, y_new = train_test_split(X, y, train_size=200, stratify=y, random_state=3)

NAMES = (
    "DBDL", "DBDL 1 chain", "DBDL unlearned", "SRC (OMP)", "CRC", "ProCRC", "LLC", "DPL",
    "FDDL", "LC-KSVD2",
    "shrunken LDA", "RBF SVM", "logistic", "linear SVM", "1-NN",
)  # fmt: skip
FAMILY = {"DBDL", "DBDL 1 chain", "DBDL unlearned"}
PLAIN = {"shrunken LDA", "RBF SVM", "logistic", "linear SVM", "1-NN"}

found = {}
for name in NAMES:
    make = methods()[name]
    make().fit(X[:60], y[:60])  # kernels are compiled once, which should not count
    start = time.perf_counter()
    model = make().fit(X, y)
    seconds = time.perf_counter() - start
    loss = log_loss(y_new, model.predict_proba(X_new)) if hasattr(model, "predict_proba") else None
    found[name] = (model.score(X_new, y_new), seconds, loss)
    shown = "  none" if loss is None else f"{loss:6.3f}"
    print(f"{name:15} accuracy {found[name][0]:.3f}  log-loss {shown}  fit {seconds:6.2f} s")

# %%
# Accuracy against time
# ---------------------
#
# DBDL is the slowest method by far. What it gives for its time is at the top, in probabilities
# (see the log-loss above) and in what can be asked of the model afterwards. One split of so few
# rows is a picture, not a measurement: tables over many splits and data sets are on the page of
# :doc:`measured figures </results>`.

figure, ax = plt.subplots(figsize=(8.5, 4.6))
for name, (accuracy, seconds, _) in found.items():
    colour = "#de6e28" if name in FAMILY else "#5b6770" if name in PLAIN else "#2e75cc"
    ax.scatter(seconds, 100 * accuracy, color=colour, s=60 if name == "DBDL" else 30)
    ax.annotate(
        name, (seconds, 100 * accuracy), xytext=(6, 3), textcoords="offset points", fontsize=8,
        weight="bold" if name == "DBDL" else "normal",
    )  # fmt: skip
for colour, words in (
    ("#de6e28", "DBDL"),
    ("#2e75cc", "other dictionaries"),
    ("#5b6770", "scikit-learn"),
):
    ax.scatter([], [], color=colour, label=words)
ax.set(xscale="log", xlabel="seconds of a fit", ylabel="accuracy on new rows, %")
ax.grid(alpha=0.3)
ax.legend(loc="lower right", fontsize=8)
plt.show()
