"""Arithmetic of the compiled kernels: on rows of tables (an array and a row number), and on flat arrays of numbers."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numpy import float32 as f32
from numpy import int32 as i32

from neatrec.compiled import FUSED, LOG_2_HIGH, LOG_2_LOW, RELAXED, compiled, logarithm, prefetch_to_second_level
from neatrec.models.embeddings.kernels.intrinsics import LANES, load, store, total, zeros

CACHE_LINE = 16  # floats
Floats = npt.NDArray[np.float32]

# (e^x - 1 - x) / x^2 for |x| <= log(2) / 2: least maximum error over the interval
E0, E1, E2, E3, E4 = (
    f32(c)
    for c in (0.5000000095127202, 0.16666518898698462, 0.0416662059879702, 0.008368882266741578, 0.001395047876600549)
)
INVERSE_LOG_2 = f32(1.0 / math.log(2.0))


# ---- rows


class Line(NamedTuple):
    """A line of a unit: row i of its vectors as they were, and of their gradients."""

    x: Floats
    gradient: Floats
    i: int


class RowWeights(NamedTuple):
    """The first `size` numbers of rows of a table, and the weight of each."""

    number: npt.NDArray[np.int64]
    weight: Floats
    size: int


@compiled(forceinline=True, fastmath=RELAXED)
def prefetch_row(table, row, dims):
    """Ask early for a whole row, its tail included."""
    for n in range(0, LANES * (len(dims) + 1), CACHE_LINE):
        prefetch_to_second_level(table, row * table.shape[1] + n)


@compiled(forceinline=True, fastmath=RELAXED)
def dot(a, i, b, j, dims):
    """sum a[i] b[j]"""
    sums = zeros()
    for c in range(len(dims)):
        sums = sums + load(a, i, c) * load(b, j, c)
    return total(sums)


@compiled(forceinline=True)
def five(numbers, k):
    """numbers[k] to numbers[k + 4]: a tuple, which the compiler keeps in registers."""
    return numbers[k], numbers[k + 1], numbers[k + 2], numbers[k + 3], numbers[k + 4]


@compiled(forceinline=True, fastmath=RELAXED)
def dots(out, a, i, b, rows, dims):
    """out[k] = sum a[i] b[rows[k]]"""
    whole = len(rows) // 5 * 5
    for k in range(0, whole, 5):
        row, sums = five(rows, k), (zeros(), zeros(), zeros(), zeros(), zeros())
        for c in range(len(dims)):
            x = load(a, i, c)
            sums = (
                sums[0] + x * load(b, row[0], c),
                sums[1] + x * load(b, row[1], c),
                sums[2] + x * load(b, row[2], c),
                sums[3] + x * load(b, row[3], c),
                sums[4] + x * load(b, row[4], c),
            )
        for n in range(5):
            out[k + n] = total(sums[n])
    for k in range(whole, len(rows)):
        out[k] = dot(a, i, b, rows[k], dims)


@compiled(forceinline=True, fastmath=RELAXED)
def square_distance(a, i, b, j, dims):
    """sum (a[i] - b[j])^2"""
    sums = zeros()
    for c in range(len(dims)):
        z = load(a, i, c) - load(b, j, c)
        sums = sums + z * z
    return total(sums)


@compiled(forceinline=True, fastmath=RELAXED)
def copy_row(to, i, source, j, dims):
    """to[i] = source[j]"""
    for c in range(len(dims)):
        store(to, i, c, load(source, j, c))


@compiled(forceinline=True, fastmath=RELAXED)
def clear_row(to, i, dims):
    """to[i] = 0"""
    for c in range(len(dims)):
        store(to, i, c, zeros())


@compiled(forceinline=True, fastmath=RELAXED)
def set_row(to, i, scale, source, j, dims):
    """to[i] = scale source[j]"""
    for c in range(len(dims)):
        store(to, i, c, scale * load(source, j, c))


@compiled(forceinline=True, fastmath=RELAXED)
def add_row(to, i, scale, source, j, dims):
    """to[i] += scale source[j]"""
    for c in range(len(dims)):
        store(to, i, c, load(to, i, c) + scale * load(source, j, c))


@compiled(forceinline=True, fastmath=RELAXED)
def add_rows(to, i, rows, weights, dims):
    """to[i] += sum over n < size of weight[n] rows[number[n]]; the sum of squares of to[i] comes back"""
    whole = weights.size // 5 * 5
    for k in range(0, whole, 5):
        number, weight = five(weights.number, k), five(weights.weight, k)
        for c in range(len(dims)):
            sums = load(to, i, c)
            for n in range(5):
                sums = sums + weight[n] * load(rows, number[n], c)
            store(to, i, c, sums)
    for k in range(whole, weights.size):
        add_row(to, i, weights.weight[k], rows, weights.number[k], dims)
    return dot(to, i, to, i, dims)


@compiled(forceinline=True, fastmath=RELAXED)
def repel(table, row, line, force, step, dims):
    """z = x[i] - table[row];  gradient[i] += force z;  table[row] -= step z"""
    for c in range(len(dims)):
        here = load(table, row, c)
        z = load(line.x, line.i, c) - here
        store(line.gradient, line.i, c, load(line.gradient, line.i, c) + force * z)
        store(table, row, c, here - step * z)


@compiled(forceinline=True, fastmath=RELAXED)
def exchange(table, rows, line, weights, steps, dims):
    """For each k, one after the other: gradient[i] += weights[k] table[rows[k]];  table[rows[k]] += steps[k] x[i]"""
    whole = len(rows) // 5 * 5
    for k in range(0, whole, 5):
        row, weight, step = five(rows, k), five(weights, k), five(steps, k)
        for c in range(len(dims)):
            x, gradient = load(line.x, line.i, c), load(line.gradient, line.i, c)
            for n in range(5):
                here = load(table, row[n], c)
                gradient = gradient + weight[n] * here
                store(table, row[n], c, here + step[n] * x)
            store(line.gradient, line.i, c, gradient)
    for k in range(whole, len(rows)):
        add_row(line.gradient, line.i, weights[k], table, rows[k], dims)
        add_row(table, rows[k], steps[k], line.x, line.i, dims)


# ---- numbers


@compiled(inline="always")
def inverse_root(x):
    """1 / sqrt(x)"""
    return f32(1) / np.sqrt(x)


@compiled(inline="always")
def clipped(x, low, high):
    return min(max(x, low), high)


@compiled(forceinline=True, fastmath=FUSED)
def exponential(x):
    """e^x for -87 <= x <= 88; beyond, the value at the bound."""
    x = clipped(x, f32(-87), f32(88))
    whole = np.rint(x * INVERSE_LOG_2)
    m = x - whole * LOG_2_HIGH - whole * LOG_2_LOW
    value = m + m * m * (E0 + m * (E1 + m * (E2 + m * (E3 + m * E4))))
    power = i32((i32(whole) + i32(127)) << i32(23)).view(f32)
    return (value + f32(1)) * power


@compiled(forceinline=True, fastmath=FUSED)
def sigmoid_and_loss(x):
    """1 / (1 + e^-x) and log(1 + e^x)"""
    small = exponential(-abs(x))  # at most 1
    share = f32(1) / (f32(1) + small)
    return share if x >= f32(0) else small * share, max(x, f32(0)) + logarithm(f32(1) + small)


@compiled(fastmath=FUSED)
def exponentials(values):
    """values = e^values, in place."""
    for n in range(len(values)):
        values[n] = exponential(values[n])


@compiled(fastmath=FUSED)
def logarithms(values):
    """values = log values, in place."""
    for n in range(len(values)):
        values[n] = logarithm(values[n])


@compiled(fastmath=FUSED)
def sigmoids(values, losses):
    """losses = log(1 + e^values), then values = sigmoid(values)."""
    for n in range(len(values)):
        values[n], losses[n] = sigmoid_and_loss(values[n])
