r"""The theory of the course as functions: what to expect before anything is sampled.

All of them take numbers or arrays (which broadcast) and return a float for numbers and an array for
arrays. T counts tokens (whole, at least 1, and at least 2 where there is a second value); sigma is
std/mean of the raw entry of a random Markov matrix (above 0); logit_std is the standard deviation s
of a logit of softmax attention (above 0, at most 26). Every formula is a limit for large T, unless
it says that it is exact: read it where T is well above sigma².

Those on several layers are about the stack :math:`X_l = A_l X_{l-1} W_l`, from isometric tokens,
:math:`X_0 X_0^\top = I`, with fresh independent matrices in each layer and values :math:`W_l` of
independent standard normal entries (d, d), not scaled. Layers count from 1. There d is the
dimension of a token (whole, at least T), gamma is :math:`\gamma = T/d` (1e-6 to 1) and ratio is
:math:`c = T/d_k`, for heads of dimension :math:`d_k` (1e-6 to 1e6).

A torch tensor, a string or an object raises `TypeError`; a number outside its range, or arrays that
don't broadcast, raise `ValueError`.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import exprel

from . import _checks
from ._checks import Floats
from ._roots import bisect

__all__ = [
    "attention_first_singular_value",
    "attention_mean_removed_stable_rank",
    "attention_width_collapse",
    "energy_step",
    "first_singular_value",
    "frobenius_norm",
    "gaussian_token_edge",
    "gradient_norm",
    "heavy_tail_exponent",
    "mean_removed_stable_rank",
    "pareto_tail_index",
    "product_norm",
    "second_eigenvalue",
    "second_layer_edge",
    "second_layer_logit_variance",
    "second_layer_outlier",
    "second_singular_value",
    "softmax_sigma",
    "spectral_gap",
    "spike_singular_value",
    "stable_rank",
    "stationary_distance",
    "stray_size",
    "token_spread",
    "walk_distance",
    "width_collapse",
]


def first_singular_value(T: ArrayLike, sigma: ArrayLike) -> float | Floats:
    r"""Return the largest singular value of a random Markov matrix.

    .. math:: s_1(A) = \sqrt{1 + \sigma^2/T} + o(1/T)

    Conditions: i.i.d. raw entries of finite variance. Derived in chapter 03 of this course from
    :math:`AA^\top = ee^\top + A_\perp A_\perp^\top`.

    Examples
    --------
    >>> round(first_singular_value(1600, 1.0), 6)
    1.000312
    """
    T, sigma = _tokens_and_sigma(T, sigma)
    return _checks.plain(np.sqrt(1 + sigma**2 / T))


def second_singular_value(T: ArrayLike, sigma: ArrayLike) -> float | Floats:
    r"""Return the second singular value, the edge of the bulk.

    .. math:: s_2(A) \sim 2\sigma/\sqrt{T}

    Conditions: i.i.d. raw entries with a finite fourth moment; entries with a heavy tail but finite
    moments (log-normal)
    approach it slowly and from above. The bulk below it is `gapcourse.laws.QuarterCircle`: Chafaï
    (2010) for uniform Dirichlet rows; Bordenave, Caputo and Chafaï (2012).

    Examples
    --------
    >>> second_singular_value(400, 1.0)
    0.1
    """
    T, sigma = _tokens_and_sigma(T, sigma, least=2)
    return _checks.plain(2 * sigma / np.sqrt(T))


def second_eigenvalue(T: ArrayLike, sigma: ArrayLike) -> float | Floats:
    r"""Return the modulus of the second eigenvalue, the radius of the disc the others fill.

    .. math:: |\lambda_2(A)| \sim \sigma/\sqrt{T}

    Conditions: for the disc, raw entries with a bounded density and finite variance (Bordenave,
    Caputo and Chafaï 2012). That no eigenvalue but 1 lies outside it is what one sees, not what
    that theorem says.

    Examples
    --------
    >>> second_eigenvalue(400, 1.0)
    0.05
    """
    T, sigma = _tokens_and_sigma(T, sigma, least=2)
    return _checks.plain(sigma / np.sqrt(T))


def spectral_gap(T: ArrayLike, sigma: ArrayLike) -> float | Floats:
    r"""Return the gap between the two largest singular values.

    .. math:: s_1 - s_2 \approx \sqrt{1 + \sigma^2/T} - 2\sigma/\sqrt{T}

    Conditions: those of `second_singular_value`, and T well above sigma² (below, the second value
    passes the first in this formula, which no matrix can do).

    Examples
    --------
    >>> round(spectral_gap(400, 1.0), 5)
    0.90125
    """
    T, sigma = _tokens_and_sigma(T, sigma, least=2)
    return _checks.plain(np.sqrt(1 + sigma**2 / T) - 2 * sigma / np.sqrt(T))


def frobenius_norm(T: ArrayLike, sigma: ArrayLike) -> float | Floats:
    r"""Return the Frobenius norm of a random Markov matrix.

    .. math:: \|A\|_F \to \sqrt{1 + \sigma^2}

    It does not depend on T in the limit: the noise keeps a share sigma² of the energy, spread
    over T directions. Conditions: finite variance. Derived in chapter 03 of this course.

    Examples
    --------
    >>> round(frobenius_norm(400, 1.0), 4)
    1.4142
    """
    T, sigma = _tokens_and_sigma(T, sigma)
    return _checks.plain(np.sqrt(1 + sigma**2) * np.ones_like(T))


def stable_rank(T: ArrayLike, sigma: ArrayLike) -> float | Floats:
    r"""Return the stable rank of a random Markov matrix.

    .. math:: \mathrm{sr}(A) = \frac{\|A\|_F^2}{\|A\|^2} \approx \frac{1 + \sigma^2}{1 + \sigma^2/T}

    It tends to 1 + sigma², not to 1: the collapse appears in the token covariance, not in A.
    Conditions: finite variance. Derived in chapter 03 of this course.

    Examples
    --------
    >>> round(stable_rank(400, 1.0), 3)
    1.995
    """
    T, sigma = _tokens_and_sigma(T, sigma)
    return _checks.plain((1 + sigma**2) / (1 + sigma**2 / T))


def pareto_tail_index(sigma: ArrayLike) -> float | Floats:
    r"""Return the tail index of the Pareto variable with std/mean equal to sigma.

    .. math:: \alpha = 1 + \sqrt{1 + 1/\sigma^2}

    Exact, from :math:`\sigma^2 = 1/(\alpha(\alpha - 2))`. It is above 2 always, and above 4 (a
    finite fourth moment) only for :math:`\sigma < 1/\sqrt{8} = 0.354`.

    Examples
    --------
    >>> round(pareto_tail_index(1.0), 4)
    2.4142
    """
    return _checks.plain(1 + np.hypot(1, 1 / _sigma(sigma)))


def spike_singular_value(theta: ArrayLike, sigma: ArrayLike) -> float | Floats:
    r"""Return the largest singular value of square noise plus one rank-one term of size theta.

    .. math:: \theta + \sigma^2/\theta \quad (\theta > \sigma), \qquad 2\sigma \quad
       (\theta \le \sigma)

    For noise with the quarter circle of edge 2 sigma and an independent rank-one term. In a random
    Markov matrix with heavy tails one large entry is such a term: theta is sqrt(T) times the
    largest modulus of an entry of :math:`A_\perp`, and the result is sqrt(T) s_2. Source:
    Benaych-Georges and Nadakuditi (2012), *The singular values and vectors of low rank
    perturbations of large rectangular random matrices*; its use here: chapter 03 of this course.

    Parameters
    ----------
    theta : array_like
        Size of the rank-one term, at least 0.
    sigma : array_like
        Half the edge of the noise, above 0.

    Examples
    --------
    >>> spike_singular_value([0.5, 1.0, 2.0], 1.0)
    array([2. , 2. , 2.5])
    """
    theta = _checks.within(theta, "theta", 0, remedy="pass the size of the rank-one term")
    sigma = _sigma(sigma)
    _checks.together(theta=theta, sigma=sigma)
    size = np.maximum(theta, sigma)  # at theta = sigma the two branches meet
    return _checks.plain(size + sigma**2 / size)


def heavy_tail_exponent(alpha: ArrayLike) -> float | Floats:
    r"""Return the exponent of T in the second singular value, for entries with a power tail.

    .. math:: s_2 &\sim T^{\,2/\alpha - 1} \quad (2 < \alpha < 4), \\
       s_2 &\sim T^{-1/2} \quad (\alpha \ge 4)

    The largest of T² raw entries is of order :math:`T^{2/\alpha}`; divided by the row's sum, of
    order T, it passes the edge of the bulk when the fourth moment is infinite. A heuristic, derived
    in chapter 03 of this course.

    Parameters
    ----------
    alpha : array_like
        Tail index, P(D > x) ~ x^(-alpha), above 2 (at 2 and below the variance is infinite).

    Examples
    --------
    >>> heavy_tail_exponent([2.5, 4.0, 6.0])
    array([-0.2, -0.5, -0.5])
    """
    alpha = _checks.within(
        alpha,
        "alpha",
        2,
        open_low=True,
        remedy="at 2 and below the variance is infinite and there is no such rate: take alpha > 2",
    )
    return _checks.plain(np.maximum(2 / alpha - 1, -0.5))


def stationary_distance(T: ArrayLike, sigma: ArrayLike) -> float | Floats:
    r"""Return the distance of a random Markov matrix's stationary law from the uniform law.

    .. math:: \tfrac12 \sum_j |\pi_j - 1/T| \approx \frac{\sigma}{\sqrt{2\pi T}}

    (pi under the root is the number.) To leading order :math:`\pi_j - 1/T` is the mean of column j
    of :math:`A_\perp`: Gaussian, of standard deviation :math:`\sigma T^{-3/2}`. Conditions: i.i.d.
    raw entries of finite variance. Derived in chapter 01 of this course.

    Examples
    --------
    >>> round(stationary_distance(400, 1.0), 4)
    0.0199
    """
    T, sigma = _tokens_and_sigma(T, sigma)
    return _checks.plain(sigma / np.sqrt(2 * np.pi * T))


def walk_distance(T: ArrayLike, sigma: ArrayLike, steps: ArrayLike) -> float | Floats:
    r"""Return how far a random walk is from its stationary law after k steps from one state.

    .. math:: \tfrac12 \sum_j |(A^k)_{ij} - \pi_j| \approx
       \frac{\sigma^k\, T^{(1-k)/2}}{\sqrt{2\pi}} \\
       (k \ge 2)

    To leading order the difference is row i of :math:`A_\perp^k`, whose entries are about
    independent Gaussian with squares that sum to :math:`(\sigma^2/T)^k`. Conditions: i.i.d. raw
    entries of finite variance. (After one step the entries are the raw ones, and the distance
    depends on their law: it has no such formula.) Derived in chapter 01 of this course.

    Parameters
    ----------
    T, sigma : array_like
        As in all functions here, T at least 2.
    steps : array_like
        k, whole numbers, at least 2.

    Examples
    --------
    >>> round(walk_distance(100, 1.0, 2), 5), round(walk_distance(100, 1.0, 4), 7)
    (0.03989, 0.0003989)
    """
    T, sigma = _tokens_and_sigma(T, sigma, least=2)
    steps = _checks.within(
        steps, "steps", 2, is_whole=True, remedy="pass whole numbers of steps, 2 or more"
    )
    _checks.together(T=T, sigma=sigma, steps=steps)
    return _checks.plain((sigma / np.sqrt(T)) ** steps * np.sqrt(T / (2 * np.pi)))


def softmax_sigma(logit_std: ArrayLike) -> float | Floats:
    r"""Return std/mean of the raw entry of softmax attention, the exponential of a normal logit.

    .. math:: \sigma = \sqrt{e^{s^2} - 1}

    Exact for a normal logit. Derived in chapter 04 of this course.

    Parameters
    ----------
    logit_std : array_like
        s, above 0 and at most 26.

    Examples
    --------
    >>> round(softmax_sigma(0.5), 4)
    0.5329
    """
    return _checks.plain(np.sqrt(np.expm1(_logit_std(logit_std) ** 2)))


def attention_first_singular_value(
    T: ArrayLike, head_dim: ArrayLike, logit_std: ArrayLike
) -> float | Floats:
    r"""Return the largest singular value of softmax attention at initialisation.

    .. math:: s_1(A) &\approx \sqrt{1 + \sigma^2/T + s^4/(2 d_k)}, \\
       \sigma^2 &= e^{s^2} - 1

    The last term is what the i.i.d. model lacks: a token with a long key is attended by all, so
    the columns' means scatter with the keys' norms. Conditions: queries and keys with independent
    normal entries, T and :math:`d_k` large. Derived in chapter 04 of this course.

    Parameters
    ----------
    T : array_like
        Tokens, whole, at least 1.
    head_dim : array_like
        :math:`d_k`, whole, at least 1.
    logit_std : array_like
        s, above 0 and at most 26.

    Examples
    --------
    >>> round(attention_first_singular_value(800, 50, 0.7), 5)
    1.00159
    """
    T = _checks.within(T, "T", 1, is_whole=True, remedy="pass whole numbers of tokens, 1 or more")
    head_dim, s = _head_dim(head_dim), _logit_std(logit_std)
    _checks.together(T=T, head_dim=head_dim, logit_std=s)
    return _checks.plain(np.sqrt(1 + np.expm1(s**2) / T + s**4 / (2 * head_dim)))


def stray_size(second: ArrayLike, ratio: ArrayLike) -> float | Floats:
    r"""Return the size of the rank-one part that the keys' norms make in an attention matrix.

    .. math:: \theta = |a_2/a_0|\,\sqrt{2c}

    It is the theta of `gapcourse.laws.AttentionBulk.spike`, for the law of :math:`\sqrt T` times
    the singular values of the mean-removed matrix whose rows have sum 1. Centring the columns too
    removes it. For f(S)/T, not divided by its row's sum, multiply by :math:`|a_0|`; there the
    queries' norms make a second part, of the same size, but `gapcourse.attention.remove_mean`
    takes it away. Conditions: queries and keys with independent normal entries, T and :math:`d_k`
    large. Derived in chapter 04 of this course.

    Parameters
    ----------
    second : array_like
        :math:`a_2/a_0`, from the Hermite coefficients of :math:`f(sz) = \sum_k a_k He_k(z)`:
        :math:`s^2/2` for softmax. Its sign does not matter.
    ratio : array_like
        :math:`c = T/d_k`, above 0.

    Examples
    --------
    >>> round(stray_size(0.5**2 / 2, 16.0), 4)
    0.7071
    """
    second = _checks.within(second, "second", remedy="pass a_2/a_0, such as 0.125")
    ratio = _ratio(ratio)
    _checks.together(second=second, ratio=ratio)
    return _checks.plain(np.abs(second) * np.sqrt(2 * ratio))


# ------------------------------------------------------------------ rank collapse in width


def width_collapse(
    T: ArrayLike, d: ArrayLike, layer: ArrayLike, sigma: ArrayLike, *, leading: bool = False
) -> float | Floats:
    r"""Return how far layer l is from rank collapse, for random Markov attention.

    .. math:: \mathrm{sr}(X_l X_l^\top) - 1 &\approx \frac{q_l}{d^{2l}} \\
       &\sim \bigl(1 + l(1+\gamma)\bigr)\, \sigma^{4l}\, T^{1-2l}

    Here :math:`q_l = \mathbb{E}\,\mathrm{tr}\,(Y_l Y_l^\top)^2` belongs to the part that is not
    common to all tokens, :math:`Y_l = A_{\perp,l} Y_{l-1} W_l`. For a Gaussian :math:`A_\perp` it
    has a closed form, at every T and d, which is returned:

    .. math:: \frac{q_l}{d^{2l}} = \frac{\sigma^{4l}\, T^{2-2l}}{3} \Bigl[
       &\bigl(1+\tfrac2T\bigr)^{l+1} \bigl(1+\tfrac2d\bigr)^l \\
       -\,&\bigl(1-\tfrac1T\bigr)^{l+1} \bigl(1-\tfrac1d\bigr)^l \Bigr]

    Derived in chapter 05. Conditions: i.i.d. raw entries with a finite fourth moment,
    :math:`T \le d`. What is left out, that the rows of A are Markov and that the first singular
    value scatters, is a relative O(1/T) + O(l/d). One draw scatters by a relative
    :math:`\sqrt{8l/d}`: compare with means over many. It is a law of small residuals: a value
    above about 0.3 says that one direction does not dominate by far, and no more.

    Parameters
    ----------
    T, d : array_like
        Tokens (at least 2) and their dimension (at least T), whole.
    layer : array_like
        l, whole, at least 1.
    sigma : array_like
        std/mean of a raw entry, above 0 and with sigma² below T.
    leading : bool
        Whether to return the leading order at large T, the last expression above.

    Examples
    --------
    >>> round(width_collapse(200, 200, 1, 1.0), 4)
    0.0151
    >>> round(width_collapse(200, 200, 1, 1.0, leading=True), 4)
    0.015
    """
    T, d = _tokens_and_dim(T, d)
    layer, sigma = _layer(layer), _sigma(sigma)
    _checks.together(T=T, d=d, layer=layer, sigma=sigma)
    share = sigma / np.sqrt(T)
    if not (share < 1).all():
        raise ValueError(
            f"sigma must be below sqrt(T), got sigma/sqrt(T) = {share.max():.6g}: the noise then "
            "outweighs the mean and nothing collapses; pass a smaller sigma, or more tokens"
        )
    if _checks.flag(leading, "leading"):
        return _checks.plain((1 + layer * (1 + T / d)) * T * share ** (4 * layer))
    more = (layer + 1) * np.log1p(2 / T) + layer * np.log1p(2 / d)
    less = (layer + 1) * np.log1p(-1 / T) + layer * np.log1p(-1 / d)
    with np.errstate(over="ignore"):
        q = np.exp(4 * layer * np.log(share) + more) * T**2 / 3 * -np.expm1(less - more)
        return _finite(q, "layer")


def attention_width_collapse(
    T: ArrayLike, d: ArrayLike, head_dim: ArrayLike, logit_std: ArrayLike
) -> float | Floats:
    r"""Return how far the first layer of softmax attention is from rank collapse.

    .. math:: \mathrm{sr}(X_1 X_1^\top) - 1 &\sim \frac{(2+\gamma)\,k_2^2 + k_4}{T}, \\
       k_2 = e^{s^2} - 1, \quad k_4 &= c\,s^4, \quad c = T/d_k

    The fourth cumulant :math:`k_4` is that of `gapcourse.laws.AttentionBulk`: a small head makes
    the collapse weaker than the i.i.d. model has it, which is the limit of large :math:`d_k`.
    Conditions: independent normal queries and keys, :math:`T \le d`, the leading order at large T.
    Derived in this course.

    Parameters
    ----------
    T, d, head_dim : array_like
        Tokens (at least 2), their dimension (at least T) and that of the head, whole.
    logit_std : array_like
        s, above 0 and at most 13.

    Examples
    --------
    >>> round(400 * attention_width_collapse(400, 400, 400, 1.0), 2)
    9.86
    """
    T, d = _tokens_and_dim(T, d)
    head_dim, s = _head_dim(head_dim), _logit_std(logit_std, 13)
    _checks.together(T=T, d=d, head_dim=head_dim, logit_std=s)
    k_2, k_4 = np.expm1(s**2), T / head_dim * s**4
    return _checks.plain(((2 + T / d) * k_2**2 + k_4) / T)


# ------------------------------------------------------------------ mean removal


def mean_removed_stable_rank(layer: ArrayLike, gamma: ArrayLike) -> float | Floats:
    r"""Return the limit of sr/T at layer l, for random Markov attention with its mean removed.

    .. math:: \frac{\mathrm{sr}(X_l X_l^\top)}{T} &\to \frac{1 + l(1+\gamma)}{x_*^2}, \\
       x_* &= \min_{z>0} \frac{(1+z)^{l+1} (1+\gamma z)^l}{z}

    The numerator is the second moment, :math:`x_*` the edge, of the law of
    :math:`X_l X_l^\top` at mean 1, whose S-transform is :math:`1/((1+z)^l (1+\gamma z)^l)`. At
    gamma = 1 it is the Fuss-Catalan law of order 2l, and the result falls like
    :math:`1/(2 e^2 l)`. The rank grows with T: collapse in width is gone, in depth it is slower.
    Conditions: i.i.d. raw entries with a finite fourth moment, l fixed as T grows. At T = 400
    measured values lie 4 to 15 % higher, the more so the larger l. Derived in this course.

    Parameters
    ----------
    layer : array_like
        l, whole, at least 1.
    gamma : array_like
        T/d, from 1e-6 to 1.

    Examples
    --------
    >>> mean_removed_stable_rank([1, 2, 3], 1.0).round(4)
    array([0.0658, 0.0336, 0.0225])
    """
    layer, gamma = _layer(layer), _gamma(gamma)
    _checks.together(layer=layer, gamma=gamma)
    b = layer + (layer - 1) * gamma
    z = 2 / (b + np.sqrt(b**2 + 8 * layer * gamma))  # of 2 l gamma z^2 + b z = 1
    log_edge = (layer + 1) * np.log1p(z) + layer * np.log1p(gamma * z) - np.log(z)
    return _checks.plain((1 + layer * (1 + gamma)) * np.exp(-2 * log_edge))


def attention_mean_removed_stable_rank(
    gamma: ArrayLike, ratio: ArrayLike, logit_std: ArrayLike
) -> float | Floats:
    r"""Return the limit of sr/T after one layer of softmax attention with its mean removed.

    .. math:: \frac{\mathrm{sr}(X_1 X_1^\top)}{T} &\to \frac{\kappa}{x_*^2}, \\
       x_* &= \min_w \frac{(1+z)^2 (1+\gamma z)}{w^2}, \\
       z &= \frac{c_2^2 w^2}{k_2} + \frac{c_1^2 w^2}{k_2 - c\,c_1^2 w^2}

    with the :math:`c_1, c_2, k_2` of `gapcourse.laws.AttentionBulk.softmax` and :math:`\kappa`
    that of `token_spread`. For large heads (small c) it tends to `mean_removed_stable_rank` at
    layer 1; a small head lowers it. Conditions: independent normal queries and keys. At T = 400
    measured values are off by some 15 %: above it at s = 0.5, below at s = 1, where tails matter.
    Derived in this course.

    Parameters
    ----------
    gamma : array_like
        T/d, from 1e-6 to 1.
    ratio : array_like
        :math:`c = T/d_k`, from 1e-6 to 1e6.
    logit_std : array_like
        s, above 0 and at most 26.

    Examples
    --------
    >>> round(400 * attention_mean_removed_stable_rank(1.0, 1.0, 1.0), 1)
    21.5
    """
    gamma, ratio, s = _gamma(gamma), _head_ratio(ratio), _logit_std(logit_std)
    _checks.together(gamma=gamma, ratio=ratio, logit_std=s)
    shape = np.broadcast_shapes(gamma.shape, ratio.shape, s.shape)

    def slope(z: Floats) -> Floats:  # of log x by log z, increasing where it is zero
        excess: Floats = 2 * z / (1 + z) + gamma * z / (1 + gamma * z) - _inverse(z, ratio, s)[1]
        return excess

    z = bisect(slope, np.zeros(shape), np.ones(shape))
    edge = (1 + z) ** 2 * (1 + gamma * z) / _inverse(z, ratio, s)[0]
    return _checks.plain(_spread(gamma, ratio, s) / edge**2)


def token_spread(gamma: ArrayLike, ratio: ArrayLike, logit_std: ArrayLike) -> float | Floats:
    r"""Return how unevenly directions are filled after one layer with its mean removed.

    .. math:: \kappa = \frac{T\,\mathrm{tr}\,(X_1X_1^\top)^2}{(\mathrm{tr}\,X_1X_1^\top)^2}
       &\to 2 + \gamma + \frac{k_4}{k_2^2}, \\
       k_2 &= e^{s^2} - 1, \quad k_4 = c\,s^4

    It is 1 for isometric tokens, and grows with depth. Conditions: softmax attention, independent
    normal queries and keys. Derived in this course.

    Parameters
    ----------
    gamma, ratio, logit_std : array_like
        As in `attention_mean_removed_stable_rank`.

    Examples
    --------
    >>> round(token_spread(1.0, 1.0, 0.5), 4)
    3.7748
    """
    gamma, ratio, s = _gamma(gamma), _head_ratio(ratio), _logit_std(logit_std)
    _checks.together(gamma=gamma, ratio=ratio, logit_std=s)
    return _checks.plain(_spread(gamma, ratio, s))


# ------------------------------------------------------------------ the second layer


def second_layer_logit_variance(
    gamma: ArrayLike, logit_std: ArrayLike, mean_removed: bool = False
) -> float | Floats:
    r"""Return the variance of the second layer's logits within a row, which is what softmax sees.

    .. math:: &\frac{s^2 \sigma_1^4}{\gamma^2} \text{ with the mean removed}, \\
       &\frac{s^2 \sigma_1^2 (1 + \sigma_1^2)}{\gamma^2} \text{ without}, \quad
       \sigma_1^2 = e^{s^2} - 1

    With the mean removed in layer 1 the squared length of a token is :math:`\sigma_1^2/\gamma`, and
    :math:`e^v - 1` is the :math:`\sigma^2` of layer 2. Without, it is
    :math:`(1 + \sigma_1^2)/\gamma`, of which :math:`1/\gamma` belongs to one vector that all
    tokens share: the further :math:`s^2\sigma_1^2/\gamma^2` is a pattern of columns, the same in
    all rows (`second_layer_outlier`). Conditions: softmax attention, T, d and :math:`d_k` large.
    Derived in this course.

    Parameters
    ----------
    gamma : array_like
        T/d, from 1e-6 to 1.
    logit_std : array_like
        s of the first layer, above 0 and at most 13: each of the query and key weights has
        entries of variance s in both layers.
    mean_removed : bool
        Whether the first layer's mean is removed.

    Examples
    --------
    >>> round(second_layer_logit_variance(1.0, 0.5, mean_removed=True), 4)
    0.0202
    """
    gamma, s = _gamma(gamma), _logit_std(logit_std, 13)
    _checks.together(gamma=gamma, logit_std=s)
    noise = np.expm1(s**2)
    rest = 0.0 if _checks.flag(mean_removed, "mean_removed") else 1.0
    return _checks.plain((s / gamma) ** 2 * noise * (rest + noise))


def second_layer_outlier(gamma: ArrayLike, logit_std: ArrayLike) -> float | Floats:
    r"""Return the singular value of layer 2 that is left when 1/T is subtracted from its rows.

    .. math:: s_1(A_{2,\perp}) &\approx \sqrt{\exp(s^2\sigma_1^2/\gamma^2) - 1}, \\
       \sigma_1^2 &= e^{s^2} - 1

    In a plain stack the tokens of layer 1 share a vector, so the logits of layer 2 share a pattern
    of columns and :math:`A_2 \approx \mathbf 1 p^\top` plus noise: the outlier does not fall with
    T. Centring the columns too removes it. Conditions: softmax attention, s up to 0.5 at gamma = 1;
    beyond, one draw is far from another. Derived in this course.

    Parameters
    ----------
    gamma, logit_std : array_like
        As in `second_layer_logit_variance`; the exponent is at most 700.

    Examples
    --------
    >>> round(second_layer_outlier(1.0, 0.5), 3)
    0.271
    """
    gamma, s = _gamma(gamma), _logit_std(logit_std, 13)
    _checks.together(gamma=gamma, logit_std=s)
    return _checks.plain(np.sqrt(np.expm1(_moderate((s / gamma) ** 2 * np.expm1(s**2)))))


def second_layer_edge(gamma: ArrayLike, ratio: ArrayLike, logit_std: ArrayLike) -> float | Floats:
    r"""Return the edge of layer 2's bulk, means removed in both layers: sqrt(T) times s_2.

    .. math:: x &= \min_z \frac{1 + z + c_2^2 w^2}{w}, \\
       c_2^2 &= e^v - 1 - v, \\
       w^2 &= \frac{z\,S_Y(z)^2}{(1+cz)\,v}, \\
       S_Y(z) &= \frac{S_{A_1}(z)}{1+\gamma z}

    Here v is `second_layer_logit_variance`, and :math:`S_{A_1}` the S-transform of layer 1's law
    (`gapcourse.laws.AttentionBulk.softmax`, of squared singular values, at mean 1). The tokens of
    layer 1 are correlated; fresh ones of the same length would give the edge of ``AttentionBulk``,
    which is far lower. Conditions: softmax attention, T, d and :math:`d_k` large, v small enough
    for the tail (as s = 0.5 at gamma = 1). Derived in this course.

    Parameters
    ----------
    gamma, ratio, logit_std : array_like
        As in `attention_mean_removed_stable_rank`, with s at most 13 and v at most 700.

    Examples
    --------
    >>> round(second_layer_edge(1.0, 1.0, 0.5), 3)
    0.666
    """
    gamma, ratio, s = _gamma(gamma), _head_ratio(ratio), _logit_std(logit_std, 13)
    _checks.together(gamma=gamma, ratio=ratio, logit_std=s)
    std = s * np.expm1(s**2) / gamma
    _moderate(std**2)

    def tokens(z: Floats) -> tuple[Floats, Floats]:
        square, slope = _inverse(z, ratio, s)
        return (
            square / (z * (1 + z) * (1 + gamma * z)),
            slope - 1 - z / (1 + z) - gamma * z / (1 + gamma * z),
        )

    return _checks.plain(_edge(tokens, gamma, ratio, std))


def gaussian_token_edge(gamma: ArrayLike, ratio: ArrayLike, logit_std: ArrayLike) -> float | Floats:
    r"""Return the edge of softmax attention's bulk for Gaussian tokens: sqrt(T) times s_2.

    .. math:: x &= \min_z \frac{1 + z + c_2^2 w^2}{w}, \\
       w^2 &= \frac{z}{(1+cz)(1+\gamma z)^2\,c_1^2}

    with the :math:`c_1, c_2` of `gapcourse.laws.AttentionBulk.softmax`, to whose edge it falls as
    gamma goes to 0: the tokens are then orthogonal. Conditions: tokens with independent normal
    entries of variance 1/d, weights with entries of variance s, any T and d, both large. Derived in
    chapter 04 of this course.

    Parameters
    ----------
    gamma : array_like
        T/d, from 0 to 1e6: it may be above 1 here.
    ratio, logit_std : array_like
        :math:`c = T/d_k`, from 1e-6 to 1e6, and s, above 0 and at most 26.

    Examples
    --------
    >>> gaussian_token_edge([0.0, 1.0, 2.0], 1.0, 0.5).round(3)
    array([1.338, 1.771, 2.074])
    """
    gamma = _checks.within(gamma, "gamma", 0, 1e6, remedy="pass tokens/dimension, such as 0.5")
    ratio, s = _head_ratio(ratio), _logit_std(logit_std)
    _checks.together(gamma=gamma, ratio=ratio, logit_std=s)

    def tokens(z: Floats) -> tuple[Floats, Floats]:
        return 1 / (1 + gamma * z), -gamma * z / (1 + gamma * z)

    return _checks.plain(_edge(tokens, gamma, ratio, s))


def energy_step(
    energy: ArrayLike, spread: ArrayLike, gamma: ArrayLike, logit_std: ArrayLike
) -> float | Floats:
    r"""Return the mean squared length of a token one layer on, with the mean removed.

    .. math:: \rho' = \bigl(\kappa v + e^v - 1 - v\bigr)\,\rho/\gamma, \quad v = s^2\rho^2

    v is the variance of the logits that this layer makes of the tokens. From isometric tokens
    (:math:`\rho = \kappa = 1`) it gives :math:`\rho_1 = \sigma_1^2/\gamma`, then with
    :math:`\kappa` from `token_spread` :math:`\rho_2`, whose :math:`s^2\rho_2^2` is the variance of
    layer 3's logits; further on measure :math:`\kappa`. Small logits die out, and large ones blow
    up. Conditions: softmax attention, T, d and :math:`d_k` large. Derived in this course.

    Parameters
    ----------
    energy : array_like
        :math:`\rho`, mean squared length of the tokens that enter, above 0.
    spread : array_like
        :math:`\kappa = T\,\mathrm{tr}(XX^\top)^2/(\mathrm{tr}\,XX^\top)^2` of them, at least 1.
    gamma, logit_std : array_like
        T/d, from 1e-6 to 1, and s, above 0 and at most 26; v may be at most 700.

    Examples
    --------
    >>> first = energy_step(1.0, 1.0, 1.0, 0.7)
    >>> second = energy_step(first, token_spread(1.0, 1.0, 0.7), 1.0, 0.7)
    >>> round(0.7**2 * second**2, 3)
    0.103
    """
    energy = _checks.within(
        energy, "energy", 0, open_low=True, remedy="pass the mean squared length of a token"
    )
    spread = _checks.within(
        spread, "spread", 1, remedy="pass T tr(XX^T)^2/(tr XX^T)^2, 1 for isometric tokens"
    )
    gamma, s = _gamma(gamma), _logit_std(logit_std)
    _checks.together(energy=energy, spread=spread, gamma=gamma, logit_std=s)
    with np.errstate(over="ignore"):
        v = _moderate((s * energy) ** 2)
        return _finite(v * (spread - 1 + exprel(v)) * energy / gamma, "spread")


# ------------------------------------------------------------------ gradients


def product_norm(
    T: ArrayLike,
    depth: ArrayLike,
    sigma: ArrayLike,
    mean_removed: bool = False,
    *,
    leading: bool = False,
) -> float | Floats:
    r"""Return the Frobenius norm of a product of random Markov matrices.

    It is :math:`(\mathbb{E}\|A_L\cdots A_1\|_F^2)^{1/2} = \sqrt{p_L}`, from the recursion for p and
    :math:`u = \mathbb{E}\,|e^\top A_L \cdots A_1|^2` from the right,

    .. math:: (p, u) &\mapsto \bigl(u + v(p-u),\; u + \tfrac1T v(p-u)\bigr), \\
       p_0 &= T,\quad u_0 = 1, \\
       v &= \frac{T^2\,\mathrm{Var}A_{ij}}{T-1} = \frac{\sigma^2}{T+\sigma^2}

    and without the first u of each for :math:`A_\perp`. With :math:`r = (1 - \frac1T) v` it solves
    to

    .. math:: \text{plain: } p_L &= 1 + r\,\frac{1-r^L}{1-r} + (T-1)\,r^L, \\
       A_\perp\text{: } p_L &= T r^L.

    The recursion is exact for independent rows of exchangeable entries, and v for gamma entries
    (Dirichlet rows); for others v is right up to a relative O(1/T). Derived in this course.

    Parameters
    ----------
    T : array_like
        Tokens, whole, at least 1.
    depth : array_like
        L, the number of factors, whole, at least 1.
    sigma : array_like
        std/mean of a raw entry, above 0.
    mean_removed : bool
        Whether the factors are :math:`A_\perp`.
    leading : bool
        Whether to return the leading order at large T and fixed L: :math:`p_1 = 1 + \sigma^2`, then
        1; with the mean removed :math:`T (\sigma^2/T)^L`.

    Examples
    --------
    >>> (product_norm(60, [1, 2, 3], 1.0) ** 2).round(4)
    array([1.9672, 1.0317, 1.0166])
    """
    T, sigma = _tokens_and_sigma(T, sigma)
    depth = _layer(depth, "depth")
    _checks.together(T=T, depth=depth, sigma=sigma)
    with np.errstate(over="ignore"):
        return _finite(np.exp(_log_product(T, depth, sigma, mean_removed, leading) / 2), "sigma")


def gradient_norm(
    T: ArrayLike,
    d: ArrayLike,
    depth: ArrayLike,
    sigma: ArrayLike,
    mean_removed: bool = False,
    *,
    leading: bool = False,
) -> float | Floats:
    r"""Return the norm of the gradient of a stack of depth L with fixed random Markov attention.

    .. math:: &\Bigl(\mathbb{E}\,\Bigl\|\frac{\partial X_L}{\partial W_l}\Bigr\|_F^2\Bigr)^{1/2} \\
       &\quad = d^{L/2}\,\bigl(\mathbb{E}\,\|A_L\cdots A_1\|_F^2\bigr)^{1/2}

    the same for every layer l, with the product's norm from `product_norm`, and as exact as that
    is. Conditions: attention that does not depend on the tokens. Derived in this course from the
    Kronecker structure of the gradient.

    Parameters
    ----------
    T, d : array_like
        Tokens (at least 1) and their dimension (at least T), whole.
    depth : array_like
        L, whole, at least 1.
    sigma : array_like
        std/mean of a raw entry, above 0.
    mean_removed : bool
        Whether attention is :math:`A_\perp`.
    leading : bool
        Whether to return the leading order at large T and fixed L, of the square:
        :math:`(1 + \sigma^2)\,d`, then :math:`d^L`; with the mean removed
        :math:`T (\sigma^2/\gamma)^L`.

    Raises
    ------
    ValueError
        A norm beyond 1.8e308, besides what all functions refuse.

    Examples
    --------
    >>> round(gradient_norm(12, 30, 3, 1.0, mean_removed=True) ** 2, 1)
    113.6
    """
    T, d = _tokens_and_dim(T, d, least=1)
    depth, sigma = _layer(depth, "depth"), _sigma(sigma)
    _checks.together(T=T, d=d, depth=depth, sigma=sigma)
    log = _log_product(T, depth, sigma, mean_removed, leading) + depth * np.log(d)
    with np.errstate(over="ignore"):
        return _finite(np.exp(log / 2), "depth")


# ------------------------------------------------------------------ shared parts


def _log_product(
    T: Floats, depth: Floats, sigma: Floats, mean_removed: bool, leading: bool
) -> Floats:
    """Return the log of the expected squared norm of a product of Markov matrices."""
    removed = _checks.flag(mean_removed, "mean_removed")
    log_square = 2 * np.log(sigma)
    if _checks.flag(leading, "leading"):
        if removed:
            log: Floats = np.log(T) + depth * (log_square - np.log(T))
        else:
            log = np.where(depth == 1, np.logaddexp(0, log_square), 0 * T)
        return log
    with np.errstate(divide="ignore", over="ignore"):  # a single token has no noise
        rate = (1 - 1 / T) / (1 + T / sigma / sigma)
        power = depth * np.log(rate)
    if removed:
        log = np.log(T) + power
    else:
        log = np.log1p(-rate / (1 - rate) * np.expm1(power) + (T - 1) * np.exp(power))
    return log


def _inverse(z: Floats, ratio: Floats, s: Floats) -> tuple[Floats, Floats]:
    """Return the y = w² at which softmax attention's C(w) is z, and dlog y/dlog z.

    At mean 1, C = (1 - a) y + a y/(1 - c a y) with a = c1²/k2: y is the smaller root of a
    quadratic, and y/(z (1 + z)) the S-transform of the squared singular values.
    """
    a = 1 / exprel(s**2)
    r = ratio * a
    root = np.sqrt((1 - r * z) ** 2 + 4 * r * z * a)
    y = 2 * z / (1 + r * z + root)
    return y, (1 - r * y) * z / (y * root)


def _edge(
    tokens: Callable[[Floats], tuple[Floats, Floats]], gamma: Floats, ratio: Floats, std: Floats
) -> Floats:
    """Return the edge of softmax attention's bulk, for logits of standard deviation ``std``.

    ``tokens`` gives the S-transform of the tokens' squared singular values at mean 1, and its slope
    in logarithms. As long as w(z) grows, x = (1 + z)/w + c2² w is convex in w.
    """
    shape = np.broadcast_shapes(gamma.shape, ratio.shape, std.shape)
    noise = exprel(std**2) - 1  # c2²/v

    def square(z: Floats) -> Floats:  # v w²
        result: Floats = z / (1 + ratio * z) * tokens(z)[0] ** 2
        return result

    def slope(log: Floats) -> Floats:  # of log w by log z
        z = np.exp(log)
        result: Floats = 0.5 / (1 + ratio * z) + tokens(z)[1]
        return result

    def excess(log: Floats) -> Floats:  # of the sign of dx/dz
        z = np.exp(log)
        result: Floats = z - slope(log) * (1 + z - noise * square(z))
        return result

    low = np.full(shape, -70.0)
    turn = bisect(lambda log: -slope(log), low, -low)
    z = np.exp(bisect(excess, low, turn))
    edge: Floats = std * (1 + z + noise * square(z)) / np.sqrt(square(z))
    return edge


def _spread(gamma: Floats, ratio: Floats, s: Floats) -> Floats:
    spread: Floats = 2 + gamma + ratio * (1 / exprel(s**2)) ** 2
    return spread


def _moderate(v: Floats) -> Floats:
    """Refuse logits whose exponential is beyond float64."""
    if not (v <= 700).all():
        raise ValueError(
            f"logit_std must leave the next layer's logits a variance of at most 700, got "
            f"{v.max():.6g}; pass a smaller one"
        )
    return v


def _finite(value: Floats, name: str) -> float | Floats:
    if not np.isfinite(value).all():
        raise ValueError(
            f"{name} must leave the result below 1.8e308, the largest float64; pass a smaller one"
        )
    return _checks.plain(value)


def _layer(layer: ArrayLike, name: str = "layer") -> Floats:
    return _checks.within(
        layer, name, 1, 1e6, is_whole=True, remedy=f"pass whole numbers: a {name} counts from 1"
    )


def _gamma(gamma: ArrayLike) -> Floats:
    return _checks.within(
        gamma,
        "gamma",
        1e-6,
        1,
        remedy="pass tokens/dimension: isometric tokens are no more than their dimension",
    )


def _ratio(ratio: ArrayLike) -> Floats:
    return _checks.within(
        ratio, "ratio", 0, open_low=True, remedy="pass tokens/head dimension, such as 4.0"
    )


def _head_ratio(ratio: ArrayLike) -> Floats:
    return _checks.within(ratio, "ratio", 1e-6, 1e6, remedy="pass tokens/head dimension")


def _head_dim(head_dim: ArrayLike) -> Floats:
    return _checks.within(
        head_dim, "head_dim", 1, is_whole=True, remedy="pass whole numbers, such as 64"
    )


def _tokens_and_dim(T: ArrayLike, d: ArrayLike, least: int = 2) -> tuple[Floats, Floats]:
    T = _checks.within(
        T, "T", least, is_whole=True, remedy=f"pass whole numbers of tokens, {least} or more"
    )
    d = _checks.within(d, "d", 1, is_whole=True, remedy="pass whole numbers, at least T")
    _checks.together(T=T, d=d)
    if (d < T).any():
        worst = np.argmax(T - d)
        tokens, dim = (float(x.ravel()[worst]) for x in np.broadcast_arrays(T, d))
        raise ValueError(
            f"T must be at most d, got T={tokens:.0f}, d={dim:.0f}: isometric tokens are no more "
            "than their dimension; take fewer tokens or a larger d"
        )
    return T, d


def _logit_std(logit_std: ArrayLike, most: float = 26) -> Floats:
    return _checks.within(
        logit_std,
        "logit_std",
        0,
        most,
        open_low=True,
        remedy="pass the standard deviation of a logit",
    )


def _tokens_and_sigma(T: ArrayLike, sigma: ArrayLike, least: int = 1) -> tuple[Floats, Floats]:
    remedy = f"pass whole numbers of tokens, {least} or more"
    T = _checks.within(T, "T", least, is_whole=True, remedy=remedy)
    sigma = _sigma(sigma)
    _checks.together(T=T, sigma=sigma)
    return T, sigma


def _sigma(sigma: ArrayLike) -> Floats:
    return _checks.within(
        sigma, "sigma", 0, open_low=True, remedy="pass std/mean of the raw entry, such as 1.0"
    )
