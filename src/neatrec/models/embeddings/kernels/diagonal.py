"""Gaussians with a variance for each dimension: the pieces that are worth vector instructions, for compiled code.

A Gaussian is a row of means and a row of variances. Padding has mean 0 and variance 1 everywhere: it adds the same to
every likelihood, and what it adds to a gradient is wiped out by the caller.
"""

from __future__ import annotations

from typing import Any

from numba import types
from numba.extending import intrinsic

from neatrec.models.embeddings.kernels.emit import FLOAT, Emit


@intrinsic
def diagonal_likelihood(
    typing_context: Any, x: Any, i: Any, s: Any, m: Any, y: Any, j: Any, t: Any, k: Any, chunks: Any
) -> Any:
    """-1/2 sum of log(s[m] + t[k]) + (x[i] - y[j])^2 / (s[m] + t[k])"""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        emit = Emit(context, builder)
        means, spread, others, other_spread = (
            emit.row(kind, arguments[n], place, arguments[n + 1])
            for n, kind, place in ((0, x, i), (2, s, m), (4, y, j), (6, t, k))
        )
        total = emit.all(0.0)
        for chunk in range(len(chunks)):
            z = builder.fsub(emit.load(means, chunk), emit.load(others, chunk))
            variance = builder.fadd(emit.load(spread, chunk), emit.load(other_spread, chunk))
            ratio = builder.fdiv(builder.fmul(z, z), variance)
            total = builder.fadd(total, builder.fadd(emit.logarithm(variance), ratio))
        return builder.fmul(emit.sum(total), FLOAT(-0.5))

    return types.float32(x, i, s, m, y, j, t, k, chunks), code


@intrinsic
def ascend(
    typing_context: Any,
    gradient: Any,
    spread_gradient: Any,
    r: Any,
    weight: Any,
    x: Any,
    i: Any,
    s: Any,
    m: Any,
    y: Any,
    j: Any,
    t: Any,
    k: Any,
    chunks: Any,
) -> Any:
    """Add weight (not 0) times the gradient of the likelihood by x[i] and log s[m]; z = x[i] - y[j], S = s[m] + t[k]:

    gradient[r] -= weight z / S;  spread_gradient[r] += weight s[m] (z^2 / S - 1) / 2 S
    """

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        emit = Emit(context, builder)
        target, spread_target = (
            emit.row(kind, arguments[n], r, arguments[2]) for n, kind in ((0, gradient), (1, spread_gradient))
        )
        means, spread, others, other_spread = (
            emit.row(kind, arguments[n], place, arguments[n + 1])
            for n, kind, place in ((4, x, i), (6, s, m), (8, y, j), (10, t, k))
        )
        weights = emit.all(arguments[3])
        for chunk in range(len(chunks)):
            own = emit.load(spread, chunk)
            z = builder.fsub(emit.load(means, chunk), emit.load(others, chunk))
            inverse = builder.fdiv(weights, builder.fadd(own, emit.load(other_spread, chunk)))
            pull = builder.fmul(z, inverse)
            emit.store(builder.fsub(emit.load(target, chunk), pull), target, chunk)
            excess = builder.fsub(builder.fdiv(builder.fmul(z, pull), weights), emit.all(1.0))
            slope = builder.fmul(builder.fmul(excess, inverse), builder.fmul(own, emit.all(0.5)))
            emit.store(builder.fadd(emit.load(spread_target, chunk), slope), spread_target, chunk)
        return emit.nothing()

    kinds = (gradient, spread_gradient, r, types.float32, x, i, s, m, y, j, t, k, chunks)
    return types.void(*kinds), code
