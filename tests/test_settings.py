from __future__ import annotations

from dataclasses import dataclass

import pytest

from jakiro.methods.jakiro import JakiroSettings
from jakiro.settings import autos, build, check, setting


@dataclass(frozen=True, slots=True)
class Example:
    depth: int = setting(6, "Levels.", 1, 16)
    share: float = setting(0.5, "A share.", 0.0, 1.0)
    wide: bool = setting(True, "Whether.")
    mode: str = setting("one", "Which.", choices=("one", "two"))
    count: int = setting(3, "At least one.", low=1)
    size: int | str = setting(8, "A size.", 1, 64, auto=True)

    def __post_init__(self) -> None:
        check(self)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, Example()),
        ({"depth": "4"}, Example(depth=4)),
        ({"depth": 4.0}, Example(depth=4)),
        ({"share": "1e-1"}, Example(share=0.1)),
        ({"share": 1}, Example(share=1.0)),
        ({"wide": "off", "mode": "two"}, Example(wide=False, mode="two")),
        ({"wide": "True"}, Example(wide=True)),
        ({"size": "12"}, Example(size=12)),
        ({"size": "auto"}, Example(size="auto")),
        ({"size": " Auto "}, Example(size="auto")),
    ],
)
def test_text_and_numbers_are_read_into_the_fields_type(changes: dict, expected: Example) -> None:
    built = build(Example, None, changes)
    assert built == expected
    assert type(built.depth) is int and type(built.share) is float


def test_base_gives_what_is_not_changed() -> None:
    assert build(Example, Example(depth=2, mode="two"), {"depth": 3}) == Example(depth=3, mode="two")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dept": 1}, "unknown setting 'dept'; known: depth, share, wide, mode, count, size"),
        ({"depth": 17}, "depth must be a whole number from 1 to 16, not 17"),
        ({"depth": "six"}, "depth must be a whole number from 1 to 16, not 'six'"),
        ({"depth": 2.5}, "not 2.5"),
        ({"depth": True}, "not True"),
        ({"count": 0}, "count must be a whole number of at least 1, not 0"),
        ({"share": "nan"}, "share must be a finite number from 0.0 to 1.0, not nan"),
        ({"wide": "perhaps"}, "wide must be on or off, not 'perhaps'"),
        ({"wide": 1}, "wide must be on or off, not 1"),
        ({"size": 0}, "size must be a whole number from 1 to 64, or auto, not 0"),
        ({"size": "automatic"}, "size must be a whole number from 1 to 64, or auto, not 'automatic'"),
        ({"count": -(10**400)}, "count must be a whole number of at least 1, not -1000"),
        ({"share": 10**400}, "share must be a finite number from 0.0 to 1.0, not 1000"),
        ({"depth": "auto"}, "depth must be a whole number from 1 to 16, not 'auto'"),
        ({"mode": "three"}, "mode must be one of one, two, not 'three'"),
        ({"wide": "x" * 5000}, "wide must be on or off, not 'xxx"),
        ({"x" * 5000: 1}, "unknown setting 'xxx"),
    ],
)
def test_errors_name_the_setting_the_range_and_the_value(changes: dict, message: str) -> None:
    with pytest.raises(ValueError) as error:
        build(Example, None, changes)
    assert message in str(error.value) and len(str(error.value)) < 200


@pytest.mark.parametrize(
    "changes",
    [{"depth": 1}, {"depth": 2, "aligned": False}, {"candidates": "both"}, {"top_k": 0}, {"total_tokens": 0}],
)
def test_jakiro_settings_that_contradict_each_other_are_refused(changes: dict) -> None:
    with pytest.raises(ValueError):
        JakiroSettings(**changes)


def test_jakiro_settings_at_the_edge_are_allowed() -> None:
    JakiroSettings(depth=2)
    JakiroSettings(depth=3, aligned=False)
    JakiroSettings(depth=1, contrastive=False, aligned=False)
    JakiroSettings(depth="auto", aligned=False)


def test_autos_names_what_is_to_be_measured() -> None:
    assert autos(Example()) == () and autos(Example(size="auto", mode="two")) == ("size",)
    assert autos(JakiroSettings("auto", 3, "auto")) == ("top_k", "total_tokens")
