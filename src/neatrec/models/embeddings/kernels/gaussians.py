"""The pieces of the NEAT kernels that are worth vector instructions of their own, for compiled code.

Numbers about pairs lie as `bands` says.
"""

from __future__ import annotations

from typing import Any

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from neatrec.models.embeddings.kernels.bands import (
    Band,
    first_row,
    for_partners,
    gathered,
    gathered_pairs,
    is_no_pair,
    loaded,
)
from neatrec.models.embeddings.kernels.emit import FLOAT, INT32, INT64, LANES, VECTOR, Emit

FLAT = 3e38
"""The bar of a pair that is none: no negative passes it."""
NEVER = 1e37
"""The square distance of a negative that is left out: it passes no bar."""


@intrinsic
def near_likelihoods(
    typing_context: Any,
    distance: Any,
    precision: Any,
    bar: Any,
    i: Any,
    reach: Any,
    x: Any,
    variance: Any,
    item: Any,
    category: Any,
    half_dim: Any,
    margin: Any,
    chunks: Any,
    near: Any,
) -> Any:
    """About the pairs of line i with the `reach` lines after it.

    distance[i, o] = sum (x[i] - x[i + 1 + o])^2;  precision[i, o] = 1 / (variance[i] + variance[i + 1 + o]);
    bar[i, o] = the pair's log likelihood - margin, FLAT where the lines are of one item or category, or past the reach.
    `variance`, `item` and `category` are of shape (1, lines and some); categories below 0 are nobody's.
    """

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        emit = Emit(context, builder)
        line = emit.whole(i, arguments[3])
        distances, precisions, bars, own = (
            emit.row(kind, arguments[n], types.int64, line)
            for n, kind in ((0, distance), (1, precision), (2, bar), (5, x))
        )
        variances = first_row(emit, variance, arguments[6], FLOAT)
        items, categories = (first_row(emit, kind, arguments[n], INT32) for n, kind in ((7, item), (8, category)))
        mine = [emit.load(own, chunk) for chunk in range(len(chunks))]
        ends, after = emit.whole(reach, arguments[4]), builder.add(line, INT64(1))

        def square_of(o: Any) -> Any:
            return distance_to(emit, mine, emit.row(x, arguments[5], types.int64, builder.add(after, o)))

        spread = emit.all(builder.load(builder.gep(variances, [line])))
        for chunk, square in enumerate(gathered(emit, len(near), ends, NEVER, square_of)):
            others = loaded(emit, variances, builder.add(after, INT64(chunk * LANES)), VECTOR)
            likelihood, inverse = _likelihood(emit, builder.fadd(others, spread), square, arguments[9])
            none = is_no_pair(emit, items, categories, line, chunk, INT64(0), ends)
            emit.store(square, distances, chunk)
            emit.store(inverse, precisions, chunk)
            height = builder.fsub(likelihood, emit.all(arguments[10]))
            emit.store(builder.select(none, emit.all(FLAT), height), bars, chunk)
        return emit.nothing()

    kinds = (
        distance,
        precision,
        bar,
        i,
        reach,
        x,
        variance,
        item,
        category,
        types.float32,
        types.float32,
        chunks,
        near,
    )
    return types.void(*kinds), code


@intrinsic
def far_likelihoods(
    typing_context: Any,
    distance: Any,
    variance: Any,
    precision: Any,
    likelihood: Any,
    group: Any,
    table: Any,
    negative: Any,
    count: Any,
    query: Any,
    x: Any,
    i: Any,
    own_variance: Any,
    half_dim: Any,
    chunks: Any,
    slots: Any,
) -> Any:
    """About line i and the `count` negatives of a group, rows negative[group] of the table.

    distance[group, k] = sum (x[i] - table[row])^2 (NEVER where the negative is the query itself, and past the count);
    variance[group, k] = e^(log-variance in the row's tail);  precision and likelihood as for a pair.
    """

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        emit = Emit(context, builder)
        targets = [
            emit.row(kind, arguments[n], group, arguments[4])
            for n, kind in enumerate((distance, variance, precision, likelihood))
        ]
        numbers = builder.bitcast(emit.row(negative, arguments[6], group, arguments[4]), INT64.as_pointer())
        own = emit.row(x, arguments[9], i, arguments[10])
        mine = [emit.load(own, chunk) for chunk in range(len(chunks))]
        asked, stop = emit.whole(query, arguments[8]), emit.whole(count, arguments[7])

        def both(k: Any) -> tuple[Any, Any]:
            number = builder.load(builder.gep(numbers, [k]))
            row = emit.row(table, arguments[5], types.int64, number)
            square = builder.select(
                builder.icmp_signed("==", number, asked), FLOAT(NEVER), distance_to(emit, mine, row)
            )
            return square, builder.load(emit.element(row, INT64(len(chunks) * LANES)))

        squares, logs = gathered_pairs(emit, len(slots), stop, NEVER, both)
        for chunk, (square, log) in enumerate(zip(squares, logs, strict=True)):
            spread = emit.exponential(log)
            energy, inverse = _likelihood(emit, builder.fadd(spread, emit.all(arguments[11])), square, arguments[12])
            for value, target in zip((square, spread, inverse, energy), targets, strict=True):
                emit.store(value, target, chunk)
        return emit.nothing()

    kinds = (
        distance,
        variance,
        precision,
        likelihood,
        group,
        table,
        negative,
        count,
        query,
        x,
        i,
        types.float32,
        types.float32,
        chunks,
        slots,
    )
    return types.void(*kinds), code


def distance_to(emit: Emit, mine: list[Any], other: Any) -> Any:
    """The square distance of a vector in registers and a row."""
    sums = [emit.all(0.0), emit.all(0.0)]
    for chunk, value in enumerate(mine):
        z = emit.builder.fsub(value, emit.load(other, chunk))
        sums[chunk % 2] = emit.multiply_add(z, z, sums[chunk % 2])
    return emit.sum(emit.builder.fadd(*sums))


def _likelihood(emit: Emit, variances: Any, distances: Any, half_dim: Any) -> tuple[Any, Any]:
    """(log expected likelihoods without the constant that all pairs share, precisions)"""
    b = emit.builder
    inverse = b.fdiv(emit.all(1.0), variances)
    determinant = b.fmul(emit.logarithm(variances), emit.all(b.fneg(half_dim)))
    return emit.multiply_add(b.fmul(distances, inverse), emit.all(-0.5), determinant), inverse


@intrinsic
def hinges(
    typing_context: Any,
    active: Any,
    group: Any,
    likelihood: Any,
    bar: Any,
    forth: Any,
    back: Any,
    i: Any,
    ahead: Any,
    behind: Any,
    slots: Any,
) -> Any:
    """Which of a group's negatives pass the bars of which partners of line i.

    `ahead` and `behind` are ranges (first, one past the last) of o. active[group, k] = bars that negative k passes;
    forth[i, o] and back[i - 1 - o, o] = negatives that pass the bar of that pair. Returns the number of partners, of
    passes, and the sum of likelihood - bar over the passes.
    """
    result = types.UniTuple(types.float32, 3)

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        emit = Emit(context, builder)
        line = emit.whole(i, arguments[6])
        sums, rivals = (emit.row(kind, arguments[n], group, arguments[1]) for n, kind in ((0, active), (2, likelihood)))
        bars, forths, backs = (Band(emit, kind, arguments[n], line) for n, kind in ((3, bar), (4, forth), (5, back)))
        values = [emit.load(rivals, chunk) for chunk in range(len(slots))]
        passes = [cgutils.alloca_once(builder, VECTOR) for _ in values]
        excess, total, partners = (cgutils.alloca_once(builder, kind) for kind in (VECTOR, FLOAT, FLOAT))
        for place in (*passes, excess):
            builder.store(emit.all(0.0), place)
        for place in (total, partners):
            builder.store(FLOAT(0.0), place)

        def visit(o: Any, is_ahead: bool) -> None:
            height = builder.load(bars.ahead(o) if is_ahead else bars.behind(o))
            here = FLOAT(0.0)
            for value, place in zip(values, passes, strict=True):
                over = builder.fsub(value, emit.all(height))
                above = builder.fcmp_ordered(">", over, emit.all(0.0))
                ones = builder.select(above, emit.all(1.0), emit.all(0.0))
                builder.store(builder.fadd(builder.load(place), ones), place)
                rise = builder.select(above, over, emit.all(0.0))
                builder.store(builder.fadd(builder.load(excess), rise), excess)
                here = builder.fadd(here, emit.how_many(above))
            builder.store(here, forths.ahead(o) if is_ahead else backs.behind(o))
            builder.store(builder.fadd(builder.load(total), here), total)
            real = builder.uitofp(builder.fcmp_ordered("<", height, FLOAT(FLAT / 2)), FLOAT)
            builder.store(builder.fadd(builder.load(partners), real), partners)

        ranges = [tuple(builder.extract_value(arguments[n], end) for end in (0, 1)) for n in (7, 8)]
        for_partners(emit, ranges[0], ranges[1], visit)
        for chunk, place in enumerate(passes):
            emit.store(builder.load(place), sums, chunk)
        values = [builder.load(partners), builder.load(total), emit.sum(builder.load(excess))]
        return context.make_tuple(builder, result, values)

    return result(active, group, likelihood, bar, forth, back, i, ahead, behind, slots), code


@intrinsic
def weigh(
    typing_context: Any,
    weight: Any,
    bend: Any,
    i: Any,
    forth: Any,
    back: Any,
    precision: Any,
    distance: Any,
    half_dim: Any,
    near: Any,
) -> Any:
    """weight[i] = (forth[i] + back[i]) precision[i];  bend[i] = weight[i] (distance[i] precision[i] / 2 - half_dim)"""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        emit = Emit(context, builder)
        kinds = ((weight, 0), (bend, 1), (forth, 3), (back, 4), (precision, 5), (distance, 6))
        rows = [emit.row(kind, arguments[n], i, arguments[2]) for kind, n in kinds]
        for chunk in range(len(near)):
            hits, misses, inverse, far = (emit.load(row, chunk) for row in rows[2:])
            pull = builder.fmul(builder.fadd(hits, misses), inverse)
            half_square = builder.fmul(builder.fmul(far, emit.all(0.5)), inverse)
            emit.store(pull, rows[0], chunk)
            emit.store(builder.fmul(pull, builder.fsub(half_square, emit.all(arguments[7]))), rows[1], chunk)
        return emit.nothing()

    return types.void(weight, bend, i, forth, back, precision, distance, types.float32, near), code


@intrinsic
def pull(
    typing_context: Any, gradient: Any, i: Any, x: Any, weight: Any, bend: Any, ahead: Any, behind: Any, chunks: Any
) -> Any:
    """gradient[i] += sum of weight (x[j] - x[i]) over partners j; its sum of squares and the sum of bends come back"""
    result = types.UniTuple(types.float32, 2)

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        emit = Emit(context, builder)
        line = emit.whole(i, arguments[1])
        target, own = emit.row(gradient, arguments[0], types.int64, line), emit.row(x, arguments[2], types.int64, line)
        weights, bends = (Band(emit, kind, arguments[n], line) for n, kind in ((3, weight), (4, bend)))
        sums = [cgutils.alloca_once(builder, VECTOR) for _ in range(len(chunks))]
        whole, bent = cgutils.alloca_once(builder, FLOAT), cgutils.alloca_once(builder, FLOAT)
        for chunk, place in enumerate(sums):
            builder.store(emit.load(target, chunk), place)
        builder.store(FLOAT(0.0), whole)
        builder.store(FLOAT(0.0), bent)

        def visit(o: Any, is_ahead: bool) -> None:
            share = builder.load(weights.ahead(o) if is_ahead else weights.behind(o))
            bend_here = builder.load(bends.ahead(o) if is_ahead else bends.behind(o))
            distance = builder.add(o, INT64(1))
            other = builder.add(line, distance) if is_ahead else builder.sub(line, distance)
            row, shares = emit.row(x, arguments[2], types.int64, other), emit.all(share)
            for chunk, place in enumerate(sums):
                builder.store(emit.multiply_add(shares, emit.load(row, chunk), builder.load(place)), place)
            builder.store(builder.fadd(builder.load(whole), share), whole)
            builder.store(builder.fadd(builder.load(bent), bend_here), bent)

        ranges = [(INT64(0), emit.whole(kind, arguments[n])) for kind, n in ((ahead, 5), (behind, 6))]
        for_partners(emit, ranges[0], ranges[1], visit)
        away, squares = emit.all(builder.fneg(builder.load(whole))), emit.all(0.0)
        for chunk, place in enumerate(sums):
            value = emit.multiply_add(away, emit.load(own, chunk), builder.load(place))
            emit.store(value, target, chunk)
            squares = emit.multiply_add(value, value, squares)
        return context.make_tuple(builder, result, [emit.sum(squares), builder.load(bent)])

    return result(gradient, i, x, weight, bend, ahead, behind, chunks), code
