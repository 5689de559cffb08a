"""
Faces from few pictures per person
==================================

Sparse codes became known through faces: a picture under new light is close to a sum of a few
pictures of the same person. These faces are drawn by a formula, so nothing has to be downloaded.
"""

# %%
# A hundred pictures of twenty persons
# ------------------------------------
#
# A person is a set of numbers: the width of the head, the distance of the eyes, and so on. A
# picture adds light from a random side, a small shift, a mood, and noise.

import matplotlib.pyplot as plt
import numpy as np

from dbdl import DBDLClassifier, methods

SIDE = 28
down, right = np.mgrid[-1 : 1 : SIDE * 1j, -1 : 1 : SIDE * 1j]


def blob(x, y, width, height, sharpness=6.0):
    """An ellipse with soft edges."""
    distance = np.hypot((right - x) / width, (down - y) / height)
    return 1 / (1 + np.exp(np.clip(sharpness * (distance - 1) * 2, -50, 50)))


def draw(person, light, shift, mood, rng):
    """Draw one picture of a person."""
    width, eye, brow, nose, mouth, hair, skin = person
    x, y = shift
    face = blob(x, y + 0.05, width, 0.85)
    ground = 0.1 + skin * face * (1 + 0.9 * (light[0] * right + light[1] * down) * face)
    hairy = blob(x, y - 0.75, width * 1.05, hair) * (down < y - 0.2)
    ground = ground * (1 - 0.85 * hairy)
    for side in (-1, 1):
        ground -= 0.55 * skin * blob(x + side * eye, y - 0.12, 0.13, 0.09)
        ground -= 0.3 * skin * blob(x + side * eye, y - 0.34 - brow, 0.2, 0.05)
    ground -= 0.25 * skin * blob(x, y + 0.15, 0.07, nose)
    lips = y + 0.5 + mood * (np.abs(right - x) / 0.4) ** 2
    ground -= 0.45 * skin * np.exp(-(((down - lips) / 0.06) ** 2)) * (np.abs(right - x) < mouth)
    return np.clip(ground + 0.03 * rng.standard_normal(ground.shape), 0, None)


def people(n_people, n_pictures, seed):
    """Pictures (n_people * n_pictures, SIDE**2) and who they show."""
    rng = np.random.default_rng(0)
    low = np.array([0.52, 0.24, -0.04, 0.12, 0.18, 0.2, 0.55])
    high = np.array([0.74, 0.38, 0.06, 0.24, 0.36, 0.5, 1.0])
    persons = rng.uniform(low, high, (n_people, 7))
    rng = np.random.default_rng(seed)
    who = np.repeat(np.arange(n_people), n_pictures)
    rows = [
        draw(
            persons[i], rng.uniform(-1, 1, 2), rng.normal(0, 0.03, 2), rng.uniform(-0.12, 0.12), rng
        ).ravel()
        for i in who
    ]
    return np.array(rows), who


X, who = people(n_people=20, n_pictures=5, seed=1)
X_new, who_new = people(n_people=20, n_pictures=25, seed=2)

figure, axes = plt.subplots(5, 12, figsize=(9.5, 4.2))
for ax, number in zip(axes.T.ravel(), range(60), strict=False):
    ax.imshow(X[number].reshape(SIDE, SIDE), cmap="gray", vmin=0, vmax=1.3)
    ax.axis("off")
figure.suptitle("five pictures of each of twelve persons", fontsize=10)
plt.show()

# %%
# How many pictures does it take?
# -------------------------------
#
# Every method gets the same pictures, and has its default settings. With two pictures per person
# DBDL is far ahead. With three or more, shrunken discriminant analysis is as good on these faces:
# light that falls from all sides is a linear disturbance, which it removes.

names = ("DBDL", "SRC (OMP)", "shrunken LDA", "linear SVM", "1-NN")
counts = (2, 3, 5)
accuracy = {name: [] for name in names}
for count in counts:
    chosen = np.arange(len(who)) % 5 < count
    for name in names:
        model = methods()[name]()
        if name == "DBDL":
            model.set_params(random_state=0)
        accuracy[name].append(100 * model.fit(X[chosen], who[chosen]).score(X_new, who_new))

figure, ax = plt.subplots(figsize=(7.5, 3.6))
for name, values in accuracy.items():
    thick = 2.5 if name == "DBDL" else 1.3
    ax.plot(counts, values, "o-", label=name, linewidth=thick)
ax.set(xlabel="pictures per person", ylabel="accuracy on new pictures, %", xticks=counts)
ax.grid(alpha=0.3)
ax.legend(fontsize=9)
plt.show()

# %%
# What was learned
# ----------------
#
# Two persons, and the atoms that their pictures use most, mapped back to pixels.

model = DBDLClassifier(n_chains=1, views="plain", random_state=0).fit(X, who)
probability = model.selection_probability_
figure, axes = plt.subplots(2, 7, figsize=(9.5, 3))
for line, person in zip(axes, (3, 8), strict=True):
    line[0].imshow(X[5 * person].reshape(SIDE, SIDE), cmap="gray")
    line[0].set_title(f"person {person}", fontsize=9)
    for ax, k in zip(line[1:], np.argsort(-probability[person]), strict=False):
        ax.imshow(model.atoms_[k].reshape(SIDE, SIDE), cmap="gray")
        ax.set_title(f"{probability[person, k]:.2f}", fontsize=9)
for ax in axes.ravel():
    ax.axis("off")
figure.suptitle(
    "a picture, and the atoms that its person uses most, with their probabilities", fontsize=10
)
plt.show()

# sphinx_gallery_thumbnail_number = 1
