"""The settings panel: one Gradio control for every field of every method's settings, made from its metadata."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import Field, fields
from typing import Any

import gradio as gr

from jakiro.methods import METHODS


class Controls:
    """The controls in the order in which handlers receive them. Make it inside a Blocks context."""

    def __init__(self) -> None:
        self.keys: list[tuple[str, str]] = []  # (method, name of the setting)
        self.components: list[gr.components.Component] = []
        for name, method in METHODS.items():
            if fields(method.settings):
                with gr.Accordion(method.title, open=False, elem_classes="method-settings"):
                    gr.Markdown(method.summary)
                    for one in fields(method.settings):
                        self.keys.append((name, one.name))
                        self.components.append(control(one))

    def read(self, values: Sequence[Any]) -> dict[str, dict[str, Any]]:
        """Values as handlers receive them -> method -> name -> value."""
        changes: dict[str, dict[str, Any]] = {name: {} for name in METHODS}
        for (method, name), value in zip(self.keys, values, strict=True):
            changes[method][name] = value
        return changes

    def show(self, settings: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Updates that put each method's settings into its controls; methods that are not in it grey theirs out."""
        return [
            gr.update(value=getattr(settings[method], name), interactive=True)
            if method in settings
            else gr.update(interactive=False)
            for method, name in self.keys
        ]


def control(one: Field) -> gr.components.Component:
    """The control that fits a field: a box to tick, a choice, a slider between its bounds, a number or a text."""
    facts = one.metadata
    common = {"value": one.default, "label": facts["label"] or one.name, "info": facts["help"], "interactive": True}
    if isinstance(one.default, bool):
        return gr.Checkbox(**common)
    if facts["choices"]:
        return gr.Radio(choices=list(facts["choices"]), **common)
    if isinstance(one.default, str):
        return gr.Textbox(**common)
    whole = isinstance(one.default, int)
    if facts["low"] is not None and facts["high"] is not None:
        return gr.Slider(facts["low"], facts["high"], step=1 if whole else 0.01, **common)
    return gr.Number(minimum=facts["low"], maximum=facts["high"], precision=0 if whole else None, **common)
