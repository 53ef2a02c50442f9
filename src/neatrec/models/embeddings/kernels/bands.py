"""Ways through the numbers about a line and its neighbours, for compiled code.

Numbers about pairs lie in arrays of shape (lines, window, padded): `near[i, o]` is about line i and line i + 1 + o. The
partners of line i behind it are therefore at near[i - 1 - o, o].
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from neatrec.models.embeddings.kernels.emit import FLOAT, INT32, INT64, INTEGERS, LANES, VECTOR, Emit


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


def for_partners(
    emit: Emit, ahead: tuple[Any, Any], behind: tuple[Any, Any], visit: Callable[[Any, bool], None]
) -> None:
    """Emit `visit(o, is_ahead)` for the partners ahead of a line, then for those behind it."""
    b = emit.builder
    for (start, stop), is_ahead in ((ahead, True), (behind, False)):
        with cgutils.for_range(b, b.sub(stop, start)) as loop:
            visit(b.add(start, loop.index), is_ahead)


def is_no_pair(emit: Emit, items: Any, categories: Any, line: Any, chunk: int, low: Any, high: Any) -> Any:
    """A mask of o = 8 chunk ...: line and line + 1 + o are of one item or category, or o is not in low ... high - 1.

    `items` and `categories` are the addresses of integers by line; categories below 0 are nobody's.
    """
    b = emit.builder
    place = b.add(line, INT64(1 + chunk * LANES))
    own_item, own_category = (spread(emit, b.load(b.gep(numbers, [line]))) for numbers in (items, categories))
    same_item = b.icmp_signed("==", loaded(emit, items, place, INTEGERS), own_item)
    same = b.icmp_signed("==", loaded(emit, categories, place, INTEGERS), own_category)
    known = b.icmp_signed(">=", own_category, ir.Constant(INTEGERS, [0] * LANES))
    before, past = (spread(emit, b.trunc(end, INT32)) for end in (low, high))
    outside = b.or_(b.icmp_signed("<", places(chunk), before), b.icmp_signed(">=", places(chunk), past))
    return b.or_(b.or_(same_item, b.and_(same, known)), outside)


def first_row(emit: Emit, kind: Any, array: Any, element: Any) -> Any:
    """The address of the only row of an array of shape (1, n), as elements of a type."""
    return emit.builder.bitcast(emit.row(kind, array, types.int64, INT64(0)), element.as_pointer())


def gathered(emit: Emit, chunks: int, stop: Any, default: float, value: Callable[[Any], Any]) -> list[Any]:
    """Vectors of value(0), value(1), ... up to `stop`, `default` beyond.

    Put together in registers: a vector read back from numbers written one by one waits until they have left the core.
    """
    first, _ = gathered_pairs(emit, chunks, stop, default, lambda k: (value(k), FLOAT(0.0)))
    return first


def gathered_pairs(
    emit: Emit, chunks: int, stop: Any, default: float, values: Callable[[Any], tuple[Any, Any]]
) -> tuple[list[Any], list[Any]]:
    b = emit.builder
    columns = [[cgutils.alloca_once(b, VECTOR) for _ in range(chunks)] for _ in range(2)]
    for column, start in zip(columns, (default, 0.0), strict=True):
        for place in column:
            b.store(emit.all(start), place)
    with cgutils.for_range(b, stop) as loop:
        lane = spread(emit, b.trunc(loop.index, INT32))
        for column, value in zip(columns, values(loop.index), strict=True):
            for chunk, place in enumerate(column):
                here = b.icmp_signed("==", places(chunk), lane)
                b.store(b.select(here, emit.all(value), b.load(place)), place)
    return [b.load(place) for place in columns[0]], [b.load(place) for place in columns[1]]


def places(chunk: int) -> Any:
    return ir.Constant(INTEGERS, [chunk * LANES + lane for lane in range(LANES)])


def loaded(emit: Emit, numbers: Any, start: Any, kind: Any) -> Any:
    """A vector of `kind` from element `start` of one row."""
    loaded = emit.builder.load(emit.builder.bitcast(emit.builder.gep(numbers, [start]), kind.as_pointer()))
    loaded.align = 4
    return loaded


def spread(emit: Emit, integer: Any) -> Any:
    one = emit.builder.insert_element(ir.Constant(INTEGERS, ir.Undefined), integer, ir.Constant(INT32, 0))
    first = ir.Constant(INTEGERS, [0] * LANES)
    return emit.builder.shuffle_vector(one, ir.Constant(INTEGERS, ir.Undefined), first)


class Sums:
    """A row held in registers while other rows are added to it."""

    def __init__(self, emit: Emit, row: Any, chunks: int) -> None:
        self.emit, self.row = emit, row
        self.places = [cgutils.alloca_once(emit.builder, VECTOR) for _ in range(chunks)]
        for chunk, place in enumerate(self.places):
            emit.builder.store(emit.load(row, chunk), place)

    def add(self, weight: Any, row: Any) -> None:
        """Add weight times the row."""
        b, shares = self.emit.builder, self.emit.all(weight)
        for chunk, place in enumerate(self.places):
            b.store(self.emit.multiply_add(shares, self.emit.load(row, chunk), b.load(place)), place)

    def values(self) -> list[Any]:
        return [self.emit.builder.load(place) for place in self.places]

    def store(self) -> Any:
        """Write the row back; the vector of its squares comes back."""
        squares = self.emit.all(0.0)
        for chunk, value in enumerate(self.values()):
            self.emit.store(value, self.row, chunk)
            squares = self.emit.multiply_add(value, value, squares)
        return squares
