"""Draw the picture of the title page and the README, `_static/gap.png`.

python tools/cover.py
"""

from pathlib import Path

import numpy as np

from gapcourse import ensembles, figures, laws, spectra

PICTURE = Path(__file__).resolve().parent.parent / "_static" / "gap.png"
SIZE, SIGMA, BINS = 100, 1.0, 12  # another size than chapter 03 asks about


def values() -> np.ndarray:
    """Return the singular values shown."""
    return spectra.singular_values(ensembles.random_markov(SIZE, entries="gamma", rng=0))


def draw() -> None:
    """Draw the bulk under its quarter circle, and the value that stands alone."""
    s = values()
    scale = SIZE**0.5
    law = laws.QuarterCircle(SIGMA)
    figures.use_style()
    fig, ax = figures.panel()
    fig.set_size_inches(7.2, 3.0)
    ax.hist(s[1:], bins=BINS, color=figures.MEASURED[0], alpha=0.55, label=f"{SIZE - 1} values")
    x = np.linspace(0, law.edge, 300)
    height = (SIZE - 1) * (s[1] - s[-1]) / BINS * scale
    ax.plot(x / scale, height * law.pdf(x), color=figures.THEORY, label="quarter circle")
    ax.plot([s[0], s[0]], [0, 1], color=figures.OUTLIER, linewidth=4)
    arrow = {"arrowstyle": "->", "color": figures.OUTLIER, "linewidth": 1.5}
    note = {"color": figures.OUTLIER, "ha": "right", "va": "bottom", "arrowprops": arrow}
    words = "one value at 1:\nthe average of all tokens"
    ax.annotate(words, (s[0], 1.2), (s[0] + 0.02, 3.5), **note)
    y = 7
    gap = {
        "arrowstyle": "<->",
        "color": figures.THEORY,
        "shrinkA": 0,
        "shrinkB": 0,
        "linewidth": 1.5,
    }
    ax.annotate("", (law.edge / scale, y), (s[0], y), arrowprops=gap)
    ax.text((law.edge / scale + s[0]) / 2, y + 0.25, "the gap", ha="center", va="bottom")
    ax.set(xlim=(0, 1.04), xlabel=f"singular values of a random {SIZE} × {SIZE} attention matrix")
    ax.set_ylabel("how many")
    ax.legend(loc="upper left", bbox_to_anchor=(0.2, 1.02))
    fig.savefig(PICTURE, dpi=200, metadata={"Software": None})
    print(f"{PICTURE.name}: s_1 = {s[0]:.3f}, s_2 = {s[1]:.3f}, edge {law.edge / scale:.3f}")


if __name__ == "__main__":
    draw()
