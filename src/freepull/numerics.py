"""Every transcendental function whose bits are promised, compiled once and called by both engines.

No fused multiply-add and no fastmath: each operation is rounded on its own (docs/mechanics.md, arithmetic).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from freepull import randomness
from freepull.compiling import jit, jit_apart


def zeros(shape: tuple[int, ...], kind: Any) -> NDArray[Any]:
    """Return zeros in memory that is there already: handed out at the first touch, it would make somebody wait."""
    made = np.empty(shape, kind)
    made.fill(0)
    return made


_ARM = np.uint64(randomness.ARM)
_STEP = np.uint64(randomness.STEP)
_ATTEMPT = np.uint64(randomness.ATTEMPT)
_M1, _M2 = np.uint64(randomness.MIX_FACTORS[0]), np.uint64(randomness.MIX_FACTORS[1])
_30, _27, _31, _11, _12 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11), np.uint64(12)
UNIT = 2.0**30
HALVINGS = 32


@jit
def mix(word: Any) -> Any:
    """`randomness.mix` on machine words."""
    word = (word ^ (word >> _30)) * _M1
    word = (word ^ (word >> _27)) * _M2
    return word ^ (word >> _31)


@jit
def uniform(word: Any) -> float:
    """`randomness.uniform`: the first 53 bits as a number in [0, 1)."""
    return float(np.int64(word >> _11)) * 2.0**-53


@jit
def uniform_open(word: Any) -> float:
    """Return a number strictly between 0 and 1."""
    return (float(np.int64(word >> _12)) + 0.5) * 2.0**-52


@jit
def exploration(alpha: float, t: int) -> float:
    """s_t = √(α·log t): the width of α-UCB's bonus at step t, before it is divided by √N."""
    return math.sqrt(alpha * math.log(float(t)))


@jit
def fill_exploration(alpha: float, table: Any) -> None:
    """s_t for t = 1, 2, …, entry by entry the same bits as `exploration` (entry 0 is never read)."""
    for t in range(1, table.shape[0]):
        table[t] = exploration(alpha, t)


@jit
def bernoulli_kl(p: float, q: float) -> float:
    """kl(p, q) between two coins, with 0·log 0 = 0."""
    total = 0.0
    if p > 0.0:
        total += p * math.log(p / q) if q > 0.0 else math.inf
    if p < 1.0:
        total += (1.0 - p) * math.log((1.0 - p) / (1.0 - q)) if q < 1.0 else math.inf
    return total


@jit
def kl_budget(c: float, t: int) -> float:
    """log t + c·log log t, the second term 0 for t < 3: what KL-UCB allows N·kl(μ̂, q) to reach."""
    total = math.log(float(t))
    if c != 0.0 and t >= 3:
        total += c * math.log(total)
    return total


@jit
def _near_index(mean: float, bound: float, guess: float) -> tuple[float, bool]:
    """About the q ≥ mean with kl(mean, q) = bound, from a guess if that lies between; and whether it is close.

    √kl is nearly a straight line in q, so Newton's method for it, from a parabola's answer, takes two or three steps. A
    step s leaves about s²/(q(1 − q)) at most, which is less than 1e-10 if it is close.
    """
    if mean == 0.0:
        return 1.0 - math.exp(-bound), False
    variance = mean * (1.0 - mean)
    r = math.sqrt(2.0 * variance * bound)
    bent = (1.0 - 2.0 * mean) * r / (3.0 * variance)
    x = min(r + r * bent if bent > 0.0 else r / (1.0 - bent), math.sqrt(0.5 * bound))
    if mean < guess < 1.0:
        x = guess - mean
    steep = x > 0.7 * (1.0 - mean)
    if steep:  # close to 1, where kl is nearly a logarithm: from above, where Newton's method cannot overshoot
        x = min(x, (1.0 - mean) * -math.expm1((mean * math.log(mean) - bound) / (1.0 - mean)))
    target, step = math.sqrt(bound), 1.0
    for _ in range(8):
        q = mean + x
        if q >= 1.0:
            break
        kl = max(bernoulli_kl(mean, q), 0.0)
        root = math.sqrt(kl)
        step = (kl - bound if steep else 2.0 * root * (root - target)) * q * (1.0 - q) / x
        x = min(max(x - step, 0.1 * x), 0.5 * (x + 1.0 - mean))
        if abs(step) < 1e-6:
            break
    q = mean + x
    return q, step * step < 1e-10 * min(variance, q * (1.0 - q))


@jit
def kl_index(mean: float, pulls: float, budget: float) -> float:
    """The largest q with pulls·kl(mean, q) ≤ budget among the 2³² points that halve [mean, 1] 32 times."""
    return kl_index_near(mean, pulls, budget, 0.0)


@jit_apart
def kl_index_near(mean: float, pulls: float, budget: float, near: float) -> float:
    """The same, looked for near a number, which changes nothing but the time.

    `_near_index` tells where to look; from there kl itself decides, in steps that double until the answer is enclosed
    and then halve. One point more makes kl larger by far more than its rounding, so there is one answer.
    """
    if budget <= 0.0 or mean >= 1.0:
        return mean
    bound = budget / pulls
    q, _ = _near_index(mean, bound, near)
    unit, last = (1.0 - mean) * 2.0**-HALVINGS, 2.0**HALVINGS
    guess = min(max(math.floor((q - mean) / unit), 0.0), last - 1.0) if q == q else 0.0
    low, high, stride = 0.0, last, 1.0
    if pulls * bernoulli_kl(mean, mean + unit * guess) <= budget:
        low = guess
        while low + stride < last and pulls * bernoulli_kl(mean, mean + unit * (low + stride)) <= budget:
            low += stride
            stride *= 2.0
        high = min(low + stride, last)
    else:
        high = guess
        while high - stride > 0.0 and pulls * bernoulli_kl(mean, mean + unit * (high - stride)) > budget:
            high -= stride
            stride *= 2.0
        low = max(high - stride, 0.0)
    while high - low > 1.0:
        middle = math.floor(0.5 * (low + high))
        if pulls * bernoulli_kl(mean, mean + unit * middle) <= budget:
            low = middle
        else:
            high = middle
    return mean + unit * low


@jit_apart
def kl_index_about(mean: float, pulls: float, budget: float, near: float) -> float:
    """The same to within 1e-9, in less time."""
    if budget <= 0.0 or mean >= 1.0:
        return mean
    q, close = _near_index(mean, budget / pulls, near)
    return q if close else kl_index_near(mean, pulls, budget, near)


@jit
def normal_quantile(p: float) -> float:
    """Φ⁻¹(p) for 0 < p < 1, to about 1e-16 (Wichura 1988, algorithm AS 241, PPND16)."""
    q = p - 0.5
    if abs(q) <= 0.425:
        r = 0.180625 - q * q
        top = r * 2509.0809287301226727 + 33430.575583588128105
        top = ((top * r + 67265.770927008700853) * r + 45921.953931549871457) * r + 13731.693765509461125
        top = ((top * r + 1971.5909503065514427) * r + 133.14166789178437745) * r + 3.387132872796366608
        low = r * 5226.495278852545925 + 28729.085735721942674
        low = ((low * r + 39307.89580009271061) * r + 21213.794301586595867) * r + 5394.1960214247511077
        low = ((low * r + 687.1870074920579083) * r + 42.313330701600911252) * r + 1.0
        return q * top / low
    r = math.sqrt(-math.log(p if q < 0.0 else 1.0 - p))
    if r <= 5.0:
        r -= 1.6
        top = r * 7.7454501427834140764e-4 + 0.0227238449892691845833
        top = ((top * r + 0.24178072517745061177) * r + 1.27045825245236838258) * r + 3.64784832476320460504
        top = ((top * r + 5.7694972214606914055) * r + 4.6303378461565452959) * r + 1.42343711074968357734
        low = r * 1.05075007164441684324e-9 + 5.475938084995344946e-4
        low = ((low * r + 0.0151986665636164571966) * r + 0.14810397642748007459) * r + 0.68976733498510000455
        low = ((low * r + 1.6763848301838038494) * r + 2.05319162663775882187) * r + 1.0
    else:
        r -= 5.0
        top = r * 2.01033439929228813265e-7 + 2.71155556874348757815e-5
        top = ((top * r + 0.0012426609473880784386) * r + 0.026532189526576123093) * r + 0.29656057182850489123
        top = ((top * r + 1.7848265399172913358) * r + 5.4637849111641143699) * r + 6.6579046435011037772
        low = r * 2.04426310338993978564e-15 + 1.4215117583164458887e-7
        low = ((low * r + 1.8463183175100546818e-5) * r + 7.868691311456132591e-4) * r + 0.0148753612908506148525
        low = ((low * r + 0.13692988092273580531) * r + 0.59983220655588793769) * r + 1.0
    return -top / low if q < 0.0 else top / low


def normal_edges(bins: int) -> NDArray[np.float64]:
    """Φ⁻¹(i/bins) for i = 0…bins."""
    plain: Any = getattr(normal_quantile, "py_func", normal_quantile)
    return np.array([-math.inf, *(plain(i / bins) for i in range(1, bins)), math.inf])


@jit
def gamma_draw(shape: float, key: Any) -> float:
    """A Gamma(shape, 1) variate for shape ≥ 1 (Marsaglia and Tsang 2000), its attempts keyed by ``key``."""
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        z = normal_quantile(uniform_open(mix(key)))
        u = uniform_open(mix(key + _STEP))
        key += _STEP + _STEP
        v = 1.0 + c * z
        if v <= 0.0:
            continue
        v = v * v * v
        if u < 1.0 - 0.0331 * (z * z) * (z * z):
            return d * v
        if math.log(u) < 0.5 * z * z + d * (1.0 - v + math.log(v)):
            return d * v


@jit
def beta_draw(a: float, b: float, key: Any) -> float:
    """A Beta(a, b) variate from two Gammas; shapes below 1 go through logarithms, where they cannot underflow."""
    second = key + _ATTEMPT
    if a >= 1.0 and b >= 1.0:
        x = gamma_draw(a, key)
        return x / (x + gamma_draw(b, second))
    third, fourth = second + _ATTEMPT, second + _ATTEMPT + _ATTEMPT
    log_x = math.log(gamma_draw(a + 1.0, key)) + math.log(uniform_open(mix(third))) / a
    log_y = math.log(gamma_draw(b + 1.0, second)) + math.log(uniform_open(mix(fourth))) / b
    return 1.0 / (1.0 + math.exp(log_y - log_x))


@jit
def _beta_fraction(a: float, b: float, x: float) -> float:
    """The continued fraction of the incomplete Beta function, for x below (a + 1)/(a + b + 2) (Lentz's method)."""
    c, d = 1.0, 1.0 / (1.0 - (a + b) * x / (a + 1.0))
    found = d
    for m in range(1, 10_000):
        n = float(m)
        step = n * (b - n) * x / ((a + 2.0 * n - 1.0) * (a + 2.0 * n))
        d, c = 1.0 / (1.0 + step * d), 1.0 + step / c
        found *= d * c
        step = -(a + n) * (a + b + n) * x / ((a + 2.0 * n) * (a + 2.0 * n + 1.0))
        d, c = 1.0 / (1.0 + step * d), 1.0 + step / c
        found *= d * c
        if abs(d * c - 1.0) < 1e-14:
            break
    return found


@jit
def beta_upper(a: float, b: float, log_tail: float) -> float:
    """The q that a Beta(a, b) variate exceeds with probability exp(log_tail), for a, b ≥ 1, to about 1e-12.

    The logarithm of that probability is concave in q, so Newton's method comes down to it after its first step.
    """
    if log_tail >= 0.0:
        return 0.0
    whole = a + b
    scale = math.lgamma(whole) - math.lgamma(a) - math.lgamma(b)
    mean = a / whole
    q = mean - normal_quantile(math.exp(log_tail)) * math.sqrt(mean * (1.0 - mean) / (whole + 1.0))
    q = min(max(q, 0.5 * mean), 0.5 + 0.5 * mean)
    for _ in range(60):
        front = scale + a * math.log(q) + b * math.log1p(-q)
        if q < (a + 1.0) / (whole + 2.0):
            rest = max(1.0 - math.exp(front) * _beta_fraction(a, b, q) / a, 1e-300)
            tail = math.log(rest)
        else:
            tail = front + math.log(_beta_fraction(b, a, 1.0 - q) / b)
        step = (tail - log_tail) * math.exp(tail - front) * q * (1.0 - q)
        new = q + step
        if new >= 1.0:
            new = 0.5 + 0.5 * q
        elif new <= 0.0:
            new = 0.5 * q
        step, q = new - q, new
        if abs(step) < 1e-6 * min(q, 1.0 - q) or q >= 1.0 - 1e-15:  # the next one would be a square of this
            break
    return q


@jit
def fill_keys(keys: Any, seed: Any, runs: Any, lane_of: Any) -> None:
    """`randomness.key` for every (run, agent), by purpose (row) and lane (column)."""
    agents = lane_of.shape[0] // runs.shape[0]
    start = mix(seed + _STEP)
    for r in range(runs.shape[0]):
        of_run = mix(start + _STEP * mix(runs[r] + _ARM))
        for m in range(agents):
            of_agent = mix(of_run + _STEP * mix(np.uint64(m) + _ARM))
            for row in range(keys.shape[0]):
                keys[row, lane_of[r * agents + m]] = mix(of_agent + _STEP * mix(np.uint64(row + 1) + _ARM))


@jit
def acting_chance(rate: float) -> float:
    """1 − exp(−rate): the probability that an agent of this rate acts in a step."""
    return -math.expm1(-rate)


@jit
def lognormal_rate(median: float, sigma: float, silent: float, key: Any) -> float:
    """An agent's rate: median·exp(σ·Z), or 0 for the share who never come, drawn from the agent's key."""
    if uniform(mix(key + _STEP)) < silent:
        return 0.0
    return median * math.exp(sigma * normal_quantile(uniform_open(mix(key + _STEP + _STEP))))


@jit
def decision_key(key: Any, t: Any, arm: Any) -> Any:
    """The key for what an agent draws about one arm at step t."""
    return mix(key + _STEP * np.uint64(t)) + _ARM * np.uint64(arm)


BERNOULLI, BETA, TRUNCATED_NORMAL, TABLE = 0, 1, 2, 3


@jit
def reward_units(kind: int, p: Any, levels: Any, values: Any, word: Any) -> Any:
    """The reward that a stack's word stands for, rounded half-even to units of 2⁻³⁰.

    ``p`` holds the stream's five parameters, ``levels`` and ``values`` the table of a law on given values
    (see `freepull.rewards`, which writes them).
    """
    if kind == BERNOULLI:
        return (1 << 30) if np.int64(word >> _11) < np.int64(p[0]) else 0
    if kind == TABLE:
        first, last = np.int64(p[0]), np.int64(p[1])
        rank = np.int64(word >> _11)
        while first < last:
            middle = (first + last) >> 1
            if rank < levels[middle]:
                last = middle
            else:
                first = middle + 1
        return np.int64(np.rint(values[first] * UNIT))
    if kind == BETA:
        x = p[2] if p[2] >= 0.0 else beta_draw(p[0], p[1], word)
    else:
        x = p[1] + p[2] * p[0] * normal_quantile(p[3] + uniform_open(word) * p[4])
    return np.int64(np.rint(min(max(x, 0.0), 1.0) * UNIT))


@jit
def highest_index(means: Any, bonus: float, t: float) -> float:
    """c with Σ_k bonus/(c − μ_k)² = t, bonus = α·log t: what all indices of one agent stand at.

    The sum is convex and falls with c, so Newton's method from below stays below.
    """
    K = means.shape[0]
    best = means[0]
    for k in range(1, K):
        best = max(best, means[k])
    c = best + math.sqrt(bonus / t)
    for _ in range(60):
        total, slope = 0.0, 0.0
        for k in range(K):
            inverse = 1.0 / (c - means[k])
            part = bonus * inverse * inverse
            total += part
            slope += part * inverse
        step = 0.5 * (total - t) / slope
        c += step
        if step <= 1e-9 * (c - best):
            break
    return float(c)
