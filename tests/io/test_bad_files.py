"""Every awkward file is read rightly, or refused with a sentence; nothing else ever comes out."""

from pathlib import Path

import pytest

from helpers.bad_files import BAD_FILES, BadFile, options_for
from neatrec.data import Baskets
from neatrec.errors import InputError
from neatrec.io import read_baskets


def as_dict(baskets: Baskets) -> dict[str, list[str]]:
    ids = baskets.catalog.ids.to_pylist()
    bounds = baskets.offsets.tolist()
    items = [ids[code] for code in baskets.items]
    return {b: items[bounds[i] : bounds[i + 1]] for i, b in enumerate(baskets.ids.to_pylist())}


@pytest.mark.parametrize("bad", BAD_FILES, ids=lambda bad: bad.name)
def test_awkward_file(bad: BadFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    source = bad.write(tmp_path)
    if bad.expected == "reads":
        assert repr(as_dict(read_baskets(source, **options_for(bad, tmp_path)))) == bad.match
        return
    with pytest.raises(InputError, match=f"(?s){bad.match}") as caught:
        read_baskets(source, **options_for(bad, tmp_path))
    assert caught.value.exit_code == 2
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 700
