"""`borrowed`: arrays that compiled code uses without counting who holds them."""

from __future__ import annotations

from typing import Any

from numba import types
from numba.extending import intrinsic


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
