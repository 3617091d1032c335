"""Live demos: figures that compute and redraw in the reader's browser, with or without a kernel.

A demo is an `anywidget <https://anywidget.dev>`_. Its JavaScript (``demos.mjs`` beside this file)
draws the random matrix, finds its singular values and plots them, so that it also works in the
published book, where no kernel runs. Its random numbers are its own: a seed here and the same seed
in numpy give different matrices of the same law.

All demos are one widget, `Demo`; its scene says what it measures and shows, and `CONTROLS` what
the reader can change there.
"""

from __future__ import annotations

import math
from importlib.resources import files
from typing import Any

from . import _checks

try:
    import anywidget
    import traitlets
except ImportError as error:
    raise ImportError(
        'gapcourse.demos needs anywidget: pip install "gapcourse[notebooks]"'
    ) from error

__all__ = [
    "CONTROLS",
    "ENSEMBLES",
    "Demo",
    "attention",
    "blocks",
    "collapse",
    "depth",
    "gradients",
    "heads",
    "noise",
    "removal",
    "spectrum",
    "training",
    "walk",
]

SIGMA = (0.1, 2.0)
VIEWS = ("both", "histogram", "ranks")

Control = dict[str, Any]


def _ensemble(label: str, low: float, high: float, reason: str) -> Control:
    return {"label": label, "low": low, "high": high, "reason": reason}


_WIDE = f"The slider of this demo goes from {SIGMA[0]:g} to {SIGMA[1]:g}."

ENSEMBLES: dict[str, Control] = {
    "lognormal": _ensemble("log-normal", *SIGMA, _WIDE),
    "gamma": _ensemble("gamma (Dirichlet rows)", *SIGMA, _WIDE),
    "exponential": _ensemble(
        "exponential", 1.0, 1.0, "Exponential entries have σ = 1: their spread is their mean."
    ),
    "uniform": _ensemble(
        "uniform",
        SIGMA[0],
        1 / math.sqrt(3),
        "Uniform entries have σ at most 1/√3 = 0.577: a wider interval would go below 0.",
    ),
    "bernoulli": _ensemble("Bernoulli (sparse)", *SIGMA, _WIDE),
    "pareto": _ensemble("Pareto (heavy tail)", *SIGMA, _WIDE),
}
"""Ensembles of Markov matrices, each with the range of sigma in the demos and why it ends there.

:meta hide-value:
"""


def _slider(label: str, low: float, high: float, step: float) -> Control:
    return {"label": label, "low": low, "high": high, "step": step}


def _list(label: str, **options: str) -> Control:
    return {"label": label, "options": {name: {"label": words} for name, words in options.items()}}


_TOKENS = _slider("Tokens T", 10, 300, 10)
_SIGMA = _slider("Spread of the entries, σ", *SIGMA, 0.05)
_ENTRIES = {"label": "Entries", "options": ENSEMBLES}
_CONTEXT = _slider("Tokens T", 2, 150, 2)
_GAMMA = _slider("Aspect ratio γ = T/d", 0.5, 1.0, 0.05)
_LAYERS = _slider("Layers L", 1, 12, 1)
_MARKOV = {name: ENSEMBLES[name] for name in ("exponential", "gamma", "lognormal")}
_SKIP = _list(
    "Skip connection",
    **{"none": "none", "plain": "plain: X + AXW", "1/sqrt(depth)": "1/√L: X + AXW/√L"},
)
_REMOVAL = {"label": "remove the mean of attention"}
_MATRICES = {
    **_MARKOV,
    "softmax": _ensemble("softmax (Gaussian queries and keys)", *SIGMA, _WIDE),
    "identity": _ensemble(
        "identity (tokens do not mix)", *SIGMA, "The identity has no random entries: σ is not used."
    ),
}

CONTROLS: dict[str, dict[str, Control]] = {
    "spectrum": {"tokens": _TOKENS, "sigma": _SIGMA, "entries": _ENTRIES},
    "walk": {
        "tokens": _TOKENS,
        "sigma": _SIGMA,
        "entries": _ENTRIES,
        "laziness": _slider("Laziness ℓ, the chance to stay", 0.0, 0.95, 0.05),
    },
    "noise": {
        "rows": _slider("Rows", 10, 200, 10),
        "columns": _slider("Columns", 10, 200, 10),
        "entries": _list(
            "Entries",
            gaussian="Gaussian",
            signs="random signs",
            sparse="sparse (nine of ten are 0)",
            heavy="heavy tail (α = 3)",
        ),
        "factors": _slider("Factors", 1, 4, 1),
    },
    "attention": {
        "tokens": _TOKENS,
        "head_dim": _slider("Head dimension dₖ", 10, 300, 10),
        "logit_std": _slider("Spread of the logits, s", 0.1, 1.5, 0.05),
        "kind": _list(
            "Attention", softmax="softmax", linear="linear", relu="ReLU", sigmoid="sigmoid"
        ),
        "centred": {"label": "centre the columns too"},
    },
    "collapse": {
        "tokens": _CONTEXT,
        "gamma": _slider("Aspect ratio γ = T/d", 0.25, 1.0, 0.05),
        "sigma": _SIGMA,
        "entries": {"label": "Attention", "options": _MATRICES},
        "layers": _slider("Layers L", 1, 8, 1),
    },
    "depth": {
        "tokens": _CONTEXT,
        "layers": _LAYERS,
        "sigma": _SIGMA,
        "skip": _SKIP,
        "norm": _list("Norm of the tokens", none="none", post="post: after each layer"),
        "mean_removal": _REMOVAL,
    },
    "gradients": {
        "tokens": _CONTEXT,
        "gamma": _GAMMA,
        "layers": _LAYERS,
        "sigma": _SIGMA,
    },
    "removal": {
        "tokens": _CONTEXT,
        "gamma": _GAMMA,
        "sigma": _SIGMA,
        "entries": {"label": "Entries", "options": _MARKOV},
        "layers": _slider("Layers L", 1, 8, 1),
    },
    "training": {
        "depth": _slider("Layers L", 1, 8, 1),
        "learning_rate": {**_slider("Learning rate", 1e-4, 1.0, 0.25), "log": True},
        "mean_removal": {"label": "show the outputs with the mean removed"},
    },
    "blocks": {
        "tokens": _slider("Tokens T", 4, 150, 2),
        "layers": _LAYERS,
        "attention": _list(
            "Attention",
            markov="random Markov",
            softmax="softmax, fresh queries, keys",
            dependent="softmax of the tokens",
        ),
        "mask": _list(
            "Mask",
            none="none",
            causal="causal",
            window="window: 4 on each side",
        ),
        "skip": _SKIP,
        "norm": _list(
            "Norm of the tokens",
            none="none",
            post="post: after each layer",
            pre="pre: in front of attention",
        ),
        "mean_removal": _REMOVAL,
    },
    "heads": {
        "tokens": _slider("Tokens T", 10, 100, 2),
        "head_dim": _slider("Head dimension dₖ", 4, 64, 4),
        "logit_std": _slider("Scale of queries and keys, s", 0.1, 1.5, 0.05),
        "similarity": _slider("Similarity of tokens, κ", 0.0, 0.95, 0.05),
        "gamma": _slider("Aspect ratio γ = T/d", 0.2, 2.0, 0.1),
    },
}
"""What the reader can change in each scene: sliders with their range, lists, boxes to tick.

:meta hide-value:
"""
_SEED = 2**31 - 1
_SETTINGS = {
    scene: [*controls, "seed", *(["view"] if scene == "spectrum" else [])]
    for scene, controls in CONTROLS.items()
}
_ALL = sorted({name for names in _SETTINGS.values() for name in names})


class SettingError(traitlets.TraitError, ValueError):
    """A setting out of range: a ValueError that traitlets undoes where it holds notifications."""


class Demo(anywidget.AnyWidget):
    """A live demo: each function of this module makes one.

    The settings that its scene knows are the keyword arguments of that function. They can be read
    and set from Python where a kernel runs: ``demo.tokens = 200`` redraws the demo. As under the
    reader's hand, `sigma` then moves to the nearest that new `entries` can have, and `rows` to
    `columns` for several `factors`; a value that the controls do not offer is a `ValueError`.
    """

    _esm = files("gapcourse").joinpath("demos.mjs").read_text(encoding="utf-8")

    scene = traitlets.Enum(tuple(CONTROLS), "spectrum", read_only=True).tag(sync=True)
    controls: traitlets.List[Control] = traitlets.List(read_only=True).tag(sync=True)
    seed = traitlets.Int(1).tag(sync=True)
    view = traitlets.Unicode("both").tag(sync=True)

    tokens = traitlets.Int(150).tag(sync=True)
    sigma = traitlets.Float(1.0).tag(sync=True)
    entries = traitlets.Unicode("lognormal").tag(sync=True)
    laziness = traitlets.Float(0.0).tag(sync=True)
    rows = traitlets.Int(150).tag(sync=True)
    columns = traitlets.Int(150).tag(sync=True)
    factors = traitlets.Int(1).tag(sync=True)
    head_dim = traitlets.Int(150).tag(sync=True)
    logit_std = traitlets.Float(0.5).tag(sync=True)
    kind = traitlets.Unicode("softmax").tag(sync=True)
    centred = traitlets.Bool(False).tag(sync=True)
    gamma = traitlets.Float(1.0).tag(sync=True)
    layers = traitlets.Int(3).tag(sync=True)
    skip = traitlets.Unicode("none").tag(sync=True)
    norm = traitlets.Unicode("none").tag(sync=True)
    mean_removal = traitlets.Bool(False).tag(sync=True)
    depth = traitlets.Int(4).tag(sync=True)
    learning_rate = traitlets.Float(0.01).tag(sync=True)
    attention = traitlets.Unicode("markov").tag(sync=True)
    mask = traitlets.Unicode("none").tag(sync=True)
    similarity = traitlets.Float(0.0).tag(sync=True)

    def __init__(self, scene: str = "spectrum", **settings: Any) -> None:
        self.set_trait("scene", scene)
        super().__init__(**settings)

    def __setattr__(self, name: str, value: Any) -> None:
        """Refuse a name that the scene does not have: it would change nothing."""
        if not name.startswith("_"):
            known = _SETTINGS[self.scene]
            if name not in known and (name in _ALL or not hasattr(type(self), name)):
                raise AttributeError(
                    f"{name} is no setting of demos.{self.scene}, got {name} = "
                    f"{_checks.shown(value)}; set one of {', '.join(known)}"
                )
        super().__setattr__(name, value)

    @traitlets.default("controls")
    def _controls_of_the_scene(self) -> list[Control]:
        """Return lists, as a stored notebook sorts the keys of a dict."""
        controls = _listed(CONTROLS[self.scene])
        return [
            control | {"options": _listed(control["options"])} if "options" in control else control
            for control in controls
        ]

    @traitlets.validate(*_ALL)
    def _offered(self, proposal: Any) -> Any:
        """Refuse a setting that the reader could not choose."""
        name, value = proposal["trait"].name, proposal["value"]
        if name not in _SETTINGS[self.scene]:  # a page that sends its whole state
            return value
        try:
            value = _controlled(self.scene, name, value)
            if name == "sigma" and "entries" in CONTROLS[self.scene]:
                _possible(value, self.entries, self.scene)
            if name == "rows" and self.factors > 1 and value != self.columns:
                raise ValueError(
                    f"rows must equal columns for a product of {self.factors} factors, got {value} "
                    f"and {self.columns}; pass rows={self.columns}, or factors=1"
                )
        except (TypeError, ValueError) as error:
            raise SettingError(str(error)) from None
        return value

    @traitlets.observe("entries")
    def _sigma_follows(self, _: Any) -> None:
        if "sigma" in CONTROLS[self.scene]:
            ensemble = CONTROLS[self.scene]["entries"]["options"][self.entries]
            self.sigma = min(max(self.sigma, ensemble["low"]), ensemble["high"])

    @traitlets.observe("columns", "factors")
    def _rows_follow(self, _: Any) -> None:
        if "rows" in CONTROLS[self.scene] and self.factors > 1:
            self.rows = self.columns

    def __repr__(self) -> str:
        """Short and free of addresses, so that a stored output is the same in every run."""
        values = {name: getattr(self, name) for name in [*CONTROLS[self.scene], "seed"]}
        shown = (f"{k}={v:.4g}" if type(v) is float else f"{k}={v!r}" for k, v in values.items())
        return f"demos.{self.scene}({', '.join(shown)})"


def spectrum(
    tokens: int = 150,
    sigma: float | None = None,
    entries: str = "lognormal",
    seed: int = 1,
    *,
    view: str = "both",
) -> Demo:
    r"""Show the singular values of a random Markov matrix, live.

    The left plot is the histogram of :math:`\sqrt T\,s_k(A_\perp)` under the quarter circle on
    :math:`[0, 2\sigma]`, with :math:`\sqrt T\,s_1(A)` beyond a break of the axis; the right plot
    has all :math:`s_k(A)` in order, with :math:`2\sigma/\sqrt T`. Sliders change T and
    sigma, a list changes the ensemble, a button the draw. As in
    `gapcourse.ensembles.random_markov`, entries are independent and each row is divided by its sum.

    Parameters
    ----------
    tokens : int
        Size T of the matrix, from 10 to 300.
    sigma : float, optional
        Standard deviation of a raw entry over its mean, from 0.1 to 2 and within what the ensemble
        can have. By default 1, or the most a uniform entry can have, 1/sqrt(3).
    entries : str
        Law of a raw entry, one of `ENSEMBLES`.
    seed : int
        Seed of the first draw; "New draw" takes the next one.
    view : str
        "both" plots, or only the "histogram" or the "ranks".

    Returns
    -------
    Demo
        A widget: the last expression of a cell shows it.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If `tokens`, `sigma` or `seed` is out of range, or `entries` or `view` is unknown.

    Examples
    --------
    >>> spectrum(tokens=100, entries="uniform")
    demos.spectrum(tokens=100, sigma=0.5774, entries='uniform', seed=1)
    """
    sigma = _natural(entries) if sigma is None else sigma
    return _demo("spectrum", tokens=tokens, sigma=sigma, entries=entries, seed=seed, view=view)


def walk(
    tokens: int = 100,
    sigma: float | None = None,
    entries: str = "exponential",
    seed: int = 1,
    *,
    laziness: float = 0.0,
) -> Demo:
    r"""Show how a random walk on a random Markov matrix forgets where it started, live.

    The walk steps by :math:`M = \ell I + (1-\ell)A`: with probability ℓ, its laziness, it stays.
    For three starts i the plot has the total variation distance between row i of :math:`M^k` and
    the stationary law against k, on a log scale. For ℓ = 0 the line is
    `gapcourse.predictions.walk_distance`; for ℓ > 0 a dashed line has the slope of
    :math:`|\lambda_2| = \ell + (1-\ell)\sigma/\sqrt T`, and its height is that of the data.

    The table has the distance after 6 steps (the mean of 30 starts), the factor of one step at step
    15, and the steps until all three starts are at distance 0.01. For ℓ > 0 theory has the last for
    exponential entries only: the first k with :math:`\ell^k + q\,e^{-1-\ell^k/q} \le 0.01`, where
    :math:`q = k\ell^{k-1}(1-\ell)`. That is for large T: two clicks leave nothing of the start.

    Parameters
    ----------
    tokens, sigma, entries, seed
        Matrix A, as in `spectrum`.
    laziness : float
        Probability ℓ to stay, from 0 to 0.95.

    Returns
    -------
    Demo
        A widget: the last expression of a cell shows it.

    Raises
    ------
    TypeError, ValueError
        As `spectrum`; `laziness` out of range.

    Examples
    --------
    >>> walk(laziness=0.5)
    demos.walk(tokens=100, sigma=1, entries='exponential', laziness=0.5, seed=1)
    """
    sigma = _natural(entries) if sigma is None else sigma
    return _demo("walk", tokens=tokens, sigma=sigma, entries=entries, laziness=laziness, seed=seed)


def noise(
    rows: int = 150,
    columns: int = 150,
    entries: str = "gaussian",
    factors: int = 1,
    seed: int = 1,
) -> Demo:
    r"""Show the singular values of a matrix of noise, or of a product of such, live.

    Entries are independent, of mean 0 and variance 1/columns. The histogram has one value for each
    row, under the Marchenko-Pastur law of ratio rows/columns; with more rows than columns, the rest
    are zeros, and their share is written beside it. A product of several square factors stands
    under the Fuss-Catalan law. The table has the largest value, the median of all and the smallest.

    Parameters
    ----------
    rows, columns : int
        Shape of the matrix, each from 10 to 200.
    entries : str
        "gaussian", "signs" (1 or -1), "sparse" (nine of ten are 0, the others signs) or "heavy"
        (symmetric Pareto of tail index 3, without a fourth moment), all of the same variance.
    factors : int
        Number of matrices that are multiplied, from 1 to 4. Above 1 they are square.
    seed : int
        Seed of the first draw; "New draw" takes the next one.

    Returns
    -------
    Demo
        A widget: the last expression of a cell shows it.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If one is out of range or unknown, or if `rows` and `columns` differ for several factors.

    Examples
    --------
    >>> noise(rows=100, entries="signs")
    demos.noise(rows=100, columns=150, entries='signs', factors=1, seed=1)
    """
    return _demo("noise", rows=rows, columns=columns, entries=entries, factors=factors, seed=seed)


def attention(
    tokens: int = 150,
    head_dim: int = 150,
    logit_std: float = 0.5,
    kind: str = "softmax",
    seed: int = 1,
    *,
    centred: bool = False,
) -> Demo:
    r"""Show the singular values of an attention matrix at initialisation, live.

    Queries and keys have independent Gaussian entries. The histogram of
    :math:`\sqrt T\,s_k(A_\perp)`, each row's mean being removed, stands under
    `gapcourse.laws.AttentionBulk`; the quarter circle of the same variance, that of independent
    entries, is dashed. Linear, ReLU and sigmoid attention have entries f(S)/T, as in
    `gapcourse.attention.attention_matrix`.

    A stroke under the axis stands for each value. For d_k < T the table has the value of rank
    d_k + 1, the largest below the outer band. Theory puts it at the top of the inner band or, if
    only the rows are centred, at the stray value (`gapcourse.laws.AttentionBulk.spike`).

    Parameters
    ----------
    tokens : int
        T, from 10 to 300.
    head_dim : int
        d_k, from 10 to 300.
    logit_std : float
        s, the standard deviation of a logit, from 0.1 to 1.5.
    kind : str
        "softmax", "linear", "relu" or "sigmoid".
    seed : int
        Seed of the first draw; "New draw" takes the next one.
    centred : bool
        Whether each column's mean is removed too.

    Returns
    -------
    Demo
        A widget: the last expression of a cell shows it.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If one is out of range, or `kind` is unknown.

    Examples
    --------
    >>> attention(head_dim=20, kind="relu")
    demos.attention(tokens=150, head_dim=20, logit_std=0.5, kind='relu', centred=False, seed=1)
    """
    return _demo(
        "attention",
        tokens=tokens,
        head_dim=head_dim,
        logit_std=logit_std,
        kind=kind,
        centred=centred,
        seed=seed,
    )


def collapse(
    tokens: int = 100,
    gamma: float = 1.0,
    sigma: float = 1.0,
    entries: str = "exponential",
    layers: int = 3,
    seed: int = 1,
) -> Demo:
    r"""Show how the rank of the tokens collapses, layer by layer, live.

    A stack :math:`X_l = A_l X_{l-1} W_l` starts from isometric tokens, with a fresh attention
    matrix and fresh Gaussian :math:`W_l` in each layer. The plot has
    :math:`\mathrm{sr}(X_l X_l^\top) - 1 = \sum_{k\ge2} s_k^4/s_1^4` against l, on a log scale: as
    in `gapcourse.spectra.collapse_residual`, nothing is subtracted. The line is
    `gapcourse.predictions.width_collapse`. For softmax attention it is the leading order,
    :math:`(1 + l(1 + \gamma + k_4/k_2^2))\,k_2^{2l}\,T^{1-2l}`, in the first layer
    `gapcourse.predictions.attention_width_collapse`; for the identity
    :math:`T (1 + l\gamma)/x_*^2 - 1` with :math:`x_* = \min_z (1+z)(1+\gamma z)^l/z`, the limit for
    a product of Gaussian matrices, drawn where it leaves a stable rank of at least 2. No line is
    drawn where it would lie above T - 1, which no stable rank less 1 exceeds.

    Parameters
    ----------
    tokens : int
        T, from 2 to 150.
    gamma : float
        T/d, from 0.25 to 1: the dimension d is the whole number nearest to T/gamma.
    sigma : float
        Standard deviation of a raw entry over its mean, from 0.1 to 2; 1 for exponential entries.
        Logits of softmax attention have variance log(1 + sigma²), so that its raw entries have this
        spread too. The identity has no use for it.
    entries : str
        "exponential", "gamma" or "lognormal": a random Markov matrix of such entries; "softmax":
        attention of Gaussian queries and keys, of dimension d; "identity": tokens do not mix.
    layers : int
        L, from 1 to 8.
    seed : int
        Seed of the first draw; "New draw" takes the next one.

    Returns
    -------
    Demo
        A widget: the last expression of a cell shows it.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If one is out of range, `entries` is unknown, or cannot have this `sigma`.

    Examples
    --------
    >>> collapse(entries="softmax", sigma=0.5)
    demos.collapse(tokens=100, gamma=1, sigma=0.5, entries='softmax', layers=3, seed=1)
    """
    return _demo(
        "collapse",
        tokens=tokens,
        gamma=gamma,
        sigma=sigma,
        entries=entries,
        layers=layers,
        seed=seed,
    )


def depth(
    tokens: int = 60,
    layers: int = 12,
    sigma: float = 1.0,
    seed: int = 1,
    *,
    skip: str = "none",
    norm: str = "none",
    mean_removal: bool = False,
) -> Demo:
    r"""Show what skip connections, norms and mean removal do to tokens in depth, live.

    A stack of random Markov attention with gamma entries starts from T orthonormal tokens in
    dimension d = T. Value weights have entries of variance 1/d: a layer's branch
    :math:`A_l X_{l-1} W_l` is then of the size of its skip connection. The left plot has 1 less the
    mean cosine between two tokens (`gapcourse.spectra.token_cosine`), computed without subtracting
    and drawn down to 1e-28, where rounding errors begin; the right one has the stable rank of
    :math:`X_l X_l^\top`. Both are for l = 0, ..., L, on log scales.

    Without a norm the line on the left is :math:`T D_l/((T-1) p_l)`, where
    :math:`p = \mathbb{E}\,\mathrm{tr}\,XX^\top`, and D is p without the part that all tokens share;
    without a skip connection this is the square of the ratio of the two
    `gapcourse.predictions.product_norm`, with the mean removed and without, or 1 with the mean
    removed. The line beside the stable ranks needs the bare stack: it is 1 plus
    `gapcourse.predictions.width_collapse`; with the mean removed it is T times
    `gapcourse.predictions.mean_removed_stable_rank`, a limit for large T, drawn down to 2.

    Parameters
    ----------
    tokens : int
        T, from 2 to 150.
    layers : int
        L, from 1 to 12.
    sigma : float
        Standard deviation of a raw entry over its mean, from 0.1 to 2.
    seed : int
        Seed of the first draw; "New draw" takes the next one.
    skip : str
        "none", "plain" (X + AXW) or "1/sqrt(depth)" (X + AXW/sqrt(L)).
    norm : str
        "none", or "post": after each layer each token is divided by its root mean square.
    mean_removal : bool
        Whether each row of the attention matrix loses its mean.

    Returns
    -------
    Demo
        A widget: the last expression of a cell shows it.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If one is out of range, or `skip` or `norm` is unknown.

    Examples
    --------
    >>> depth(layers=6, skip="plain", norm="post").skip
    'plain'
    """
    return _demo(
        "depth",
        tokens=tokens,
        layers=layers,
        sigma=sigma,
        skip=skip,
        norm=norm,
        mean_removal=mean_removal,
        seed=seed,
    )


def gradients(
    tokens: int = 60,
    gamma: float = 1.0,
    layers: int = 6,
    sigma: float = 1.0,
    seed: int = 1,
) -> Demo:
    r"""Show how gradients grow with depth, with and without the mean of attention, live.

    The stack :math:`X_l = A_l X_{l-1} W_l` has random Markov attention with gamma entries, weights
    of variance 1 and isometric tokens. Its gradient is exact, from its Kronecker structure:

    .. math:: \Bigl\|\frac{\partial X_L}{\partial W_l}\Bigr\|_F
       = \|A_L \cdots A_l X_{l-1}\|_F\,\|W_{l+1} \cdots W_L\|_F

    The left plot has that of the first layer's weights, l = 1, for each depth from 1 to L on a log
    scale, for plain attention and for attention with its mean removed, from the same draws. The
    lines are `gapcourse.predictions.gradient_norm`, the root of the expected square. The table has
    the norms at depth L for the first and the last layer: theory makes no difference. The right
    plot has these over theory; earlier draws stay, faint, until another setting changes.

    Parameters
    ----------
    tokens : int
        T, from 2 to 150.
    gamma : float
        T/d, from 0.5 to 1: the dimension d is the whole number nearest to T/gamma.
    layers : int
        L, from 1 to 12.
    sigma : float
        Standard deviation of a raw entry over its mean, from 0.1 to 2.
    seed : int
        Seed of the first draw; "New draw" takes the next one.

    Returns
    -------
    Demo
        A widget: the last expression of a cell shows it.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If one is out of range.

    Examples
    --------
    >>> gradients(sigma=0.5)
    demos.gradients(tokens=60, gamma=1, layers=6, sigma=0.5, seed=1)
    """
    return _demo("gradients", tokens=tokens, gamma=gamma, layers=layers, sigma=sigma, seed=seed)


def removal(
    tokens: int = 100,
    gamma: float = 1.0,
    sigma: float = 1.0,
    entries: str = "exponential",
    layers: int = 6,
    seed: int = 1,
) -> Demo:
    r"""Show what removing the mean of attention does to the rank of the tokens, live.

    Two stacks :math:`X_l = A_l X_{l-1} W_l` start from the same isometric tokens with the same
    draws of random Markov attention and of Gaussian :math:`W_l`; in one of them each row of
    attention loses its mean. The plot has the stable rank of :math:`X_l X_l^\top` against l, on a
    log scale. The lines are 1 plus `gapcourse.predictions.width_collapse` for plain attention,
    where that is at most T, and T times `gapcourse.predictions.mean_removed_stable_rank`, a limit
    for large T, drawn down to 2. The table has the stable rank over T with the mean removed.

    Parameters
    ----------
    tokens : int
        T, from 2 to 150.
    gamma : float
        T/d, from 0.5 to 1: the dimension d is the whole number nearest to T/gamma.
    sigma : float
        Standard deviation of a raw entry over its mean, from 0.1 to 2; 1 for exponential entries.
    entries : str
        "exponential", "gamma" or "lognormal".
    layers : int
        L, from 1 to 8.
    seed : int
        Seed of the first draw; "New draw" takes the next one.

    Returns
    -------
    Demo
        A widget: the last expression of a cell shows it.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If one is out of range, `entries` is unknown, or cannot have this `sigma`.

    Examples
    --------
    >>> removal(tokens=60, layers=3)
    demos.removal(tokens=60, gamma=1, sigma=1, entries='exponential', layers=3, seed=1)
    """
    return _demo(
        "removal",
        tokens=tokens,
        gamma=gamma,
        sigma=sigma,
        entries=entries,
        layers=layers,
        seed=seed,
    )


def training(
    depth: int = 4,
    learning_rate: float = 0.01,
    seed: int = 1,
    *,
    mean_removal: bool = False,
) -> Demo:
    r"""Train a small stack with and without the mean of its attention, live.

    The stack :math:`X_L = A_L \cdots A_1 X_0 W_1 \cdots W_L` has T = d = 24, fixed random Markov
    attention with exponential entries, and weights that start as unscaled normal numbers. It learns
    to say which entries of one isometric input are positive: the targets are 1 there and 0
    elsewhere, the loss is the mean squared error over all entries, and Adam takes 150 steps.

    The left plot has the loss before each step on a log scale, for both stacks, from the same
    draws. A dashed line marks 1/4, the loss of outputs that are all 1/2. Theory has the
    loss before training: 1/2, from outputs of 0, plus
    :math:`d^L\,\mathbb{E}\|A_L\cdots A_1\|_F^2/(Td)`, the square of
    `gapcourse.predictions.gradient_norm` over Td. The right plot has the outputs of one of the
    trained stacks against the entries that they should tell apart.

    Parameters
    ----------
    depth : int
        L, from 1 to 8.
    learning_rate : float
        Step size of Adam, from 0.0001 to 1.
    seed : int
        Seed of the first draw; "New draw" takes the next one.
    mean_removal : bool
        Whether the right plot shows the stack with the mean removed, or the plain one.

    Returns
    -------
    Demo
        A widget: the last expression of a cell shows it.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If one is out of range.

    Examples
    --------
    >>> training(depth=6)
    demos.training(depth=6, learning_rate=0.01, mean_removal=False, seed=1)
    """
    return _demo(
        "training", depth=depth, learning_rate=learning_rate, mean_removal=mean_removal, seed=seed
    )


def blocks(
    tokens: int = 60,
    layers: int = 12,
    seed: int = 1,
    *,
    attention: str = "markov",
    mask: str = "none",
    skip: str = "none",
    norm: str = "none",
    mean_removal: bool = False,
) -> Demo:
    r"""Show what each part of a block does to tokens in depth, live.

    As `depth`, with a choice of attention and masks, and with a norm in front of attention; the
    left plot has the mean cosine itself, on a linear scale. Tokens start orthogonal, with d = T,
    each of mean square 1. Attention is a random Markov matrix with exponential entries, or the
    softmax of logits of standard deviation about 1: from fresh Gaussian queries and keys, or from
    Gaussian projections of the tokens that enter the block, each divided by its root mean square.

    A causal mask shows each token itself and those before it, a window itself and 4 neighbours on
    each side; fixed attention keeps its visible raw entries. Mean removal takes away the mean over
    the visible tokens, as `gapcourse.attention.remove_mean` does: with a causal mask the first
    token then gets nothing. A token of zeros has no direction and is left out of the cosines.

    Lines of theory are those of `depth`, for random Markov attention without a mask.

    Parameters
    ----------
    tokens : int
        T, from 4 to 150.
    layers : int
        L, from 1 to 12.
    seed : int
        Seed of the first draw; "New draw" takes the next one.
    attention : str
        "markov", "softmax" (fresh Gaussian queries and keys) or "dependent" (on the tokens).
    mask : str
        "none", "causal" or "window".
    skip : str
        "none", "plain" (X + AXW) or "1/sqrt(depth)" (X + AXW/sqrt(L)).
    norm : str
        "none", "post" (each token is divided by its root mean square after each layer) or "pre" (in
        front of attention, within the skip connection).
    mean_removal : bool
        Whether each row of the attention matrix loses its mean over the visible tokens.

    Returns
    -------
    Demo
        A widget: the last expression of a cell shows it.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If one is out of range, or a name is unknown.

    Examples
    --------
    >>> blocks(mask="causal", skip="plain", norm="pre").mask
    'causal'
    """
    return _demo(
        "blocks",
        tokens=tokens,
        layers=layers,
        attention=attention,
        mask=mask,
        skip=skip,
        norm=norm,
        mean_removal=mean_removal,
        seed=seed,
    )


def heads(
    tokens: int = 64,
    head_dim: int = 16,
    logit_std: float = 0.5,
    seed: int = 1,
    *,
    similarity: float = 0.0,
    gamma: float = 0.5,
) -> Demo:
    r"""Show the singular values of twelve heads of one layer at initialisation, live.

    Tokens :math:`x_i = \sqrt\kappa\,u + \sqrt{1-\kappa}\,g_i` share a direction: u and the
    :math:`g_i` are Gaussian with squared length 1 in the mean, so that the mean cosine of two
    tokens is about κ. Each head has its own query and key weights, and logits of standard deviation
    s. A faint line has :math:`\sqrt T\,s_k(A_\perp)` of one head against the rank k, a disc the
    mean over heads. The bold line has the quantiles of `gapcourse.laws.AttentionBulk`, the law for
    isometric tokens.

    The table has the two largest values, each the mean over heads. Theory has the second at
    `gapcourse.predictions.gaussian_token_edge`, where the logits' own part has standard deviation
    s(1 - κ). The first is there too, unless the pattern of columns that the shared direction writes
    into all rows, of size :math:`\theta = \sqrt{T(e^v-1)}` with :math:`v = s^2\kappa(1-\kappa)`,
    is large enough to leave the bulk (`gapcourse.laws.AttentionBulk.spike`, of isometric tokens).
    Both are limits for large T and d_k, to leading order; small heads scatter widely.

    Parameters
    ----------
    tokens : int
        T, from 10 to 100.
    head_dim : int
        d_k, from 4 to 64.
    logit_std : float
        s, from 0.1 to 1.5: the entries of query and key weights have variance s.
    seed : int
        Seed of the first draw; "New draw" takes the next one.
    similarity : float
        κ, from 0 to 0.95.
    gamma : float
        T/d, from 0.2 to 2: the dimension d is the whole number nearest to T/gamma.

    Returns
    -------
    Demo
        A widget: the last expression of a cell shows it.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If one is out of range.

    Examples
    --------
    >>> heads(similarity=0.5).similarity
    0.5
    """
    return _demo(
        "heads",
        tokens=tokens,
        head_dim=head_dim,
        logit_std=logit_std,
        similarity=similarity,
        gamma=gamma,
        seed=seed,
    )


def _listed(things: dict[str, Control]) -> list[Control]:
    """Return named things as a list, each with its name inside."""
    return [{"name": name, **thing} for name, thing in things.items()]


def _demo(scene: str, **settings: Any) -> Demo:
    """Return a demo, once each of its controls could show its setting."""
    return Demo(scene, **{k: _controlled(scene, k, value) for k, value in settings.items()})


def _controlled(scene: str, name: str, value: Any) -> Any:
    """Return a setting if its control could show it."""
    if name == "seed":
        return _whole(value, name, 0, _SEED)
    if name == "view":
        return _choice(value, name, VIEWS)
    control = CONTROLS[scene][name]
    if "options" in control:
        return _choice(value, name, tuple(control["options"]))
    if "step" not in control:
        return _checks.flag(value, name)
    number = _whole if isinstance(control["low"], int) else _between
    return number(value, name, control["low"], control["high"])


def _possible(sigma: float, entries: str, scene: str) -> None:
    """Refuse a sigma that the entries of the scene cannot have."""
    options = CONTROLS[scene]["entries"]["options"]
    ensemble = options[_choice(entries, "entries", tuple(options))]
    low, high = ensemble["low"], ensemble["high"]
    if not low <= sigma <= high:
        raise ValueError(
            f"sigma must lie between {low:.4g} and {high:.4g} for entries={entries!r} in this "
            f"demo, got {sigma}. {ensemble['reason']} Pass sigma={min(1.0, high):.3g}"
        )


def _natural(entries: str) -> float:
    """Return sigma 1, or the nearest that the ensemble can have."""
    ensemble = ENSEMBLES[_choice(entries, "entries", tuple(ENSEMBLES))]
    return min(1.0, float(ensemble["high"]))


def _whole(value: object, name: str, low: int, high: int) -> int:
    """Return a whole number within the demo's range."""
    number = _checks.whole(value, name, low)
    if number > high:
        raise ValueError(f"{name} must be at most {high} in this demo, got {number}; pass less")
    return number


def _between(value: object, name: str, low: float, high: float) -> float:
    """Return a number within the demo's range."""
    remedy = f"pass one from {low:g} to {high:g}, the range of this demo"
    return float(_checks.within(value, name, low, high, ndim=(0,), remedy=remedy))  # type: ignore[arg-type]


def _choice(value: object, name: str, options: tuple[str, ...]) -> str:
    """Return one of the options."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a name, got {_checks.shown(value)}; pass one of {options}")
    if value not in options:
        raise ValueError(f"{name} must be one of {options}, got {value!r}; pick one of them")
    return value
