"""The pieces of the NEAT kernels that are worth vector instructions of their own, for compiled code.

Pairs lie in arrays of shape (lines, window, padded): `near[i, o]` is about line i and line i + 1 + o. The partners of
line i behind it are therefore at near[i - 1 - o, o].
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from neatrec.kernels.emit import FLOAT, INT32, INT64, INTEGERS, LANES, VECTOR, Emit

FLAT = 3e38
"""The bar of a pair that is none: no negative passes it."""
NEVER = 1e37
"""The square distance of a negative that is left out: it passes no bar."""


class Band:
    """The elements of a (lines, window) array that belong to one line: ahead of it, or behind it."""

    def __init__(self, emit: Emit, kind: Any, array: Any, line: Any) -> None:
        self.emit = emit
        unpacked = emit.context.make_array(kind)(emit.context, emit.builder, array)
        self.stride = emit.builder.extract_value(unpacked.strides, 0)
        self.row = emit.row(kind, array, types.int64, line)

    def ahead(self, o: Any) -> Any:
        """The address of near[i, o]."""
        return self.emit.element(self.row, o)

    def behind(self, o: Any) -> Any:
        """The address of near[i - 1 - o, o]."""
        b = self.emit.builder
        lines = b.add(o, INT64(1))
        offset = b.sub(b.mul(o, INT64(4)), b.mul(lines, self.stride))
        return b.bitcast(b.gep(self.row, [offset]), FLOAT.as_pointer())


def _for_partners(
    emit: Emit, ahead: tuple[Any, Any], behind: tuple[Any, Any], visit: Callable[[Any, bool], None]
) -> None:
    """Emit `visit(o, is_ahead)` for the partners ahead of a line, then for those behind it."""
    b = emit.builder
    for (start, stop), is_ahead in ((ahead, True), (behind, False)):
        with cgutils.for_range(b, b.sub(stop, start)) as loop:
            visit(b.add(start, loop.index), is_ahead)


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
        variances, items, categories = (
            builder.bitcast(emit.row(kind, arguments[n], types.int64, INT64(0)), element.as_pointer())
            for n, kind, element in ((6, variance, FLOAT), (7, item, INT32), (8, category, INT32))
        )
        mine = [emit.load(own, chunk) for chunk in range(len(chunks))]
        ends = emit.whole(reach, arguments[4])
        after = builder.add(line, INT64(1))
        squares = _gathered(
            emit,
            len(near),
            ends,
            lambda o: _distance(emit, mine, emit.row(x, arguments[5], types.int64, builder.add(after, o))),
        )
        reached = _spread(emit, builder.trunc(ends, INT32))
        own_item, own_category = (_spread(emit, _at(emit, numbers, line)) for numbers in (items, categories))
        for chunk, square in enumerate(squares):
            place = builder.add(after, INT64(chunk * LANES))
            others = _loaded(emit, variances, place, VECTOR)
            likelihood, inverse = _likelihood(
                emit, builder.fadd(others, emit.all(_at(emit, variances, line))), square, arguments[9]
            )
            same_item = builder.icmp_signed("==", _loaded(emit, items, place, INTEGERS), own_item)
            same = builder.icmp_signed("==", _loaded(emit, categories, place, INTEGERS), own_category)
            known = builder.icmp_signed(">=", own_category, ir.Constant(INTEGERS, [0] * LANES))
            past = builder.icmp_signed(">=", _places(chunk), reached)
            none = builder.or_(builder.or_(same_item, builder.and_(same, known)), past)
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
            square = builder.select(builder.icmp_signed("==", number, asked), FLOAT(NEVER), _distance(emit, mine, row))
            return square, builder.load(emit.element(row, INT64(len(chunks) * LANES)))

        squares, logs = _gathered_pairs(emit, len(slots), stop, both)
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


def _distance(emit: Emit, mine: list[Any], other: Any) -> Any:
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


def _gathered(emit: Emit, chunks: int, stop: Any, value: Callable[[Any], Any]) -> list[Any]:
    """Vectors of value(0), value(1), ... up to `stop`, NEVER beyond.

    Put together in registers: a vector read back from numbers written one by one waits until they have left the core.
    """
    first, _ = _gathered_pairs(emit, chunks, stop, lambda k: (value(k), FLOAT(0.0)))
    return first


def _gathered_pairs(
    emit: Emit, chunks: int, stop: Any, values: Callable[[Any], tuple[Any, Any]]
) -> tuple[list[Any], list[Any]]:
    b = emit.builder
    places = [[cgutils.alloca_once(b, VECTOR) for _ in range(chunks)] for _ in range(2)]
    for column, default in zip(places, (NEVER, 0.0), strict=True):
        for place in column:
            b.store(emit.all(default), place)
    with cgutils.for_range(b, stop) as loop:
        lane = _spread(emit, b.trunc(loop.index, INT32))
        for column, value in zip(places, values(loop.index), strict=True):
            for chunk, place in enumerate(column):
                here = b.icmp_signed("==", _places(chunk), lane)
                b.store(b.select(here, emit.all(value), b.load(place)), place)
    return [b.load(place) for place in places[0]], [b.load(place) for place in places[1]]


def _places(chunk: int) -> Any:
    return ir.Constant(INTEGERS, [chunk * LANES + lane for lane in range(LANES)])


def _loaded(emit: Emit, numbers: Any, start: Any, kind: Any) -> Any:
    """A vector of `kind` from element `start` of one row."""
    loaded = emit.builder.load(emit.builder.bitcast(emit.builder.gep(numbers, [start]), kind.as_pointer()))
    loaded.align = 4
    return loaded


def _at(emit: Emit, integers: Any, place: Any) -> Any:
    return emit.builder.load(emit.builder.gep(integers, [place]))


def _spread(emit: Emit, integer: Any) -> Any:
    one = emit.builder.insert_element(ir.Constant(INTEGERS, ir.Undefined), integer, ir.Constant(INT32, 0))
    first = ir.Constant(INTEGERS, [0] * LANES)
    return emit.builder.shuffle_vector(one, ir.Constant(INTEGERS, ir.Undefined), first)


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
        _for_partners(emit, ranges[0], ranges[1], visit)
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
        _for_partners(emit, ranges[0], ranges[1], visit)
        away, squares = emit.all(builder.fneg(builder.load(whole))), emit.all(0.0)
        for chunk, place in enumerate(sums):
            value = emit.multiply_add(away, emit.load(own, chunk), builder.load(place))
            emit.store(value, target, chunk)
            squares = emit.multiply_add(value, value, squares)
        return context.make_tuple(builder, result, [emit.sum(squares), builder.load(bent)])

    return result(gradient, i, x, weight, bend, ahead, behind, chunks), code
