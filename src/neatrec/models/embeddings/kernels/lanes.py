"""Operations on the numbers of one position's partners and negatives, eight at a time, for compiled code.

The numbers of a position fill whole registers; `slots` (see `layout.chunks`) says in its type how many.
"""

from __future__ import annotations

from typing import Any

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from neatrec.models.embeddings.kernels.bands import Sums, gathered
from neatrec.models.embeddings.kernels.emit import INT64, Emit


def dot_with(emit: Emit, mine: list[Any], other: Any) -> Any:
    """The product of a vector in registers and a row."""
    sums = [emit.all(0.0), emit.all(0.0)]
    for chunk, value in enumerate(mine):
        sums[chunk % 2] = emit.multiply_add(value, emit.load(other, chunk), sums[chunk % 2])
    return emit.sum(emit.builder.fadd(*sums))


@intrinsic
def exponentials(typing_context: Any, to: Any, i: Any, source: Any, j: Any, slots: Any) -> Any:
    """to[i] = e^source[j]"""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        emit = Emit(context, builder)
        target, row = emit.row(to, arguments[0], i, arguments[1]), emit.row(source, arguments[2], j, arguments[3])
        for chunk in range(len(slots)):
            emit.store(emit.exponential(emit.load(row, chunk)), target, chunk)
        return emit.nothing()

    return types.void(to, i, source, j, slots), code


@intrinsic
def logarithms(typing_context: Any, to: Any, i: Any, source: Any, j: Any, slots: Any) -> Any:
    """to[i] = log source[j]"""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        emit = Emit(context, builder)
        target, row = emit.row(to, arguments[0], i, arguments[1]), emit.row(source, arguments[2], j, arguments[3])
        for chunk in range(len(slots)):
            emit.store(emit.logarithm(emit.load(row, chunk)), target, chunk)
        return emit.nothing()

    return types.void(to, i, source, j, slots), code


@intrinsic
def products(
    typing_context: Any,
    to: Any,
    r: Any,
    x: Any,
    i: Any,
    table: Any,
    negative: Any,
    group: Any,
    count: Any,
    chunks: Any,
    slots: Any,
) -> Any:
    """to[r, k] = x[i] . table[negative[group, k]] for k < count, 0 beyond"""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        emit = Emit(context, builder)
        target = emit.row(to, arguments[0], r, arguments[1])
        own = emit.row(x, arguments[2], i, arguments[3])
        numbers = builder.bitcast(emit.row(negative, arguments[5], group, arguments[6]), INT64.as_pointer())
        mine = [emit.load(own, chunk) for chunk in range(len(chunks))]

        def product(k: Any) -> Any:
            number = builder.load(builder.gep(numbers, [k]))
            return dot_with(emit, mine, emit.row(table, arguments[4], types.int64, number))

        for chunk, value in enumerate(gathered(emit, len(slots), emit.whole(count, arguments[7]), 0.0, product)):
            emit.store(value, target, chunk)
        return emit.nothing()

    return types.void(to, r, x, i, table, negative, group, count, chunks, slots), code


@intrinsic
def add_sigmoids(
    typing_context: Any, to: Any, r: Any, source: Any, j: Any, shift: Any, real: Any, q: Any, slots: Any
) -> Any:
    """With x = source[j] + shift: to[r] += real[q] sigmoid(x)

    Returns the sums of real[q] sigmoid(x) and of real[q] log(1 + e^x).
    """
    result = types.UniTuple(types.float32, 2)

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        emit = Emit(context, builder)
        target, row, counts = (
            emit.row(kind, arguments[n], place, arguments[n + 1])
            for n, kind, place in ((0, to, r), (2, source, j), (5, real, q))
        )
        sums = [emit.all(0.0), emit.all(0.0)]
        for chunk in range(len(slots)):
            likely, cost = emit.sigmoid_and_softplus(builder.fadd(emit.load(row, chunk), emit.all(arguments[4])))
            counted = emit.load(counts, chunk)
            here = builder.fmul(likely, counted)
            emit.store(builder.fadd(emit.load(target, chunk), here), target, chunk)
            sums = [builder.fadd(sums[0], here), emit.multiply_add(cost, counted, sums[1])]
        return context.make_tuple(builder, result, [emit.sum(value) for value in sums])

    return result(to, r, source, j, types.float32, real, q, slots), code


@intrinsic
def add_rankings(
    typing_context: Any,
    to: Any,
    r: Any,
    source: Any,
    j: Any,
    mine: Any,
    times: Any,
    real: Any,
    q: Any,
    logistic: Any,
    slots: Any,
) -> Any:
    """With s = sigmoid(mine - source[j]): to[r] += real[q] times w, where w = s (1 - s), or 1 - s where `logistic`

    Returns the sums of real[q] times w and of the losses, 1 - s or -log s.
    """
    result = types.UniTuple(types.float32, 2)

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        emit = Emit(context, builder)
        target, row, counts = (
            emit.row(kind, arguments[n], place, arguments[n + 1])
            for n, kind, place in ((0, to, r), (2, source, j), (6, real, q))
        )
        sums = [emit.all(0.0), emit.all(0.0)]
        for chunk in range(len(slots)):
            # 1 - s = sigmoid(-x) and -log s = log(1 + e^-x)
            miss, cost = emit.sigmoid_and_softplus(builder.fsub(emit.load(row, chunk), emit.all(arguments[4])))
            printed = builder.fmul(miss, builder.fsub(emit.all(1.0), miss))
            weight = builder.select(arguments[8], miss, printed)
            loss = builder.select(arguments[8], cost, miss)
            counted = builder.fmul(emit.load(counts, chunk), emit.all(arguments[5]))
            here = builder.fmul(weight, counted)
            emit.store(builder.fadd(emit.load(target, chunk), here), target, chunk)
            sums = [builder.fadd(sums[0], here), emit.multiply_add(loss, counted, sums[1])]
        return context.make_tuple(builder, result, [emit.sum(value) for value in sums])

    kinds = (to, r, source, j, types.float32, types.float32, real, q, types.boolean, slots)
    return result(*kinds), code


@intrinsic
def take_far(
    typing_context: Any,
    to: Any,
    i: Any,
    weight: Any,
    r: Any,
    table: Any,
    negative: Any,
    group: Any,
    count: Any,
    chunks: Any,
) -> Any:
    """to[i] -= sum over k < count of weight[r, k] table[negative[group, k]]"""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        emit = Emit(context, builder)
        target, weights, numbers = (
            emit.row(kind, arguments[n], place, arguments[n + 1])
            for n, kind, place in ((0, to, i), (2, weight, r), (5, negative, group))
        )
        numbers = builder.bitcast(numbers, INT64.as_pointer())
        sums = Sums(emit, target, len(chunks))
        with cgutils.for_range(builder, emit.whole(count, arguments[7])) as loop:
            share = builder.fneg(builder.load(emit.element(weights, loop.index)))
            row = emit.row(table, arguments[4], types.int64, builder.load(builder.gep(numbers, [loop.index])))
            sums.add(share, row)
        sums.store()
        return emit.nothing()

    return types.void(to, i, weight, r, table, negative, group, count, chunks), code


@intrinsic
def take_near(
    typing_context: Any, to: Any, r: Any, weight: Any, column: Any, rows: Any, line: Any, count: Any, chunks: Any
) -> Any:
    """to[r] -= sum over n < count of weight[n, column] rows[line[0, n]]"""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        emit = Emit(context, builder)
        target = emit.row(to, arguments[0], r, arguments[1])
        numbers = builder.bitcast(emit.row(line, arguments[5], types.int64, INT64(0)), INT64.as_pointer())
        place = emit.whole(column, arguments[3])
        sums = Sums(emit, target, len(chunks))
        with cgutils.for_range(builder, emit.whole(count, arguments[6])) as loop:
            weights = emit.row(weight, arguments[2], types.int64, loop.index)
            share = builder.fneg(builder.load(emit.element(weights, place)))
            sums.add(share, emit.row(rows, arguments[4], types.int64, builder.load(builder.gep(numbers, [loop.index]))))
        sums.store()
        return emit.nothing()

    return types.void(to, r, weight, column, rows, line, count, chunks), code
