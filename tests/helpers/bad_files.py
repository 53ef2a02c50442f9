"""Files as people really have them: each is read rightly, or refused with a sentence that helps."""

import gzip
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

HEADER = "order_id,sku,pos\n"
ROWS = "1,tea,1\n1,milk,2\n2,tea,1\n"
GOOD = HEADER + ROWS
PAIR = {"basket": "order_id", "item": "sku"}
POSITIONS = {**PAIR, "position": "pos"}


class BadFile(NamedTuple):
    name: str
    write: Callable[[Path], str]
    """Writes into a folder and gives the SOURCE."""
    expected: str
    """"reads" or "refuses"."""
    match: str
    """Message (refuses), or the baskets as {id: [items in order]} in repr (reads)."""
    options: Mapping[str, Any]
    """`SourceOptions`, by name; a value "@NAME" is a file in the folder."""


def csv(content: str | bytes, name: str = "orders.csv") -> Callable[[Path], str]:
    def write(folder: Path) -> str:
        data = content.encode() if isinstance(content, str) else content
        (folder / name).write_bytes(data)
        return str(folder / name)

    return write


def files(source: str, **contents: str | bytes) -> Callable[[Path], str]:
    """Several files; in their names __ stands for a slash and _DOT_ for a dot."""

    def write(folder: Path) -> str:
        for key, content in contents.items():
            path = folder / key.replace("_DOT_", ".").replace("__", "/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        return str(folder / source)

    return write


def parquet(
    table: pa.Table | dict[str, Any], name: str = "orders.parquet"
) -> Callable[[Path], str]:
    def write(folder: Path) -> str:
        pq.write_table(table if isinstance(table, pa.Table) else pa.table(table), folder / name)
        return str(folder / name)

    return write


def missing(name: str) -> Callable[[Path], str]:
    return lambda folder: str(folder / name)


def endless_link(folder: Path) -> str:
    """A link to itself: a file that nobody, not even root, can read."""
    (folder / "orders.csv").symlink_to(folder / "orders.csv")
    return str(folder / "orders.csv")


def cut_parquet(folder: Path) -> str:
    path = Path(parquet({"order_id": list(range(1000)), "sku": ["tea"] * 1000})(folder))
    path.write_bytes(path.read_bytes()[:500])
    return str(path)


def parquet_with_broken_page(folder: Path) -> str:
    path = Path(
        parquet({"order_id": list(range(1000)), "sku": [f"item {i}" for i in range(1000)]})(folder)
    )
    data = bytearray(path.read_bytes())
    data[4:600] = bytes(596)
    path.write_bytes(bytes(data))
    return str(path)


def cut_gzip() -> bytes:
    text = GOOD + "".join(f"{order},item {order * 7919 % 977},1\n" for order in range(3, 5000))
    packed = gzip.compress(text.encode())
    return packed[: len(packed) // 2]


def text_frame(encoding: str, mark: bytes = b"") -> bytes:
    return mark + (HEADER + "1,thé,1\n1,lait,2\n2,thé,1\n").encode(encoding)


TWO = "{'1': ['tea', 'milk'], '2': ['tea']}"
FRENCH = "{'1': ['thé', 'lait'], '2': ['thé']}"
ONE_GOOD = "{'1': ['tea', 'milk']}"
CATALOG = "sku,name,category\ntea,Tea,drinks\nmilk,Milk,dairy\njam,Jam,spreads\n"


def beside(**contents: str | bytes) -> Callable[[Path], str]:
    """Good orders, and other files in the same folder."""
    return files("orders.csv", orders_DOT_csv=GOOD, **contents)


Content = str | bytes | dict[str, Any] | Callable[[Path], str]
"""Text of a CSV file, columns of a Parquet file, or what writes the files."""


def writer(content: Content) -> Callable[[Path], str]:
    if isinstance(content, dict):
        return parquet(content)
    return csv(content) if isinstance(content, str | bytes) else content


def reads(
    name: str,
    content: Content,
    baskets: str = TWO,
    *,
    given: Mapping[str, Any] = POSITIONS,
    **options: Any,
) -> BadFile:
    return BadFile(name, writer(content), "reads", baskets, {**given, **options})


def refuses(
    name: str, content: Content, match: str, *, given: Mapping[str, Any] = POSITIONS, **options: Any
) -> BadFile:
    return BadFile(name, writer(content), "refuses", match, {**given, **options})


# fmt: off
NOTHING_IN_IT = [
    refuses("empty file", "", "is empty"),
    refuses("header only", HEADER, "has column names but no rows"),
    refuses("parquet without columns", parquet(pa.table({})), "cannot read .*orders.parquet"),
    refuses("empty gzip", csv(gzip.compress(b""), "orders.csv.gz"), "is empty"),
    refuses("empty folder", lambda folder: str(folder), "holds no CSV"),
    refuses("folder of other files", files("shop", shop__readme_DOT_txt="hello"), "holds no CSV"),
    refuses("all ids missing", HEADER + ",tea,1\n,milk,2\n",
        "no basket lines are left.*2 no basket or item id"),
]

NO_SUCH_FILE = [
    refuses("missing file", missing("orders.csv"), "no file or folder .*orders.csv"),
    refuses("missing file with a near name", files("ordres.csv", orders_DOT_csv=GOOD),
        "Did you mean .*orders.csv"),
    refuses("glob without a match", missing("*.csv"), "no file matches"),
    refuses("unreadable file", endless_link, "cannot read|no file or folder"),
    refuses("a device", lambda folder: "/dev/null", "not a regular file"),
    refuses("missing catalogue", GOOD, "no file or folder", catalog="@absent.csv"),
]

WRONG_KIND = [
    refuses("a parquet that is none", csv(GOOD, "orders.parquet"),
        "called .parquet but does not begin like one"),
    refuses("a cut-off parquet", cut_parquet, "cannot read .*orders.parquet", given=PAIR),
    refuses("a parquet with a broken page", parquet_with_broken_page, "cannot read", given=PAIR),
    refuses("an Excel workbook", csv(b"PK\x03\x04" + bytes(100), "orders.csv"),
        "Excel workbook: save it as CSV"),
    refuses("random bytes", bytes(range(256)) * 40,
        "NUL bytes|not UTF-8|no column|no header|readable header"),
    refuses("a cut-off gzip", csv(cut_gzip(), "orders.csv.gz"),
        "damaged or cut-off gzip"),
    reads("a gzip that is called csv", csv(gzip.compress(GOOD.encode()), "orders.csv")),
    reads("a csv with another ending", csv(GOOD, "orders.txt")),
]

COLUMNS = [
    refuses("missing column", GOOD,
        r"no column 'ordr_id' for basket; its columns are: order_id, sku, pos.*--basket order_id",
        basket="ordr_id"),
    refuses("names that say nothing", "a,b\n1,2\n",
        "no column known to be the basket; its columns are: a, b", given={}),
    refuses("no header", ROWS, "no column 'order_id'"),
    reads("names that are usual", "Order ID,SKU\n1,tea\n1,milk\n2,tea\n",
        "{'1': ['milk', 'tea'], '2': ['tea']}", given={}),
    refuses("a column twice", "order_id,sku,sku,pos\n1,tea,a,1\n", "column 'sku': occurs 2 times"),
    reads("names in other cases",
        {"order_id": [1, 1, 2], "ORDER_ID": [9] * 3, "sku": ["tea", "milk", "tea"], "pos": [1, 2, 1]}),
    refuses("mixed schemas",
        files("shop", shop__a_DOT_csv=GOOD, shop__b_DOT_csv="order,sku,pos\n3,tea,1\n"),
        "b.csv has no column 'order_id'.*a.csv has it"),
    reads(
        "columns in another order",
        files(
            "shop",
            shop__a_DOT_csv=HEADER + "1,tea,1\n",
            shop__b_DOT_csv="pos;sku;order_id\n2;milk;1\n1;tea;2\n",
        ),
    ),
]

TEXT = [
    reads("semicolons", GOOD.replace(",", ";")),
    reads("tabs", csv(GOOD.replace(",", "\t"), "orders.tsv")),
    refuses("an unusual delimiter", GOOD.replace(",", "~"), "only one: fields must be separated"),
    reads("Windows line ends", GOOD.replace("\n", "\r\n")),
    reads("old Mac line ends", GOOD.replace("\n", "\r")),
    refuses("mixed line ends", HEADER + "1,tea,1\r\n1,milk,2\n2,tea,1\r\n",
        "cannot read .*orders.csv: .*All lines must end alike"),
    reads("no last line end", GOOD.rstrip()),
    reads("blank lines", "\n" + HEADER + "1,tea,1\n\n1,milk,2\n\n2,tea,1\n\n"),
    reads("UTF-8 with a mark", b"\xef\xbb\xbf" + GOOD.encode()),
    reads("UTF-8", text_frame("utf-8"), FRENCH),
    reads("UTF-16 with a mark", text_frame("utf-16-le", b"\xff\xfe"), FRENCH),
    refuses("UTF-16 without a mark", text_frame("utf-16-le"), "NUL bytes.*Export it again"),
    reads("Latin-1", text_frame("latin-1"), FRENCH),
    refuses("UTF-8 and Latin-1 in one file", text_frame("utf-8") + "3,thé,1\n".encode("latin-1"),
        "line 5: is not UTF-8, and other lines are.*--encoding windows-1252"),
    reads("Latin-1 that is said", text_frame("latin-1"), FRENCH, encoding="latin-1"),
    refuses("NUL in an item", HEADER + "1,tea,1\n1,mi\0lk,2\n", "line 3, column 'sku'.*NUL"),
]

RECORDS = [
    refuses("too few fields", HEADER + "1,tea,1\n1,milk\n2,tea,1\n",
        "line 3: the line has fewer fields"),
    refuses("too many fields", HEADER + "1,tea,1\n1,milk,2,3\n2,tea,1\n",
        "line 3: the line has more fields"),
    refuses("a quote that never closes", HEADER + '1,tea,1\n1,"milk,2\n2,tea,1\n',
        "line 3: a quote is opened and not closed"),
    refuses("a quote that never closes, bad rows allowed", HEADER + '1,tea,1\n1,"milk,2\n2,tea,1\n',
        "line 3: a quote is opened and not closed", max_bad_rows=100),
    reads("a quote inside", HEADER + '1,5" nail,1\n1,"12"" board",2\n',
        "{'1': ['5\" nail', '12\" board']}"),
    refuses("quotes escaped with a backslash", HEADER + '1,"a \\"good\\" tea",1\n1,milk,2\n',
        "line 2: a quote is opened and not closed, or text follows a closing quote"),
    reads("line ends and commas in a field",
        'order_id,sku,pos,note\n1,tea,1,"green\nand loose, ""fine"""\n1,milk,2,\n2,tea,1,\n'),
    refuses("a line end in an id", HEADER + '1,"tea,1\n1,milk"",2\n2,tea"",1\n3,salt",1\n4,tea,1\n',
        "line 2, column 'sku': must stand on one line: a quote may be opened and not closed",
        max_bad_rows=100),
    reads("a field of 3 MB",
        "order_id,sku,pos,note\n1,tea,1," + "x" * 3_000_000 + "\n1,milk,2,\n2,tea,1,\n"),
    refuses("a bad value after line ends in a field",
        'order_id,sku,note,pos\n1,tea,"green\n\n or black",1\n1,milk,,two\n',
        "line 5, column 'pos'.*'two'"),
]

VALUES = [
    refuses("text for a position", HEADER + "1,tea,1\n1,milk,second\n",
        "line 3, column 'pos': must be a number, got 'second'"),
    refuses("a negative position", HEADER + "1,tea,1\n1,milk,-2\n",
        "line 3, column 'pos': must be a number from 0"),
    refuses("no position", HEADER + "1,tea,1\n1,milk,\n",
        "line 3, column 'pos': must be a number, is missing"),
    refuses("one position for all lines", HEADER + "1,tea,1\n1,milk,1\n2,tea,7\n",
        "column 'pos' has one value in each basket: it gives no order"),
    reads("positions with gaps and fractions", HEADER + "1,milk,7.5\n1,tea,0\n2,tea,1e3\n"),
    reads("missing ids", GOOD + ",tea,1\n1,,3\nNULL,tea,1\n2,nan,2\n"),
    refuses("an attribute that is no column", "order_id,sku,store\n1,tea,north\n",
        "has no column 'stor' for attribute.*Likely meant: --strata store", given=PAIR,
        attributes="stor"),
    reads("ids that spreadsheets and R write for nothing",
        GOOD + "NA,tea,1\n1,N/A,3\n1,#N/A,4\nNull,tea,5\n"),
    reads("ids with spaces and markers in them", HEADER + "1, NA,1\n1,N A,2\n",
        "{'1': [' NA', 'N A']}"),
    refuses("a column called file_row_number in parquet",
        {"order_id": [1, 2], "file_row_number": [70, 80], "sku": ["tea"] * 2, "pos": ["1", "x"]},
        "row 2, column 'pos': must be a number, got 'x'"),
    reads("ids with leading zeros", HEADER + "007,00,1\n007,0,2\n", "{'007': ['00', '0']}"),
    reads("whole floats for ids",
        {"order_id": [1.0, 1, 2, None], "sku": ["tea", "milk", "tea", "tea"], "pos": [1, 2, 1, 1]}),
    reads("rows that are allowed", HEADER + "1,tea,1\n1,milk,2\n2,tea,x\n2,milk\n", ONE_GOOD,
        max_bad_rows=2),
    refuses("one more than is allowed", HEADER + "1,tea,1\n1,milk,2\n2,tea,x\n2,milk\n",
        "the first of 2 bad rows", max_bad_rows=1),
    refuses("more than the share", HEADER + "1,tea,1\n1,milk,2\n2,tea,x\n2,milk\n",
        "the first of 2 bad rows", max_bad_rows="49%"),
    refuses("an infinite position", HEADER + "1,tea,1\n1,milk,inf\n",
        "line 3, column 'pos': must be a number, got 'inf'"),
    refuses("since without a time", GOOD, "`since` must be given with a column of times", since="2024-02-01"),
    reads("control characters", HEADER + "1,\x1b[31mtea\x07,1\n", "{'1': ['\\x1b[31mtea\\x07']}"),
    refuses("control characters in an error", "order_id,sku,\x1b[31mpos\n1,tea,x\n",
        r"column '\\x1b\[31mpos'", position="\x1b[31mpos"),
]

CATALOGUES = [
    reads("a catalogue", beside(c_DOT_csv=CATALOG), catalog="@c.csv"),
    refuses("an item twice in the catalogue", beside(c_DOT_csv=CATALOG + "tea,Green tea,drinks\n"),
        "line 5, column 'sku': item 'tea' is in the catalogue twice", catalog="@c.csv"),
    refuses("a catalogue without its item column", beside(c_DOT_csv="number,name\n1,Tea\n"),
        "c.csv has no column 'sku'", catalog="@c.csv"),
    refuses("a catalogue without the category asked for", beside(c_DOT_csv=CATALOG),
        "no column 'aisle' for category", catalog="@c.csv", category=("aisle",)),
    refuses("an empty catalogue", beside(c_DOT_csv=""),
        "c.csv is empty: it must hold one row per item", catalog="@c.csv"),
    refuses("a ragged catalogue", beside(c_DOT_csv=CATALOG + "salt\n"),
        "c.csv, line 5: the line has fewer fields than the header. Fix it: no bad row",
        catalog="@c.csv"),
    refuses("a folder of several tables",
        files("shop", shop__customers_DOT_csv="id,name\n1,ann\n", shop__orders_DOT_csv=GOOD),
        "customers.csv has no column known to be the basket.*give one file or a glob", given={}),
    refuses(
        "a catalogue of other ids",
        beside(c_DOT_csv="product_id,name\n17,Tea\n18,Milk\n"),
        "none of the 2 items bought is in the catalogue .*look like '1[78]', those bought like "
        "'(tea|milk)'",
        catalog="@c.csv",
    ),
    refuses("groups of groups", beside(c_DOT_csv="sku,parent\ntea,milk\nmilk,cow\n"),
        "itself an item of group 'cow'", catalog="@c.csv", group="parent"),
    refuses("all items left out", GOOD, "no basket lines are left.*3 excluded items",
        exclude_item=("tea", "milk")),
]

BAD_FILES = [
    *NOTHING_IN_IT,
    *NO_SUCH_FILE,
    *WRONG_KIND,
    *COLUMNS,
    *TEXT,
    *RECORDS,
    *VALUES,
    *CATALOGUES,
]
# fmt: on


def options_for(bad: BadFile, folder: Path) -> dict[str, Any]:
    """The options with "@NAME" turned into a path in `folder`."""
    return {
        key: str(folder / value[1:]) if isinstance(value, str) and value.startswith("@") else value
        for key, value in bad.options.items()
    }
