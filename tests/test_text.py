import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from neatrec.text import no_formula, plural, printable


@given(st.text(), st.integers(min_value=10, max_value=200))
def test_printable_text_has_no_control_characters_and_keeps_its_limit(
    text: str, limit: int
) -> None:
    shown = printable(text, limit=limit)
    assert len(shown) <= limit
    assert not any(
        unicodedata.category(character) in {"Cc", "Cf", "Cs", "Zl", "Zp"} for character in shown
    )


def test_escape_sequences_and_direction_overrides_are_shown_not_obeyed() -> None:
    assert printable("a\x1b[2Jb\u202ec") == "a\\x1b[2Jb\\u202ec"


def test_plural_counts() -> None:
    assert (plural(1, "item"), plural(0, "item"), plural(1234, "item")) == (
        "1 item",
        "0 items",
        "1,234 items",
    )


def test_what_a_spreadsheet_would_run_becomes_text() -> None:
    for start in "=+-@\t\r":
        assert no_formula(f"{start}cmd()") == f"'{start}cmd()"
    assert [no_formula(text) for text in ("tea", "-0.5", "", "1+1")] == ["tea", "-0.5", "", "1+1"]
