import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from neatrec.text import printable


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
