"""The settings panel follows the settings' own metadata."""

from __future__ import annotations

from dataclasses import dataclass, fields

import gradio as gr
import pytest

from jakiro.methods import METHODS
from jakiro.settings import build, setting
from jakiro.ui.controls import Controls, control


@dataclass(frozen=True)
class Sample:
    on: bool = setting(True, "help of on")
    kind: str = setting("a", "help of kind", choices=("a", "b"))
    count: int = setting(3, "help of count", 1, 9, label="Count")
    share: float = setting(0.5, "help of share", 0.0, 1.0)
    free: int = setting(4, "help of free", low=1)
    name: str = setting("x", "help of name")


def test_each_kind_of_field_gets_its_control():
    on, kind, count, share, free, name = map(control, fields(Sample))
    assert isinstance(on, gr.Checkbox) and on.value is True
    assert isinstance(kind, gr.Radio) and [value for _, value in kind.choices] == ["a", "b"]
    assert isinstance(count, gr.Slider) and (count.minimum, count.maximum, count.step, count.value) == (1, 9, 1, 3)
    assert isinstance(share, gr.Slider) and share.step < 1
    assert isinstance(free, gr.Number) and (free.minimum, free.maximum, free.precision) == (1, None, 0)
    assert isinstance(name, gr.Textbox)
    assert count.label == "Count" and kind.label == "kind" and share.info == "help of share"


@pytest.fixture
def controls() -> Controls:
    with gr.Blocks():
        return Controls()


def test_every_setting_of_every_method_has_a_control(controls):
    assert controls.keys == [(name, one.name) for name, method in METHODS.items() for one in fields(method.settings)]
    assert len(controls.components) == len(controls.keys) > 0


def test_values_read_back_build_the_same_settings(controls):
    changes = controls.read([component.value for component in controls.components])
    for name, method in METHODS.items():
        assert build(method.settings, None, changes[name]) == method.settings()


def test_the_target_s_defaults_are_shown_and_methods_without_a_head_greyed_out(controls):
    settings = METHODS["prompt_lookup"].settings(depth=5)
    updates = dict(zip(controls.keys, controls.show({"prompt_lookup": settings}), strict=True))
    assert updates["prompt_lookup", "depth"]["value"] == 5 and updates["prompt_lookup", "depth"]["interactive"]
    assert not updates["jakiro", "depth"]["interactive"] and "value" not in updates["jakiro", "depth"]
