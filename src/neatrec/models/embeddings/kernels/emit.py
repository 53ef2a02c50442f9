"""`Emit`: vector instructions for the compiled kernels, eight floats at a time, written in LLVM's own terms.

Numba's loops over a row are good but not the best: the compiler cannot see that two rows do not overlap and guards each
loop, and short loops over a position's negatives stay scalar. `rows` and `lanes` build the few operations that matter
from the instructions here.
"""

from __future__ import annotations

import math
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

LANES = 8
FLOAT = ir.FloatType()
BYTE = ir.IntType(8)
INT32 = ir.IntType(32)
INT64 = ir.IntType(64)
VECTOR = ir.VectorType(FLOAT, LANES)
INTEGERS = ir.VectorType(INT32, LANES)
RELAXED = ("reassoc", "contract", "nsz", "arcp")
"""Sums may be taken in any order; nothing is assumed about NaN or infinity, which must stay visible."""

# (e^x - 1 - x) / x^2 for |x| <= log(2) / 2, and (log(1 + m) - m + m^2 / 2) / m^3 for sqrt(1/2) <= 1 + m <= sqrt(2):
# least maximum error over the interval, found by reweighted least squares
EXPONENTIAL = (0.5000000095127202, 0.16666518898698462, 0.0416662059879702, 0.008368882266741578, 0.001395047876600549)
LOGARITHM = (
    0.333341657759849,
    -0.2500169868422664,
    0.1995487984424771,
    -0.16564428578849388,
    0.149779602599638,
    -0.14378979818075185,
    0.08672234960602968,
)
LOG_2_HIGH = 0.693359375  # few bits: times an exponent it is exact
LOG_2_LOW = math.log(2.0) - LOG_2_HIGH
SQRT_HALF_BITS = 0x3F3504F3
MANTISSA_BITS = 0x7FFFFF


class Emit:
    """Writes vector instructions into the function being compiled."""

    def __init__(self, context: Any, builder: Any) -> None:
        self.context = context
        self.builder = builder

    # ---- rows and registers

    def whole(self, kind: Any, number: Any) -> Any:
        """A row or element number as a 64-bit integer."""
        return self.context.cast(self.builder, number, kind, types.int64)

    def row(self, table_kind: Any, table: Any, number_kind: Any, number: Any) -> Any:
        """The address of a row of a two-dimensional array."""
        array = self.context.make_array(table_kind)(self.context, self.builder, table)
        stride = self.builder.extract_value(array.strides, 0)
        start = self.builder.bitcast(array.data, BYTE.as_pointer())
        return self.builder.gep(start, [self.builder.mul(self.whole(number_kind, number), stride)])

    def element(self, row: Any, number: Any) -> Any:
        """The address of a float of a row."""
        return self.builder.gep(self.builder.bitcast(row, FLOAT.as_pointer()), [number])

    def _chunk(self, row: Any, chunk: int) -> Any:
        address = self.builder.gep(row, [ir.Constant(INT64, chunk * LANES * 4)])
        return self.builder.bitcast(address, VECTOR.as_pointer())

    def load(self, row: Any, chunk: int) -> Any:
        """Floats 8 chunk to 8 chunk + 7 of a row."""
        loaded = self.builder.load(self._chunk(row, chunk))
        loaded.align = 4
        return loaded

    def store(self, value: Any, row: Any, chunk: int) -> None:
        self.builder.store(value, self._chunk(row, chunk)).align = 4

    def all(self, number: Any) -> Any:
        """`number` in every lane: a Python float, or a float of the function being compiled."""
        if isinstance(number, float):
            return ir.Constant(VECTOR, [number] * LANES)
        one = self.builder.insert_element(ir.Constant(VECTOR, ir.Undefined), number, ir.Constant(INT32, 0))
        first = ir.Constant(INTEGERS, [0] * LANES)
        return self.builder.shuffle_vector(one, ir.Constant(VECTOR, ir.Undefined), first)

    def nothing(self) -> Any:
        return self.context.get_dummy_value()

    # ---- arithmetic

    def call(self, name: str, result: Any, arguments: list[Any]) -> Any:
        kind = ir.FunctionType(result, [argument.type for argument in arguments])
        return self.builder.call(cgutils.get_or_insert_function(self.builder.module, kind, name), arguments)

    def multiply_add(self, a: Any, b: Any, c: Any) -> Any:
        """a b + c, rounded once."""
        return self.call(f"llvm.fma.v{LANES}f32", VECTOR, [a, b, c])

    def smaller(self, a: Any, b: Any) -> Any:
        return self.call(f"llvm.minnum.v{LANES}f32", VECTOR, [a, b])

    def larger(self, a: Any, b: Any) -> Any:
        return self.call(f"llvm.maxnum.v{LANES}f32", VECTOR, [a, b])

    def sum(self, value: Any) -> Any:
        """The sum over the lanes."""
        kind = ir.FunctionType(FLOAT, [FLOAT, VECTOR])
        add = cgutils.get_or_insert_function(self.builder.module, kind, f"llvm.vector.reduce.fadd.v{LANES}f32")
        return self.builder.call(add, [ir.Constant(FLOAT, 0.0), value], fastmath=RELAXED)

    def how_many(self, mask: Any) -> Any:
        """How many lanes of a mask are true, as a float."""
        byte = self.builder.bitcast(mask, BYTE)
        return self.builder.uitofp(self.builder.zext(self.call("llvm.ctpop.i8", BYTE, [byte]), INT32), FLOAT)

    def _polynomial(self, x: Any, coefficients: tuple[float, ...]) -> Any:
        value = self.all(coefficients[-1])
        for coefficient in reversed(coefficients[:-1]):
            value = self.multiply_add(value, x, self.all(coefficient))
        return value

    def exponential(self, x: Any) -> Any:
        """e^x in every lane for -87 <= x <= 88; beyond, the value at the bound."""
        b = self.builder
        x = self.smaller(self.larger(x, self.all(-87.0)), self.all(88.0))
        whole = self.call(f"llvm.rint.v{LANES}f32", VECTOR, [b.fmul(x, self.all(1.0 / math.log(2.0)))])
        rest = self.multiply_add(whole, self.all(-LOG_2_HIGH), x)
        rest = self.multiply_add(whole, self.all(-LOG_2_LOW), rest)
        value = self.multiply_add(self._polynomial(rest, EXPONENTIAL), b.fmul(rest, rest), rest)
        exponent = b.add(b.fptosi(whole, INTEGERS), ir.Constant(INTEGERS, [127] * LANES))
        power = b.bitcast(b.shl(exponent, ir.Constant(INTEGERS, [23] * LANES)), VECTOR)
        return b.fmul(b.fadd(value, self.all(1.0)), power)

    def logarithm(self, x: Any) -> Any:
        """log x in every lane, for x positive and not denormal."""
        b = self.builder
        half, mantissa_bits, shift = (
            ir.Constant(INTEGERS, [value] * LANES) for value in (SQRT_HALF_BITS, MANTISSA_BITS, 23)
        )
        bits = b.sub(b.bitcast(x, INTEGERS), half)
        exponent = b.sitofp(b.ashr(bits, shift), VECTOR)
        m = b.fsub(b.bitcast(b.add(b.and_(bits, mantissa_bits), half), VECTOR), self.all(1.0))
        square = b.fmul(m, m)
        value = b.fmul(b.fmul(self._polynomial(m, LOGARITHM), m), square)
        value = self.multiply_add(exponent, self.all(LOG_2_LOW), value)
        value = self.multiply_add(square, self.all(-0.5), value)
        return self.multiply_add(exponent, self.all(LOG_2_HIGH), b.fadd(value, m))

    def sigmoid_and_softplus(self, x: Any) -> tuple[Any, Any]:
        """1 / (1 + e^-x) and log(1 + e^x) in every lane."""
        b = self.builder
        small = self.exponential(b.fneg(self.call(f"llvm.fabs.v{LANES}f32", VECTOR, [x])))  # at most 1
        whole = b.fadd(self.all(1.0), small)
        share = b.fdiv(self.all(1.0), whole)
        sigmoid = b.select(b.fcmp_ordered(">=", x, self.all(0.0)), share, b.fmul(small, share))
        return sigmoid, b.fadd(self.larger(x, self.all(0.0)), self.logarithm(whole))

    def root(self, x: Any) -> Any:
        """sqrt(x + 1e-10) in every lane."""
        return self.call(f"llvm.sqrt.v{LANES}f32", VECTOR, [self.builder.fadd(x, self.all(1e-10))])
