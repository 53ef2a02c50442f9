"""Rows left out, each with its reason; users, times and attributes of baskets."""

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from neatrec.errors import SourceError
from neatrec.io import read_baskets

OPTIONS = {"basket": "order_id", "item": "sku"}
NEW_YEAR = int(datetime(2024, 1, 1, tzinfo=UTC).timestamp() * 1_000_000)
DAY = 86_400_000_000


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


NEW_YEARS = (
    *("2024-01-01", "20240101", "2024-01-01 00:00:00", "2024-01-01T02:00:00+02:00"),
    *("2024-01-01T00:00:00Z", "1704067200", "1704067200000", "1704067200000000"),
    *("1704067200000000000", "2024-01-01 02:00:00 +0200", "2024-01-01 02:00:00 +02:00"),
    *("2024-01-01t00:00z", "20240101T000000Z", "2024-01", "2024.01.01", "2024/01/01 00:00"),
    *("01.01.2024 00:00", "1.1.24", "2024-01-01T00:00:00.0Z", '"2024-01-01T00:00:00,0Z"'),
)


def test_times_are_utc_however_they_are_written(tmp_path: Path) -> None:
    lines = "".join(f"{number},tea,{text}\n" for number, text in enumerate(NEW_YEARS))
    baskets = read_baskets(write(tmp_path / "o.csv", f"order_id,sku,at\n{lines}"), time="at")
    assert baskets.times.tolist() == [NEW_YEAR] * len(NEW_YEARS)
    path = write(tmp_path / "o.csv", "order_id,sku,at\n1,tea,2024-01-01 00:00:00.5 UTC\n")
    assert read_baskets(path, time="at").times.tolist() == [NEW_YEAR + 500_000]


NO_TIMES = ("12", "99999999", "2024-02-30", "yesterday", "12345678901", "infinity", "1.5")
OUTSIDE = ("1969-12-31", "0019-08-03", "2101-01-01")


def test_what_is_no_time_of_our_days_is_refused(tmp_path: Path) -> None:
    for text in (*NO_TIMES, *OUTSIDE):
        path = write(tmp_path / "o.csv", f"order_id,sku,at\n1,tea,{text}\n")
        reason = "a time from 1970 to 2100," if text in OUTSIDE else "a time such as .*"
        with pytest.raises(
            SourceError, match=f"line 2, column 'at': must be {reason} got '{text}'"
        ):
            read_baskets(path, time="at")


def moments(tmp_path: Path, dates: list[str], **options: str) -> list[str]:
    """The times of baskets bought at `dates`, to the minute."""
    lines = [f"{i},tea,{date}" for i, date in enumerate(dates)]
    path = write(tmp_path / "o.csv", "\n".join(["order_id,sku,at", *lines, ""]))
    times = read_baskets(path, **OPTIONS, time="at", **options).times
    return [str(np.datetime64(int(time), "us"))[:16] for time in times]


@pytest.mark.parametrize(
    ("dates", "read"),
    [
        (["03/08/19", "13/08/19"], ["2019-08-03T00:00", "2019-08-13T00:00"]),
        (["03/08/19", "03/18/19"], ["2019-03-08T00:00", "2019-03-18T00:00"]),
        (["3/8/2019 7:05 PM", "3/18/2019 11:00 AM"], ["2019-03-08T19:05", "2019-03-18T11:00"]),
        (["03-08-2019", "20-08-2019 10:01:59"], ["2019-08-03T00:00", "2019-08-20T10:01"]),
        (["01.02.2025 07:00", "2.1.25"], ["2025-02-01T07:00", "2025-01-02T00:00"]),
        (["13/08/2019", "2019-09-01T08:00Z"], ["2019-08-13T00:00", "2019-09-01T08:00"]),
        (["03/08/99", "13/08/99"], ["1999-08-03T00:00", "1999-08-13T00:00"]),
    ],
)
def test_all_dates_together_tell_whether_the_day_comes_first(
    tmp_path: Path, dates: list[str], read: list[str]
) -> None:
    assert moments(tmp_path, dates) == read


@pytest.mark.parametrize(
    ("dates", "trouble"),
    [
        (["03/08/19", "04/08/19"], "dates such as 0[34]/08/19 do not tell which number is the day"),
        (["19/08/03", "20/08/03"], "do not tell which number is the day, the month and the year"),
        (["19-08-03", "20-08-13"], "do not tell which number is the day, the month and the year"),
        (["13/08/19", "04/18/19"], "some dates have the day first and some the month"),
    ],
)
def test_dates_that_do_not_tell_are_refused_with_the_option(
    tmp_path: Path, dates: list[str], trouble: str
) -> None:
    with pytest.raises(SourceError, match=rf"column 'at': .*{trouble}.*--time-format '%d/%m/%y'"):
        moments(tmp_path, dates)
    order = (
        "%y" + dates[0][2] + "%m" + dates[0][2] + "%d" if dates[0].startswith("19") else "%d/%m/%y"
    )
    if "some" not in trouble:
        assert moments(tmp_path, dates, time_format=order)[0][:4] == "2019"


def test_a_format_is_taken_at_its_word(tmp_path: Path) -> None:
    assert moments(tmp_path, ["31 Jan 2024 - 18h30"], time_format="%d %b %Y - %Hh%M") == [
        "2024-01-31T18:30"
    ]
    assert moments(tmp_path, ["31.1.24 18:30 +0100"], time_format="%d.%m.%y %H:%M %z") == [
        "2024-01-31T17:30"
    ]
    with pytest.raises(SourceError, match="line 3, column 'at': must be a time"):
        moments(tmp_path, ["31.1.24", "2024-01-31"], time_format="%d.%m.%y")


def test_times_of_any_type_mean_the_same() -> None:
    seconds = NEW_YEAR // 1_000_000
    for column in (
        pa.array([NEW_YEAR], pa.timestamp("us")),
        pa.array([NEW_YEAR], pa.timestamp("us", tz="Europe/Berlin")),
        pa.array([NEW_YEAR * 1000], pa.timestamp("ns")),
        pa.array([seconds], pa.timestamp("s")),
        pa.array([NEW_YEAR // DAY], pa.date32()),
        pa.array([seconds], pa.int64()),
        pa.array([20240101], pa.int32()),
        pa.array([float(seconds)]),
        pa.array(["2024-01-01"], pa.large_string()),
    ):
        baskets = read_baskets(pa.table({"order_id": [1], "sku": ["tea"], "at": column}), time="at")
        assert baskets.times.tolist() == [NEW_YEAR], column.type


def test_since_is_within_and_until_is_not_and_baskets_stay_whole(tmp_path: Path) -> None:
    path = write(
        tmp_path / "o.csv",
        "order_id,sku,at\n1,tea,2023-12-31T23:59\n2,tea,2024-01-01\n2,milk,2024-01-05\n3,tea,2024-01-02\n4,tea,\n",
    )
    baskets = read_baskets(path, **OPTIONS, time="at", since="2024-01-01", until="2024-01-02")
    assert baskets.ids.to_pylist() == ["2"]
    assert baskets.lines == 2
    assert baskets.times.tolist() == [NEW_YEAR]
    assert baskets.dropped == {"no time": 1, "outside since and until": 2}


def test_every_reason_is_counted_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = write(
        tmp_path / "o.csv",
        "order_id,sku,qty,pos\n1,tea,1,1\n1,milk,1,2\n1,tea,1,3\n1,bag,1,4\n,tea,1,1\n1,,1,1\n1,jam,0,5\n1,salt,-2,6\n"
        "1,oil,1,x\n1,rice\n2,tea,,1\n",
    )
    baskets = read_baskets(
        path, **OPTIONS, quantity="qty", position="pos", exclude_item=("bag", "unheard of"), max_bad_rows=2,
    )  # fmt: skip
    assert baskets.dropped == {
        "bad rows": 2, "no basket or item id": 2, "returns": 2, "excluded items": 1, "repeated lines": 1,
    }  # fmt: skip
    assert "1 id is to exclude and no item of the source: unheard of" in caplog.text
    assert baskets.catalog.ids.to_pylist() == ["milk", "tea"]
    assert baskets.sizes.tolist() == [2, 1]
    listed = (
        "2 rows could not be read: {0}, line 10, column 'pos': must be a number, got 'x'; "
        "{0}, line 11: the line has fewer fields than the header"
    )
    assert listed.format(path) in caplog.text
    path.write_text("order_id,sku\n1,milk\n1\n")
    with pytest.raises(SourceError) as refused:
        read_baskets(path, **OPTIONS)
    assert str(refused.value.hint).endswith("--max-bad-rows 100 or 0.5%.")


def test_a_basket_without_a_user_is_a_customer_of_its_own(tmp_path: Path) -> None:
    path = write(
        tmp_path / "o.csv",
        "order_id,sku,who\n1,tea,ann\n2,tea,\n3,tea,\n4,tea,ann\n5,tea,\n5,milk,bob\n",
    )
    baskets = read_baskets(path, **OPTIONS, user="who")
    assert baskets.users is not None
    users = baskets.user_ids.to_pylist()
    assert [users[code] for code in baskets.users] == ["ann", "guest:2", "guest:3", "ann", "bob"]


def test_attributes_belong_to_the_whole_basket(tmp_path: Path) -> None:
    path = write(
        tmp_path / "o.csv", "order_id,sku,store\n1,tea,north\n1,milk,\n2,tea,\n3,tea,east\n"
    )
    store = read_baskets(path, **OPTIONS, attributes="store").attributes["store"]
    assert [store.names[code] for code in store.codes] == ["north", "unknown", "east"]
    write(path, "order_id,sku,store\n1,tea,north\n1,milk,south\n")
    with pytest.raises(
        SourceError, match="basket '1' has two values in column 'store': 'north' and 'south'"
    ):
        read_baskets(path, **OPTIONS, attributes="store")
