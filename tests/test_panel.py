"""The settings of the next race, taken from a race that is shown."""

from __future__ import annotations

from dataclasses import asdict, replace

import gradio as gr
import pytest
import synthetic

from jakiro.methods import METHODS
from jakiro.settings import build
from jakiro.ui.models import Loaded, RequestError, load
from jakiro.ui.panel import NEW_TOKENS, Panel, panel, take
from jakiro.ui.race import Race, check


@pytest.fixture(scope="module")
def models(target) -> Loaded:
    return load(target)


@pytest.fixture
def inputs() -> Panel:
    with gr.Blocks():
        return panel()


def values_of(inputs: Panel, updates: list) -> list:
    """What the components hold after updates."""
    return [
        update.get("value", one.value) if isinstance(update, dict) else update
        for one, update in zip(inputs.components(), updates, strict=True)
    ]


def test_a_race_with_what_was_taken_is_the_race_that_was_shown(models, inputs):
    settings = {"eagle2": {"depth": 4, "total_tokens": 9}, "jakiro": {"candidates": "decoupled", "contrastive": False}}
    asked = check(models, "the an the", ["eagle2", "jakiro"], 7, 0.5, 0.9, 3, settings)
    race = Race(models, asked)
    list(race.rounds())
    traces = race.traces()
    updates, text = take(inputs, models, traces, traces[0])
    methods, length, temperature, top_p, seed, *controls = values_of(inputs, updates)
    changes = inputs.controls.read(controls)
    again = check(models, "the an the", methods, length, temperature, top_p, seed, changes)
    assert again == asked and text == "Taken: Run live races with them."
    left = {name: build(METHODS[name].settings, None, changes[name]) for name in METHODS if name not in methods}
    assert left == {name: METHODS[name].settings() for name in left}  # as they were
    assert length != NEW_TOKENS


def test_of_lanes_of_one_method_the_chosen_one_counts_and_else_the_first(models, inputs):
    run = replace(synthetic.tree_trace(6), target=models.target.name)
    assert run.method == "jakiro"
    lanes = [replace(run, settings=asdict(METHODS["jakiro"].settings(depth=depth))) for depth in (2, 3, 4)]
    other = replace(synthetic.vanilla_trace(run.tokens), target=models.target.name, max_new_tokens=0)
    for chosen, depth in ((lanes[2], 4), (other, 2)):
        updates, text = take(inputs, models, [*lanes, other], chosen)
        found = dict(zip(inputs.controls.keys, values_of(inputs, updates)[5:], strict=False))
        assert found["jakiro", "depth"] == depth and "the chosen one, or the first" in text
        assert updates[:2] == [["vanilla", "jakiro"], chosen.max_new_tokens or len(chosen.tokens)]


def test_it_is_said_what_cannot_be_taken(models, inputs):
    run, foreign = synthetic.tree_trace(6), replace(synthetic.vanilla_trace([1, 2, 3]), method="medusa", settings={})
    updates, text = take(inputs, models, [run, foreign], run)
    assert updates[0] == ["jakiro"] and "medusa cannot run here" in text
    assert f"is of {run.target}; here {models.target.name} decodes" in text
    with pytest.raises(RequestError, match="medusa cannot run"):
        take(inputs, models, [foreign], foreign)
    with pytest.raises(RequestError, match="depth must be a whole number"):
        take(inputs, models, [bad := replace(run, settings={"depth": -1})], bad)
