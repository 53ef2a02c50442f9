"""What Numba has no words for: eight floats at a time, arrays without reference counts, an atomic counter.

A row's vector fills whole registers of eight floats. `dims` (see `layout.chunks`) holds in its type how many, so loops
over a row are written out by the compiler and have no remainder. Left to itself, LLVM guards every loop over two rows
against overlap and leaves a scalar remainder: an update of a row then takes 2.5 times as long.
"""

from __future__ import annotations

import operator
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.typing.templates import ConcreteTemplate, infer_global, signature
from numba.extending import intrinsic, lower_builtin, models, register_model

LANES = 8
FLOAT = ir.FloatType()
INT64 = ir.IntType(64)
VECTOR = ir.VectorType(FLOAT, LANES)
INDICES = ir.VectorType(ir.IntType(32), LANES)
RELAXED = ("reassoc", "contract", "nsz", "arcp")
"""Sums may be taken in any order; nothing is assumed about NaN or infinity, which must stay visible."""


# ---- eight floats as a value: + - *, and float * eight


class EightFloats(types.Type):  # type: ignore[misc]
    """A vector register of eight 32-bit floats."""

    def __init__(self) -> None:
        super().__init__(name="EightFloats")


eight_floats = EightFloats()


@register_model(EightFloats)
class _EightFloatsModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, VECTOR)


def _broadcast(builder: Any, number: Any) -> Any:
    one = builder.insert_element(ir.Constant(VECTOR, ir.Undefined), number, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(one, ir.Constant(VECTOR, ir.Undefined), ir.Constant(INDICES, [0] * LANES))


class _Arithmetic(ConcreteTemplate):  # type: ignore[misc]
    cases = (signature(eight_floats, eight_floats, eight_floats), signature(eight_floats, types.float32, eight_floats))


def _lower(operation: Any, instruction: str) -> None:
    infer_global(operation)(type(f"_{instruction}", (_Arithmetic,), {}))

    def vectors(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return getattr(builder, instruction)(*arguments, flags=RELAXED)

    def scaled(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return getattr(builder, instruction)(_broadcast(builder, arguments[0]), arguments[1], flags=RELAXED)

    lower_builtin(operation, eight_floats, eight_floats)(vectors)
    lower_builtin(operation, types.float32, eight_floats)(scaled)


for _operation, _instruction in ((operator.add, "fadd"), (operator.sub, "fsub"), (operator.mul, "fmul")):
    _lower(_operation, _instruction)


@intrinsic
def zeros(typing_context: Any) -> Any:
    """Eight zeros."""
    return eight_floats(), lambda context, builder, signature, arguments: ir.Constant(VECTOR, [0.0] * LANES)


@intrinsic
def total(typing_context: Any, value: Any) -> Any:
    """The sum of eight floats."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = ir.FunctionType(FLOAT, [FLOAT, VECTOR])
        add = cgutils.get_or_insert_function(builder.module, kind, f"llvm.vector.reduce.fadd.v{LANES}f32")
        return builder.call(add, [ir.Constant(FLOAT, 0.0), arguments[0]], fastmath=RELAXED)

    return types.float32(eight_floats), code


def _address(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """Where floats 8 chunk ... 8 chunk + 7 of a row of a two-dimensional array lie."""
    array = context.make_array(signature.args[0])(context, builder, arguments[0])
    row, chunk = (context.cast(builder, arguments[n], signature.args[n], types.int64) for n in (1, 2))
    offset = builder.mul(row, builder.extract_value(array.strides, 0))
    start = builder.gep(builder.bitcast(array.data, ir.IntType(8).as_pointer()), [offset])
    place = builder.gep(builder.bitcast(start, FLOAT.as_pointer()), [builder.mul(chunk, INT64(LANES))])
    return builder.bitcast(place, VECTOR.as_pointer())


@intrinsic
def load(typing_context: Any, array: Any, row: Any, chunk: Any) -> Any:
    """Floats 8 chunk to 8 chunk + 7 of array[row]."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        value = builder.load(_address(context, builder, signature, arguments))
        value.align = 4
        return value

    return eight_floats(array, row, chunk), code


@intrinsic
def store(typing_context: Any, array: Any, row: Any, chunk: Any, value: Any) -> Any:
    """array[row] from 8 chunk to 8 chunk + 7 = value"""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.store(arguments[3], _address(context, builder, signature, arguments)).align = 4
        return context.get_dummy_value()

    return types.void(array, row, chunk, eight_floats), code


# ---- the rest


@intrinsic
def borrowed(typing_context: Any, value: Any) -> Any:
    """`value` (an array, or a tuple of arrays and numbers) without reference counts.

    Numba counts references each time an array is taken out of a tuple, with a locked instruction that costs more than
    the arithmetic around it. Who calls a kernel holds its arrays for the whole call: inside there is nothing to count.
    """

    def uncounted(context: Any, builder: Any, kind: Any, item: Any) -> Any:
        if isinstance(kind, types.Array):
            array = context.make_array(kind)(context, builder, item)
            array.meminfo = context.get_constant_null(types.voidptr)
            array.parent = context.get_constant_null(types.pyobject)
            return array._getvalue()
        if isinstance(kind, types.BaseTuple):
            parts = (uncounted(context, builder, k, builder.extract_value(item, n)) for n, k in enumerate(kind))
            return context.make_tuple(builder, kind, parts)
        return item

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return uncounted(context, builder, value, arguments[0])

    return value(value), code


@intrinsic
def atomic_add(typing_context: Any, array: Any, place: Any, number: Any) -> Any:
    """array[place] += number, atomically; returns what it was. Of a one-dimensional int64 array."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(array)(context, builder, arguments[0]).data
        index = context.cast(builder, arguments[1], place, types.int64)
        return builder.atomic_rmw("add", builder.gep(data, [index]), arguments[2], "seq_cst")

    return types.int64(array, place, types.int64), code
