"""The settings panel: one Gradio control for every field of every method's settings, made from its metadata.

A number that may be auto has a box beside its control; ticked, it counts instead of the number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import Field, fields
from typing import Any

import gradio as gr

from jakiro.methods import METHODS
from jakiro.settings import AUTO
from jakiro.trace import kind_of

RACERS = ("vanilla", "eagle2", "jakiro")


def racers(able: Iterable[str]) -> list[str]:
    """Which of the methods are ticked at first; all of them where these leave but one, which is no race."""
    found = [name for name in able if kind_of(name) in RACERS]
    return found if len(found) > 1 else [*able]


class Controls:
    """The controls in the order in which handlers receive them. Make it inside a Blocks context.

    Nothing can be set before `show` has put in what suits the loaded target.
    """

    def __init__(self) -> None:
        self.keys: list[tuple[str, str]] = []  # (method, name of the setting)
        self.components: list[gr.components.Component] = []  # a control for each key, then the boxes
        self.boxes: dict[tuple[str, str], gr.Checkbox] = {}
        self.sections: dict[str, gr.Accordion] = {}  # by method
        for name, method in METHODS.items():
            if fields(method.settings):
                with gr.Accordion(method.title, open=False, elem_classes="method-settings") as self.sections[name]:
                    gr.Markdown(method.summary)
                    for one in fields(method.settings):
                        self._add(name, one)
        self.components += self.boxes.values()

    def _add(self, method: str, one: Field) -> None:
        key = method, one.name
        self.keys.append(key)
        self.components.append(number := control(one))
        if one.metadata["auto"]:
            self.boxes[key] = box = gr.Checkbox(False, label=f"{number.label}: auto, measured here", interactive=False)
            quiet = {"queue": False, "show_progress": "hidden", "api_visibility": "private"}
            box.input(lambda auto: gr.update(interactive=not auto), box, number, **quiet)

    def read(self, values: Sequence[Any]) -> dict[str, dict[str, Any]]:
        """Values as handlers receive them -> method -> name -> value."""
        changes: dict[str, dict[str, Any]] = {name: {} for name in METHODS}
        numbers, ticked = values[: len(self.keys)], values[len(self.keys) :]
        for (method, name), value in zip(self.keys, numbers, strict=True):
            changes[method][name] = value
        for (method, name), auto in zip(self.boxes, ticked, strict=True):
            if auto:
                changes[method][name] = AUTO
        return changes

    def show(self, settings: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Updates of the components and sections: each method's settings in its controls, no section of others."""
        sections = [gr.update(visible=name in settings) for name in self.sections]
        return self.fill(settings, gr.update(interactive=False)) + sections

    def fill(self, settings: Mapping[str, Any], other: Any = None) -> list[dict[str, Any]]:
        """Updates of the components: each method's settings in its controls, `other` for those of other methods."""
        other = other or gr.skip()
        values = {(method, name): getattr(settings[method], name) for method, name in self.keys if method in settings}
        numbers = [_number(values[key]) if key in values else other for key in self.keys]
        ticks = {key: gr.update(value=value == AUTO, interactive=True) for key, value in values.items()}
        return numbers + [ticks.get(key, other) for key in self.boxes]


def _number(value: Any) -> dict[str, Any]:
    return gr.update(interactive=False) if value == AUTO else gr.update(value=value, interactive=True)


def control(one: Field) -> gr.components.Component:
    """The control that fits a field: a box to tick, a choice, a slider between its bounds, a number or a text."""
    facts = one.metadata
    common = {"value": one.default, "label": one.name, "info": facts["help"], "interactive": False}
    if isinstance(one.default, bool):
        return gr.Checkbox(**common)
    if facts["choices"]:
        return gr.Radio(choices=list(facts["choices"]), **common)
    if isinstance(one.default, str):
        return gr.Textbox(**common)
    if facts["low"] is not None and facts["high"] is not None:
        return gr.Slider(facts["low"], facts["high"], step=1 if isinstance(one.default, int) else 0.01, **common)
    return gr.Number(**common)  # a race holds its bounds and that it is whole, in words; gradio would round
