"""Files larger than the memory the database may use."""

from pathlib import Path

import pytest

from neatrec.errors import ResourceError
from neatrec.io import database, read_baskets


def test_where_no_memory_is_enough_the_folder_and_its_room_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "orders.csv"
    rows = (f"order {i // 10},item {i * 7919 % 5000}\n" for i in range(300_000))
    source.write_text("order_id,sku\n" + "".join(rows))
    monkeypatch.setattr(database, "MEMORY_LIMIT", 8 << 20)
    wanted = r"orders\.csv needs more than 8 MiB of memory and the [\d,]+ MiB free in .*TMPDIR"
    with pytest.raises(ResourceError, match=wanted):
        read_baskets(source)


def test_the_line_of_a_bad_value_is_told_among_others_of_every_kind(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Blank lines, records over several lines, quotes, and lines that are no records."""
    rows, line = ["order_id,sku,pos,note"], 0
    for number in range(20_000):
        note = {1: '"two\nlines"', 2: '5" nail', 3: '"a ""b"""'}.get(number % 7, "x")
        is_bad = number == 19_003
        line = "\n".join(rows).count("\n") + 2 if is_bad else line
        rows.append(f"{number},tea,{'soon' if is_bad else 1},{note}")
        rows += [""] * (number % 7 == 4) + [f"{number},milk"] * (number in (500, 9_000))
    path = tmp_path / "orders.csv"
    path.write_text("\n".join([*rows, ""]))
    read_baskets(path, position="pos", max_bad_rows="1%")
    assert f"line {line:,}, column 'pos': must be a number, got 'soon'" in caplog.text
