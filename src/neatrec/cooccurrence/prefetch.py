"""`prefetch`: ask for a cache line before it is needed. Baskets lie all over memory; each would be waited for."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

AHEAD = 12
"""How many postings ahead the counter asks: long enough to arrive, short enough to still be there."""


@intrinsic
def prefetch(typing_context: Any, array: Any, index: Any) -> Any:
    """prefetch(array, index): a hint to load element `index` of a contiguous array, its dimensions run together."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        address = builder.bitcast(builder.gep(data, [arguments[1]]), ir.IntType(8).as_pointer())
        whole = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [address.type, whole, whole, whole])
        call = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        # for reading, into every level of the cache, data
        builder.call(call, [address, ir.Constant(whole, 0), ir.Constant(whole, 3), ir.Constant(whole, 1)])
        return context.get_dummy_value()

    return types.void(array, types.int64), emit
