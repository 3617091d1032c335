r"""The theory of the course as functions: what to expect before anything is sampled.

All of them take numbers or arrays (which broadcast) and return a float for numbers and an array for
arrays. T counts tokens (whole, at least 1, and at least 2 where there is a second value); sigma is
std/mean of the raw entry of a random Markov matrix (above 0); logit_std is the standard deviation s
of a logit of softmax attention (above 0, at most 26). Every formula but that of `softmax_sigma` is
a limit for large T: read it where T is well above sigma².

A torch tensor, a string or an object raises `TypeError`; a number outside its range, or arrays that
don't broadcast, raise `ValueError`.
"""

import numpy as np
from numpy.typing import ArrayLike

from . import _checks
from ._checks import Floats

__all__ = [
    "attention_first_singular_value",
    "first_singular_value",
    "frobenius_norm",
    "heavy_tail_exponent",
    "pareto_tail_index",
    "second_eigenvalue",
    "second_singular_value",
    "softmax_sigma",
    "spectral_gap",
    "spike_singular_value",
    "stable_rank",
    "stationary_distance",
    "stray_size",
    "walk_distance",
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

    .. math:: s_1(A) - s_2(A) \approx \sqrt{1 + \sigma^2/T} - 2\sigma/\sqrt{T}

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

    .. math:: \mathrm{sr}(A) = \|A\|_F^2/\|A\|^2 \approx (1 + \sigma^2)/(1 + \sigma^2/T)

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

    .. math:: s_2 \sim T^{\,2/\alpha - 1} \quad (2 < \alpha < 4), \qquad s_2 \sim T^{-1/2} \quad
       (\alpha \ge 4)

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
       \frac{\sigma^k\, T^{(1-k)/2}}{\sqrt{2\pi}} \qquad (k \ge 2)

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

    .. math:: s_1(A) \approx \sqrt{1 + \sigma^2/T + s^4/(2 d_k)}, \qquad \sigma^2 = e^{s^2} - 1

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
    head_dim = _checks.within(
        head_dim, "head_dim", 1, is_whole=True, remedy="pass whole numbers, such as 64"
    )
    s = _logit_std(logit_std)
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
    ratio = _checks.within(
        ratio, "ratio", 0, open_low=True, remedy="pass tokens/head dimension, such as 4.0"
    )
    _checks.together(second=second, ratio=ratio)
    return _checks.plain(np.abs(second) * np.sqrt(2 * ratio))


def _logit_std(logit_std: ArrayLike) -> Floats:
    return _checks.within(
        logit_std,
        "logit_std",
        0,
        26,
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
