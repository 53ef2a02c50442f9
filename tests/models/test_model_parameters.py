"""Parameters: types, bounds, text from a command line, presets."""

from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from neatrec.errors import ParameterError
from neatrec.models import (
    MODEL_NAMES,
    ModelParameters,
    describe,
    make_model,
    model_class,
    parameter,
    parse_settings,
)


@dataclass(frozen=True)
class Sample(ModelParameters):
    dim: int = parameter(8, "How many.", low=1, high=64)
    rate: float = parameter(0.5, "How fast.", above=0.0)
    window: int | None = parameter(None, "How far.", low=1)
    shape: str = parameter("round", "How it looks.", choices=("round", "square"))
    loud: bool = parameter(False, "Whether it shouts.")

    presets: ClassVar[dict[str, dict[str, Any]]] = {"paper": {"dim": 4, "loud": True}}


@pytest.mark.parametrize(
    ("text", "value"),
    [("dim=12", 12), ("rate=1e-3", 0.001), ("window=none", None), ("loud=yes", True)],
)
def test_text_becomes_a_value_of_the_right_type(text: str, value: object) -> None:
    key = text.partition("=")[0]
    made = Sample.make(parse_settings([text]))
    assert getattr(made, key) == value
    assert type(getattr(made, key)) is type(value)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"dim": "many"}, "`dim` must be an integer, got 'many'"),
        ({"dim": True}, "`dim` must be an integer, got True"),
        ({"dim": 0}, "`dim` must be at least 1, got 0"),
        ({"rate": 0.0}, r"`rate` must be above 0\.0, got 0\.0"),
        ({"rate": "nan"}, "`rate` must be a finite number, got nan"),
        ({"window": "wide"}, "`window` must be an integer or none, got 'wide'"),
        ({"loud": "perhaps"}, "`loud` must be true or false, got 'perhaps'"),
        (
            {"shape": "rund"},
            r"`shape` must be one of round, square, got 'rund'\. Did you mean 'round'\?",
        ),
        ({"dims": 3}, r"`set` must be one of dim, rate, .* got 'dims'\. Did you mean 'dim'\?"),
    ],
)
def test_what_a_parameter_cannot_be_is_refused(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ParameterError, match=sentence):
        Sample.make(settings)


def test_settings_stand_on_top_of_a_preset() -> None:
    assert Sample.make(preset="paper") == Sample(dim=4, loud=True)
    assert Sample.make({"dim": "9"}, preset="paper") == Sample(dim=9, loud=True)
    assert Sample.make(preset="default") == Sample()
    with pytest.raises(
        ParameterError, match=r"`preset` must be one of default, paper, got 'papr'\. Did you mean"
    ):
        Sample.make(preset="papr")


def test_a_setting_is_a_key_and_a_value_given_once() -> None:
    for bad in ("dim", "=3", "dim:3"):
        with pytest.raises(ParameterError, match="`set` must be of the form key=value"):
            parse_settings([bad])
    with pytest.raises(ParameterError, match="dim comes twice"):
        parse_settings(["dim=1", "dim=2"])
    with pytest.raises(ParameterError, match="setting 'k' is given twice"):
        make_model("shrunk-lift", ["k=1"], k=2)


def test_models_are_known_by_name_and_take_their_own_parameters_only() -> None:
    assert {model_class(name).name for name in MODEL_NAMES} == set(MODEL_NAMES)
    assert [about.name for about in describe(["pop", "lift"])] == ["pop", "lift"]
    with pytest.raises(
        ParameterError,
        match=r"`model` must be one of pop, .* got 'jacard'\. Did you mean 'jaccard'\?",
    ):
        make_model("jacard")
    with pytest.raises(ParameterError, match="`set` must be left out: no parameters, got 'dim'"):
        make_model("pop", dim=3)
    with pytest.raises(
        ParameterError, match="`parameters` must be the ShrunkLiftParameters of 'shrunk-lift'"
    ):
        model_class("shrunk-lift")(Sample())
