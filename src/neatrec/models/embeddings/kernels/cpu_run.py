"""From a kernel's arguments to compiled code: which way through the span, with which room, on how many threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from neatrec.models.embeddings.kernels.arguments import LONGEST, Draws, KernelSettings, Shard, Tally, groups_of
from neatrec.models.embeddings.kernels.cpu_gradients import changes_of_line, new_tape
from neatrec.models.embeddings.kernels.cpu_threads import alone, side_by_side, tally_of, together
from neatrec.models.embeddings.kernels.layout import Table, chunks


class Ways(NamedTuple):
    """The compiled functions of one kernel."""

    new_room: Callable[[int, KernelSettings], Any]
    in_blocks: Callable[..., Any]
    in_batches: Callable[..., Any] | None
    at_once: Callable[..., Any] | None = None
    """The quick way, where there is one of its own; otherwise blocks of one unit."""
    line_tables: int = 1
    """Tables in which a line has a row."""
    streams: int = 1
    """Kinds of negatives."""
    vectors: int = 1
    """Vectors of a row."""


def run(
    ways: Ways,
    tables: tuple[Table, ...],
    shard: Shard,
    draws: Draws,
    settings: KernelSettings,
    first: int,
    last: int,
    threads: int,
) -> Tally:
    """Train on units `first` to `last`. Mini-batches come one after the other, on one thread."""
    if first == last:
        return Tally(0, 0.0, 0)
    lines = LONGEST + 2 * settings.window
    shape = chunks(settings.dim), chunks(settings.negatives), chunks(settings.window)
    each = changes_of_line(settings, ways.line_tables, ways.streams)

    def tape_for(part: KernelSettings, start: int, stop: int) -> Any:
        return new_tape(shard, part, start, stop, ways.line_tables, ways.streams, ways.vectors)

    def blocks(part: KernelSettings, start: int, stop: int, tape: Any, crew: Any) -> Any:
        room = ways.new_room(lines, part)
        return ways.in_blocks(tables, shard, draws, part, start, stop, room, tape, crew, each, *shape)

    def at_once(part: KernelSettings, start: int, stop: int) -> Any:
        if ways.at_once is None:
            part = part._replace(block=1)
            return blocks(part, start, stop, tape_for(part, start, stop), alone())
        room = ways.new_room(lines, part)
        return ways.at_once(tables, shard, draws, part, start, stop, room, groups_of(part), *shape)

    if settings.batch and ways.in_batches is not None:
        tape, room = tape_for(settings, first, last), ways.new_room(lines, settings)
        return tally_of([ways.in_batches(tables, shard, draws, settings, first, last, room, tape, *shape)])
    if settings.block:
        tape = tape_for(settings, first, last)
        return together(threads, lambda crew: blocks(settings, first, last, tape, crew))
    return side_by_side(threads, settings, first, last, at_once)
