"""Operations on the numbers of one position's partners and negatives, eight at a time, for compiled code.

The numbers of a position fill whole registers; `slots` (see `layout.chunks`) says in its type how many.
"""

from __future__ import annotations

from typing import Any

from numba import types
from numba.extending import intrinsic

from neatrec.kernels.emit import Emit


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
