"""What the next live race is run with: the panel of settings, and how they are taken from a race that is shown."""

from __future__ import annotations

import html
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import gradio as gr

from jakiro.methods import METHODS
from jakiro.settings import build
from jakiro.trace import Trace
from jakiro.ui.controls import Controls, racers
from jakiro.ui.library import Library
from jakiro.ui.models import Loaded, Models, RequestError, requested
from jakiro.ui.questions import tell_run

NEW_TOKENS = 96  # of a race, at first


@dataclass(frozen=True, slots=True)
class Panel:
    """The components that a run reads besides its prompt, in the order of its arguments; the button that takes those of
    the race shown, and where it is said what came of that."""

    methods: gr.CheckboxGroup
    max_new_tokens: gr.Number
    temperature: gr.Number
    top_p: gr.Number
    seed: gr.Number
    controls: Controls
    take: gr.Button
    said: gr.HTML

    def components(self) -> list[gr.components.Component]:
        """What a run reads."""
        fixed = [self.methods, self.max_new_tokens, self.temperature, self.top_p, self.seed]
        return [*fixed, *self.controls.components]

    def show(self, loaded: Loaded) -> list[dict[str, Any]]:
        """Updates of the methods, and of the controls and their sections, to what suits the loaded target."""
        able = [(METHODS[name].title, name) for name in loaded.makers]
        why = " ".join(f"{METHODS[name].title} cannot run: {loaded.missing[name]}." for name in loaded.wanted())
        methods = gr.update(choices=able, value=racers(loaded.makers), info=f"One lane each. {why}", interactive=True)
        return [methods, *self.controls.show(loaded.defaults)]

    def shown(self) -> list[gr.blocks.Block]:
        """What `show` updates."""
        return [self.methods, *self.controls.components, *self.controls.sections.values()]


def panel() -> Panel:
    """The components, inside a Blocks context. Nothing can be set before it is known what the loaded target can run."""
    gr.Markdown("### Settings of the next live race")
    take = gr.Button("Take those of the race shown", size="sm", interactive=False)
    said = gr.HTML(visible=False)
    methods = gr.CheckboxGroup(
        choices=[(method.title, name) for name, method in METHODS.items()],
        value=racers(METHODS),
        label="Methods",
        info="One lane each.",
        interactive=False,
    )
    length = gr.Number(NEW_TOKENS, label="max_new_tokens", info="Length cap of the answer.")
    temperature = gr.Number(0, label="temperature", info="0 is greedy; else 0.001 to 100.", step=0.1)
    top_p = gr.Number(1, label="top_p", info="Sample from the likeliest tokens with this mass.", step=0.05)
    seed = gr.Number(0, label="seed", info="Same seed, same text, whatever the method.")
    return Panel(methods, length, temperature, top_p, seed, Controls(), take, said)


def wire(viewer: gr.HTML, panel: Panel, models: Models, library: Library) -> None:
    """The button has the viewer say which race it shows; the settings of that come into the panel."""

    def taken(event: gr.EventData) -> list[Any]:
        asked = event._data if isinstance(event._data, Mapping) else {}
        try:
            traces, [chosen] = library.chosen(asked.get("race"), asked.get("lane"))
            values, text = take(panel, models.get(), traces, chosen)
        except RequestError as error:
            values, text = [gr.skip()] * len(panel.components()), f"Nothing was taken: {error}"
        return [*values, gr.update(value=html.escape(text), visible=True)]

    panel.take.click(None, js=tell_run("take"), api_visibility="private")
    outputs = [*panel.components(), panel.said]
    viewer.take(taken, None, outputs, show_progress="hidden", queue=False, api_visibility="private")


def take(panel: Panel, loaded: Loaded, traces: list[Trace], chosen: Trace) -> tuple[list[Any], str]:
    """Updates of the panel to what the lanes of a race were run with, and what to say of it.

    Of several lanes of one method the `chosen` one counts, else the first. Raises RequestError where none can run here.
    """
    lanes = {loaded.drafting(trace): trace for trace in (*reversed(traces), chosen)}
    able = [name for name in loaded.makers if name in lanes]
    lost = [METHODS[name].title if name in METHODS else name for name in lanes if name not in able]
    if not able:
        raise RequestError(f"{' and '.join(lost)} cannot run on {loaded.target.name}")
    with requested():
        settings = {name: build(METHODS[name].settings, None, lanes[name].settings) for name in able}
    told = ["Taken: Run live races with them."]
    if lost:
        told.append(f"{' and '.join(lost)} cannot run here.")
    if len(lanes) < len(traces):
        told.append("Of lanes of one method it is the chosen one, or the first.")
    if chosen.target != loaded.target.name:
        told.append(f"The race shown is of {chosen.target}; here {loaded.target.name} decodes.")
    sampled = [chosen.temperature, chosen.top_p, chosen.seed]
    length = chosen.max_new_tokens or len(chosen.tokens)
    return [able, length, *sampled, *panel.controls.fill(settings)], " ".join(told)
