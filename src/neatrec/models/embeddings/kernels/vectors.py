"""The pieces of the skip-gram kernels that are worth vector instructions of their own, for compiled code.

Numbers about pairs lie as `bands` says.
"""

from __future__ import annotations

from typing import Any

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from neatrec.models.embeddings.kernels.bands import (
    Band,
    Sums,
    first_row,
    for_partners,
    gathered,
    gathered_pairs,
    is_no_pair,
)
from neatrec.models.embeddings.kernels.emit import FLOAT, INT32, INT64, LANES, VECTOR, Emit
from neatrec.models.embeddings.kernels.lanes import dot_with
from neatrec.models.embeddings.kernels.layout import SQUARES

LEFT_OUT = -1e30
"""The product of a negative that is left out."""


@intrinsic
def near_sigmoids(
    typing_context: Any,
    weight: Any,
    loss: Any,
    i: Any,
    low: Any,
    high: Any,
    a: Any,
    b: Any,
    item: Any,
    category: Any,
    chunks: Any,
    near: Any,
) -> Any:
    """About line i and the lines after it, with s = a[i] . b[i + 1 + o] for low <= o < high:

    weight[i, o] = 1 - sigmoid(s);  loss[i, o] = -log sigmoid(s); both 0 where the two make no pair.
    """

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        emit = Emit(context, builder)
        line = emit.whole(i, arguments[2])
        weights, losses, own = (
            emit.row(kind, arguments[n], types.int64, line) for n, kind in ((0, weight), (1, loss), (5, a))
        )
        items, categories = (first_row(emit, kind, arguments[n], INT32) for n, kind in ((7, item), (8, category)))
        start, stop = emit.whole(low, arguments[3]), emit.whole(high, arguments[4])
        mine = [emit.load(own, chunk) for chunk in range(len(chunks))]

        def product(o: Any) -> Any:
            number = builder.add(builder.add(line, INT64(1)), o)
            return dot_with(emit, mine, emit.row(b, arguments[6], types.int64, number))

        for chunk, s in enumerate(gathered(emit, len(near), stop, 0.0, product)):
            none = is_no_pair(emit, items, categories, line, chunk, start, stop)
            likely, cost = emit.sigmoid_and_softplus(builder.fneg(s))
            emit.store(builder.select(none, emit.all(0.0), likely), weights, chunk)
            emit.store(builder.select(none, emit.all(0.0), cost), losses, chunk)
        return emit.nothing()

    return types.void(weight, loss, i, low, high, a, b, item, category, chunks, near), code


@intrinsic
def far_sigmoids(
    typing_context: Any,
    weight: Any,
    group: Any,
    table: Any,
    negative: Any,
    count: Any,
    query: Any,
    x: Any,
    i: Any,
    times: Any,
    chunks: Any,
    slots: Any,
) -> Any:
    """weight[group, k] = -times sigmoid(s), s = x[i] . table[negative[group, k]], 0 where the negative is the query

    Returns the sum of -times log sigmoid(-s).
    """

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        emit = Emit(context, builder)
        weights = emit.row(weight, arguments[0], group, arguments[1])
        numbers = builder.bitcast(emit.row(negative, arguments[3], group, arguments[1]), INT64.as_pointer())
        own = emit.row(x, arguments[6], i, arguments[7])
        mine = [emit.load(own, chunk) for chunk in range(len(chunks))]
        asked, stop = emit.whole(query, arguments[5]), emit.whole(count, arguments[4])

        def product(k: Any) -> Any:
            number = builder.load(builder.gep(numbers, [k]))
            s = dot_with(emit, mine, emit.row(table, arguments[2], types.int64, number))
            return builder.select(builder.icmp_signed("==", number, asked), FLOAT(LEFT_OUT), s)

        scale, total = emit.all(arguments[8]), emit.all(0.0)
        for chunk, s in enumerate(gathered(emit, len(slots), stop, LEFT_OUT, product)):
            out = builder.fcmp_ordered("==", s, emit.all(LEFT_OUT))
            likely, cost = emit.sigmoid_and_softplus(s)
            share = builder.fmul(likely, builder.fneg(scale))
            emit.store(builder.select(out, emit.all(0.0), share), weights, chunk)
            total = emit.multiply_add(scale, builder.select(out, emit.all(0.0), cost), total)
        return emit.sum(total)

    kinds = (weight, group, table, negative, count, query, x, i, types.float32, chunks, slots)
    return types.float32(*kinds), code


@intrinsic
def far_steps(
    typing_context: Any,
    weight: Any,
    step: Any,
    squares: Any,
    group: Any,
    table: Any,
    negative: Any,
    count: Any,
    query: Any,
    x: Any,
    i: Any,
    times: Any,
    share: Any,
    rate: Any,
    chunks: Any,
    slots: Any,
) -> Any:
    """As `far_sigmoids`, and the steps of row-wise Adagrad that follow from it: with w = weight[group, k]

    squares[group, k] = the row's sum of squares + w^2 share;  step[group, k] = w rate / sqrt(squares[group, k])
    """

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        emit = Emit(context, builder)
        weights, steps, sums = (
            emit.row(kind, arguments[n], group, arguments[3]) for n, kind in enumerate((weight, step, squares))
        )
        numbers = builder.bitcast(emit.row(negative, arguments[5], group, arguments[3]), INT64.as_pointer())
        own = emit.row(x, arguments[8], i, arguments[9])
        mine = [emit.load(own, chunk) for chunk in range(len(chunks))]
        asked, stop = emit.whole(query, arguments[7]), emit.whole(count, arguments[6])

        def look(k: Any) -> tuple[Any, Any]:
            number = builder.load(builder.gep(numbers, [k]))
            row = emit.row(table, arguments[4], types.int64, number)
            is_query = builder.icmp_signed("==", number, asked)
            s = builder.select(is_query, FLOAT(LEFT_OUT), dot_with(emit, mine, row))
            return s, builder.load(emit.element(row, INT64(len(chunks) * LANES + SQUARES)))

        scale, total = arguments[10], emit.all(0.0)
        looked = gathered_pairs(emit, len(slots), stop, LEFT_OUT, look)
        for chunk, (s, before) in enumerate(zip(*looked, strict=True)):
            out = builder.fcmp_ordered("==", s, emit.all(LEFT_OUT))
            likely, cost = emit.sigmoid_and_softplus(s)
            w = builder.select(out, emit.all(0.0), builder.fmul(likely, emit.all(builder.fneg(scale))))
            after = emit.multiply_add(builder.fmul(w, w), emit.all(arguments[11]), before)
            total = emit.multiply_add(emit.all(scale), builder.select(out, emit.all(0.0), cost), total)
            emit.store(w, weights, chunk)
            emit.store(after, sums, chunk)
            emit.store(builder.fdiv(builder.fmul(w, emit.all(arguments[12])), emit.root(after)), steps, chunk)
        return emit.sum(total)

    kinds = (weight, step, squares, group, table, negative, count, query, x, i, *[types.float32] * 3, chunks, slots)
    return types.float32(*kinds), code


@intrinsic
def exchange_all(
    typing_context: Any,
    table: Any,
    negative: Any,
    weight: Any,
    step: Any,
    squares: Any,
    group: Any,
    count: Any,
    x: Any,
    i: Any,
    gradient: Any,
    chunks: Any,
) -> Any:
    """For each negative k of the group, with t = negative[group, k]:

    gradient[i] += weight[group, k] table[t];  table[t] += step[group, k] x[i];  its sum of squares = squares[group, k]
    """

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        emit = Emit(context, builder)
        numbers, weights, steps, after = (
            emit.row(kind, arguments[n], group, arguments[5])
            for n, kind in ((1, negative), (2, weight), (3, step), (4, squares))
        )
        numbers = builder.bitcast(numbers, INT64.as_pointer())
        own, target = emit.row(x, arguments[7], i, arguments[8]), emit.row(gradient, arguments[9], i, arguments[8])
        mine = [emit.load(own, chunk) for chunk in range(len(chunks))]
        sums = [cgutils.alloca_once(builder, VECTOR) for _ in range(len(chunks))]
        for chunk, place in enumerate(sums):
            builder.store(emit.load(target, chunk), place)
        with cgutils.for_range(builder, emit.whole(count, arguments[6])) as loop:
            number = builder.load(builder.gep(numbers, [loop.index]))
            row = emit.row(table, arguments[0], types.int64, number)
            w, s, total = (builder.load(emit.element(line, loop.index)) for line in (weights, steps, after))
            builder.store(total, emit.element(row, INT64(len(chunks) * LANES + SQUARES)))
            for chunk, place in enumerate(sums):
                here = emit.load(row, chunk)
                builder.store(emit.multiply_add(emit.all(w), here, builder.load(place)), place)
                emit.store(emit.multiply_add(emit.all(s), mine[chunk], here), row, chunk)
        for chunk, place in enumerate(sums):
            emit.store(builder.load(place), target, chunk)
        return emit.nothing()

    return types.void(table, negative, weight, step, squares, group, count, x, i, gradient, chunks), code


@intrinsic
def combine(
    typing_context: Any,
    gradient: Any,
    i: Any,
    rows: Any,
    ahead_weight: Any,
    behind_weight: Any,
    ahead: Any,
    behind: Any,
    chunks: Any,
) -> Any:
    """gradient[i] += sum of weight rows[j] over the `ahead` lines j after line i and the `behind` lines before it

    Weights are ahead_weight[i, o] and behind_weight[i - 1 - o, o]. Returns the new gradient's sum of squares.
    """

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        emit = Emit(context, builder)
        line = emit.whole(i, arguments[1])
        target = emit.row(gradient, arguments[0], types.int64, line)
        fore, aft = (Band(emit, kind, arguments[n], line) for n, kind in ((3, ahead_weight), (4, behind_weight)))
        sums = Sums(emit, target, len(chunks))

        def visit(o: Any, is_ahead: bool) -> None:
            share = builder.load(fore.ahead(o) if is_ahead else aft.behind(o))
            distance = builder.add(o, INT64(1))
            number = builder.add(line, distance) if is_ahead else builder.sub(line, distance)
            sums.add(share, emit.row(rows, arguments[2], types.int64, number))

        ranges = [(INT64(0), emit.whole(kind, arguments[n])) for kind, n in ((ahead, 5), (behind, 6))]
        for_partners(emit, ranges[0], ranges[1], visit)
        return emit.sum(sums.store())

    return types.float32(gradient, i, rows, ahead_weight, behind_weight, ahead, behind, chunks), code
