"""Operations on whole rows, for compiled code. A row is named by an array and a row number.

`chunks` (see `layout.chunks`) says in its type how many registers a row's vector fills: loops are written out, there is
no remainder.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from neatrec.models.embeddings.kernels.emit import FLOAT, INT32, INT64, LANES, Emit

CACHE_LINE = 64  # bytes


@intrinsic
def prefetch_row(typing_context: Any, table: Any, number: Any, chunks: Any) -> Any:
    """Ask early for a whole row: into the second-level cache, where it does not push out what is in use."""
    lines = -(-(len(chunks) + 1) * LANES * 4 // CACHE_LINE)

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        emit = Emit(context, builder)
        row = emit.row(table, arguments[0], number, arguments[1])
        read, second_level, data = (ir.Constant(INT32, value) for value in (0, 2, 1))
        for line in range(lines):
            address = builder.gep(row, [ir.Constant(INT64, line * CACHE_LINE)])
            emit.call("llvm.prefetch.p0", ir.VoidType(), [address, read, second_level, data])
        return emit.nothing()

    return types.void(table, number, chunks), code


@intrinsic
def prefetch(typing_context: Any, array: Any, number: Any) -> Any:
    """Ask early for one element of a one-dimensional array, to be read."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        emit = Emit(context, builder)
        read, keep, data = (ir.Constant(INT32, value) for value in (0, 3, 1))
        address = emit.row(array, arguments[0], number, arguments[1])
        emit.call("llvm.prefetch.p0", ir.VoidType(), [address, read, keep, data])
        return emit.nothing()

    return types.void(array, number), code


@intrinsic
def square_distance(typing_context: Any, a: Any, i: Any, b: Any, j: Any, chunks: Any) -> Any:
    """sum (a[i] - b[j])^2"""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        emit = Emit(context, builder)
        one, two = emit.row(a, arguments[0], i, arguments[1]), emit.row(b, arguments[2], j, arguments[3])
        sums = [emit.all(0.0), emit.all(0.0)]
        for chunk in range(len(chunks)):
            z = builder.fsub(emit.load(one, chunk), emit.load(two, chunk))
            sums[chunk % 2] = emit.multiply_add(z, z, sums[chunk % 2])
        return emit.sum(builder.fadd(*sums))

    return types.float32(a, i, b, j, chunks), code


@intrinsic
def dot(typing_context: Any, a: Any, i: Any, b: Any, j: Any, chunks: Any) -> Any:
    """sum a[i] b[j]"""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        emit = Emit(context, builder)
        one, two = emit.row(a, arguments[0], i, arguments[1]), emit.row(b, arguments[2], j, arguments[3])
        sums = [emit.all(0.0), emit.all(0.0)]
        for chunk in range(len(chunks)):
            sums[chunk % 2] = emit.multiply_add(emit.load(one, chunk), emit.load(two, chunk), sums[chunk % 2])
        return emit.sum(builder.fadd(*sums))

    return types.float32(a, i, b, j, chunks), code


@intrinsic
def copy_row(typing_context: Any, to: Any, i: Any, source: Any, j: Any, chunks: Any) -> Any:
    """to[i] = source[j]"""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        emit = Emit(context, builder)
        target, row = emit.row(to, arguments[0], i, arguments[1]), emit.row(source, arguments[2], j, arguments[3])
        for chunk in range(len(chunks)):
            emit.store(emit.load(row, chunk), target, chunk)
        return emit.nothing()

    return types.void(to, i, source, j, chunks), code


@intrinsic
def clear_row(typing_context: Any, to: Any, i: Any, chunks: Any) -> Any:
    """to[i] = 0"""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        emit = Emit(context, builder)
        target = emit.row(to, arguments[0], i, arguments[1])
        for chunk in range(len(chunks)):
            emit.store(emit.all(0.0), target, chunk)
        return emit.nothing()

    return types.void(to, i, chunks), code


@intrinsic
def add_row(typing_context: Any, to: Any, i: Any, scale: Any, source: Any, j: Any, chunks: Any) -> Any:
    """to[i] += scale source[j]"""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        emit = Emit(context, builder)
        target, row = emit.row(to, arguments[0], i, arguments[1]), emit.row(source, arguments[3], j, arguments[4])
        scales = emit.all(arguments[2])
        for chunk in range(len(chunks)):
            emit.store(emit.multiply_add(scales, emit.load(row, chunk), emit.load(target, chunk)), target, chunk)
        return emit.nothing()

    return types.void(to, i, types.float32, source, j, chunks), code


@intrinsic
def add_difference(
    typing_context: Any, to: Any, i: Any, scale: Any, a: Any, j: Any, b: Any, k: Any, chunks: Any
) -> Any:
    """to[i] += scale (a[j] - b[k]); `to` may be one of the two"""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        emit = Emit(context, builder)
        target = emit.row(to, arguments[0], i, arguments[1])
        one, two = emit.row(a, arguments[3], j, arguments[4]), emit.row(b, arguments[5], k, arguments[6])
        scales = emit.all(arguments[2])
        for chunk in range(len(chunks)):
            z = builder.fsub(emit.load(one, chunk), emit.load(two, chunk))
            emit.store(emit.multiply_add(scales, z, emit.load(target, chunk)), target, chunk)
        return emit.nothing()

    return types.void(to, i, types.float32, a, j, b, k, chunks), code


@intrinsic
def set_row(typing_context: Any, to: Any, i: Any, scale: Any, source: Any, j: Any, chunks: Any) -> Any:
    """to[i] = scale source[j]"""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        emit = Emit(context, builder)
        target, row = emit.row(to, arguments[0], i, arguments[1]), emit.row(source, arguments[3], j, arguments[4])
        scales = emit.all(arguments[2])
        for chunk in range(len(chunks)):
            emit.store(builder.fmul(scales, emit.load(row, chunk)), target, chunk)
        return emit.nothing()

    return types.void(to, i, types.float32, source, j, chunks), code


@intrinsic
def part(
    typing_context: Any, to: Any, r: Any, scale: Any, x: Any, i: Any, table: Any, t: Any, gradient: Any, chunks: Any
) -> Any:
    """z = scale (x[i] - table[t]);  to[r] = -z;  gradient[i] += z"""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        emit = Emit(context, builder)
        target, line, row, sums = (
            emit.row(kind, arguments[n], place, arguments[m])
            for n, kind, place, m in ((0, to, r, 1), (3, x, i, 4), (5, table, t, 6), (7, gradient, i, 4))
        )
        scales = emit.all(arguments[2])
        for chunk in range(len(chunks)):
            z = builder.fmul(scales, builder.fsub(emit.load(line, chunk), emit.load(row, chunk)))
            emit.store(builder.fneg(z), target, chunk)
            emit.store(builder.fadd(z, emit.load(sums, chunk)), sums, chunk)
        return emit.nothing()

    return types.void(to, r, types.float32, x, i, table, t, gradient, chunks), code


@intrinsic
def repel(
    typing_context: Any, table: Any, t: Any, x: Any, i: Any, gradient: Any, pull: Any, step: Any, chunks: Any
) -> Any:
    """z = x[i] - table[t];  gradient[i] += pull z;  table[t] -= step z"""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        emit = Emit(context, builder)
        row, line = emit.row(table, arguments[0], t, arguments[1]), emit.row(x, arguments[2], i, arguments[3])
        sums = emit.row(gradient, arguments[4], i, arguments[3])
        pulls, steps = emit.all(arguments[5]), emit.all(builder.fneg(arguments[6]))
        for chunk in range(len(chunks)):
            here = emit.load(row, chunk)
            z = builder.fsub(emit.load(line, chunk), here)
            emit.store(emit.multiply_add(pulls, z, emit.load(sums, chunk)), sums, chunk)
            emit.store(emit.multiply_add(steps, z, here), row, chunk)
        return emit.nothing()

    return types.void(table, t, x, i, gradient, types.float32, types.float32, chunks), code


@intrinsic
def exchange(
    typing_context: Any, table: Any, t: Any, x: Any, i: Any, gradient: Any, pull: Any, step: Any, chunks: Any
) -> Any:
    """gradient[i] += pull table[t];  table[t] += step x[i]"""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        emit = Emit(context, builder)
        row, line = emit.row(table, arguments[0], t, arguments[1]), emit.row(x, arguments[2], i, arguments[3])
        sums = emit.row(gradient, arguments[4], i, arguments[3])
        pulls, steps = emit.all(arguments[5]), emit.all(arguments[6])
        for chunk in range(len(chunks)):
            here = emit.load(row, chunk)
            emit.store(emit.multiply_add(pulls, here, emit.load(sums, chunk)), sums, chunk)
            emit.store(emit.multiply_add(steps, emit.load(line, chunk), here), row, chunk)
        return emit.nothing()

    return types.void(table, t, x, i, gradient, types.float32, types.float32, chunks), code


@intrinsic
def inverse_root(typing_context: Any, x: Any) -> Any:
    """1 / sqrt(x)"""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        root = Emit(context, builder).call("llvm.sqrt.f32", FLOAT, [arguments[0]])
        return builder.fdiv(ir.Constant(FLOAT, 1.0), root)

    return types.float32(types.float32), code
