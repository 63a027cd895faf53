"""The settings panel follows the settings' own metadata."""

from __future__ import annotations

from dataclasses import dataclass, fields

import gradio as gr
import pytest

from jakiro.methods import METHODS
from jakiro.settings import AUTO, build, setting
from jakiro.ui.controls import Controls, control, racers


@dataclass(frozen=True)
class Sample:
    on: bool = setting(True, "help of on")
    kind: str = setting("a", "help of kind", choices=("a", "b"))
    count: int = setting(3, "help of count", 1, 9)
    share: float = setting(0.5, "help of share", 0.0, 1.0)
    free: int = setting(4, "help of free", low=1)
    name: str = setting("x", "help of name")


def test_there_is_a_race_to_begin_with():
    """Without EAGLE-2's and Jakiro's heads what is there is ticked: a draft model that was given, say."""
    assert (
        racers(METHODS) == racers(["vanilla", "prompt_lookup", "eagle2", "jakiro"]) == ["vanilla", "eagle2", "jakiro"]
    )
    assert racers(["vanilla", "draft_model", "jakiro"]) == ["vanilla", "jakiro"]
    assert racers(["vanilla", "draft_model-a", "jakiro-a"]) == ["vanilla", "jakiro-a"]
    assert racers(["vanilla", "prompt_lookup", "draft_model"]) == ["vanilla", "prompt_lookup", "draft_model"]


def test_each_kind_of_field_gets_its_control():
    on, kind, count, share, free, name = map(control, fields(Sample))
    assert isinstance(on, gr.Checkbox) and on.value is True
    assert isinstance(kind, gr.Radio) and [value for _, value in kind.choices] == ["a", "b"]
    assert isinstance(count, gr.Slider) and (count.minimum, count.maximum, count.step, count.value) == (1, 9, 1, 3)
    assert isinstance(share, gr.Slider) and share.step < 1
    assert isinstance(free, gr.Number) and (free.minimum, free.maximum, free.precision) == (None, None, None)
    assert isinstance(name, gr.Textbox)
    assert count.label == "count" and kind.label == "kind" and share.info == "help of share"


@pytest.fixture
def controls() -> Controls:
    with gr.Blocks():
        return Controls()


def test_every_setting_of_every_method_has_a_control(controls):
    assert controls.keys == [(name, one.name) for name, method in METHODS.items() for one in fields(method.settings)]
    own = {(name, one.name): one for name, method in METHODS.items() for one in fields(method.settings)}
    assert list(controls.boxes) == [key for key in controls.keys if own[key].metadata["auto"]]
    assert {("eagle2", "total_tokens"), ("jakiro", "top_k"), ("jakiro", "depth")} <= set(controls.boxes)
    assert controls.components[len(controls.keys) :] == list(controls.boxes.values())


def test_values_read_back_build_the_same_settings(controls):
    changes = controls.read([component.value for component in controls.components])
    for name, method in METHODS.items():
        assert build(method.settings, None, changes[name]) == method.settings()


def test_a_ticked_box_counts_instead_of_the_number(controls):
    values = [component.value for component in controls.components]
    values[len(controls.keys) + list(controls.boxes).index(("jakiro", "depth"))] = True
    changes = controls.read(values)
    assert changes["jakiro"]["depth"] == AUTO and changes["jakiro"]["top_k"] == METHODS["jakiro"].settings().top_k
    assert AUTO not in changes["eagle2"].values()
    settings = build(METHODS["jakiro"].settings, None, changes["jakiro"])
    updates = controls.show({"jakiro": settings})
    shown = dict(zip(controls.keys, updates, strict=False))
    ticked = dict(zip(controls.boxes, updates[len(controls.keys) :], strict=False))
    assert not shown["jakiro", "depth"]["interactive"] and shown["jakiro", "top_k"]["interactive"]
    assert ticked["jakiro", "depth"]["value"] is True and ticked["jakiro", "top_k"]["value"] is False
    assert not ticked["eagle2", "depth"]["interactive"]


def test_the_target_s_defaults_are_shown_and_methods_without_a_head_have_no_section(controls):
    found = controls.show({"prompt_lookup": METHODS["prompt_lookup"].settings(depth=5)})
    updates = dict(zip(controls.keys, found, strict=False))
    sections = dict(zip(controls.sections, found[len(controls.components) :], strict=True))
    assert [name for name, one in sections.items() if one["visible"]] == ["prompt_lookup"]
    assert updates["prompt_lookup", "depth"]["value"] == 5 and updates["prompt_lookup", "depth"]["interactive"]
    assert not updates["jakiro", "depth"]["interactive"] and "value" not in updates["jakiro", "depth"]
