"""
Spectra: tell the model that atoms are smooth
=============================================

Neighbouring bands of a spectrum have similar values. `SmoothAtoms` is a prior that says so. It
helps where rows are few and noisy.
"""

# %%
# Noisy spectra of eight materials
# --------------------------------
#
# A material is a sum of broad bumps over the wavelengths. Every spectrum has its own brightness,
# slope and noise.

import matplotlib.pyplot as plt
import numpy as np

from dbdl import DBDLClassifier, ModelSettings, SmoothAtoms

wavelengths = np.linspace(400, 2400, 100)  # nanometres
rng = np.random.default_rng(0)


def materials(n_materials):
    """Clean spectra (n_materials, n_bands)."""
    centres = rng.uniform(400, 2400, (n_materials, 6, 1))
    widths, heights = (
        rng.uniform(80, 350, (n_materials, 6, 1)),
        rng.uniform(0.1, 0.5, (n_materials, 6, 1)),
    )
    return 0.4 + np.sum(heights * np.exp(-(((wavelengths - centres) / widths) ** 2)), axis=1)


def measure(clean, n_each, noise):
    """Spectra (n_materials * n_each, n_bands) with and without noise, and their materials."""
    kind = np.repeat(np.arange(len(clean)), n_each)
    bright = rng.uniform(0.6, 1.4, (len(kind), 1))
    slope = rng.normal(0, 0.15, (len(kind), 1)) * np.linspace(-1, 1, len(wavelengths))
    mixed = 0.8 * clean[kind] + 0.2 * clean[rng.integers(len(clean), size=len(kind))]
    exact = bright * (mixed + slope)
    return exact + noise * rng.standard_normal(exact.shape), exact, kind


clean = materials(8)
X, exact, y = measure(clean, n_each=5, noise=0.2)
X_new, _, y_new = measure(clean, n_each=60, noise=0.2)

# %%
# With and without the prior
# --------------------------
#
# ``length_scale`` is the width over which values are similar, in the unit of the coordinates. A
# list lets every chain take one of them, and the rows left out say how much each counts.
# ``views="plain"`` has the chains see the spectra as they are.

settings = {"views": "plain", "n_chains": 6, "random_state": 0}
prior = SmoothAtoms(length_scale=[100, 200], coordinates=wavelengths)
plain = DBDLClassifier(**settings).fit(X, y)
smooth = DBDLClassifier(model=ModelSettings(atom_prior=prior), **settings).fit(X, y)
for name, model in (("independent bands", plain), ("smooth atoms", smooth)):
    print(f"{name}: accuracy {model.score(X_new, y_new):.3f}")

# %%
# Look at the atoms
# -----------------
#
# The same training row as an atom of both models. The green line is that row without its noise,
# which no model has seen.


def nearest_atom(model, row):
    """Return the atom with the largest cosine to a row, at the size of the row."""
    atoms = model.atoms_ / np.linalg.norm(model.atoms_, axis=1, keepdims=True)
    match = atoms @ row
    return match.max() * atoms[match.argmax()]


figure, axes = plt.subplots(1, 3, figsize=(9.5, 3), sharex=True)
for ax, kind in zip(axes, (0, 1, 2), strict=True):
    row = X[y == kind][1]
    ax.plot(
        wavelengths,
        nearest_atom(plain, row),
        linewidth=0.9,
        color="#de6e28",
        label="independent bands",
    )
    ax.plot(
        wavelengths, nearest_atom(smooth, row), linewidth=2.2, color="#2e75cc", label="smooth atoms"
    )
    ax.plot(
        wavelengths, exact[y == kind][1], color="#3a9b63", linestyle="--", label="without noise"
    )
    ax.set(title=f"material {kind}", xlabel="wavelength, nm")
axes[0].set_ylabel("reflectance")
axes[-1].legend(fontsize=7)
plt.show()
