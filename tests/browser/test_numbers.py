"""What the browser counts and writes by itself: the numbers of the trace, in the words of its columns."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace

import pytest
import synthetic
from playwright.sync_api import expect
from served import DROP, IN_CHROMIUM, part, wait_for_tree

from jakiro import metrics
from jakiro.assets import ASSETS
from jakiro.graph import ACCEPTED, draft_probabilities, states
from jakiro.trace import to_json
from jakiro.ui.inspector import FIELDS
from jakiro.ui.modules import Modules
from jakiro.ui.replay import WORDS

pytestmark = IN_CHROMIUM
RUN = synthetic.tree_trace(12, nodes=24)  # as the page has it
VANILLA = synthetic.vanilla_trace(RUN.tokens)
ROUND = next(index for index, step in enumerate(RUN.steps) if len(step.accepted) > 1)
STEP = RUN.steps[ROUND]
PASSED_OVER = next(node for node in STEP.tree.below(0) if node not in STEP.accepted)
ADDRESS = f"?race=question&method=jakiro&round={ROUND}&motion=0"

PROPOSERS = """() => document.querySelector('[data-figure=tree]').data.flatMap(({customdata}) => customdata ?? [])
  .filter((row) => row?.node > 0).map(({node, source}) => [node, source ?? '–'])"""


def ordinal(number):
    return f"{number}{'th' if number % 100 in (11, 12, 13) else {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th')}"


def share(value):
    return f"{value:.4f}" if value == 0 or value >= 0.0001 else f"{value:.1e}".replace("e-0", "e-")


def proposer(node):
    source = STEP.tree.columns["source"][node]
    return "–" if source is None else WORDS["source"][source]


def inspected(tab):
    names, values = (part(tab, "node").locator(f"> dl {tag}").all_text_contents() for tag in ("dt", "dd"))
    return dict(zip(names, values, strict=True))


def test_a_number_is_rounded_as_in_the_sentences(show):
    numbers = [count / rounds for rounds in (*range(1, 41), 64, 128) for count in range(rounds, 5 * rounds)]
    script = """async ([path, numbers]) => {
      const {fixed} = await import(new URL(path, document.baseURI));
      return [0, 1, 2].map((digits) => numbers.map((number) => fixed(number, digits)));
    }"""
    shown = show("?race=question").evaluate(script, [f"{Modules(ASSETS / 'viewer').path}/format.js", numbers])
    assert shown == [[f"{number:.{digits}f}" for number in numbers] for digits in (0, 1, 2)]


def test_a_lane_has_the_numbers_of_its_run(show):
    tab = show(ADDRESS)
    wait_for_tree(tab)
    own, base = (metrics.tokens_per_second(trace) for trace in (RUN, VANILLA))
    seconds = metrics.clock(RUN)[-1]
    expect(tab.locator(".lane[data-method=jakiro] .chip").first).to_contain_text(f"τ {metrics.tau(RUN):.2f}")
    numbers = tab.locator(".lane[data-method=jakiro] .numbers")
    for told in (f"{own:.1f} tok/s", f"{own / base:.2f}×", f"{1000 * seconds:.0f} ms · {len(RUN.steps)} passes"):
        expect(numbers).to_contain_text(told)
    words = tab.locator(".lane[data-method=jakiro] .text span").all()
    kinds = ["t0", *(kind for step in RUN.steps for kind in ["t1"] * len(step.accepted) + ["t2"])]
    assert [word.get_attribute("class").split()[0] for word in words] == kinds


def test_bars_at_rest_are_as_far_as_when_the_first_lane_has_finished(show):
    tab = show(ADDRESS + "&clock=passes")
    wait_for_tree(tab)
    width = tab.locator(".lane[data-method=vanilla] .bar i").evaluate("(bar) => bar.style.width")
    passes = len(RUN.steps)  # of the lane with the fewest, so that vanilla has a token more
    assert float(width.removesuffix("%")) == pytest.approx(100 * (passes + 1) / len(RUN.tokens), abs=0.01)


@pytest.mark.parametrize("node", [1, STEP.accepted[0], STEP.stop_node, PASSED_OVER, len(STEP.tree) - 1])
def test_the_inspector_writes_what_the_trace_has(show, node):
    tab = show(f"{ADDRESS}&node={node}")
    wait_for_tree(tab)
    columns, cells = STEP.tree.columns, inspected(tab)
    assert cells[FIELDS["rank"][0]] == ordinal(columns["rank"][node] + 1)
    assert cells[FIELDS["source"][0]] == proposer(node)
    chosen = columns["pick_logprob"][node]
    assert cells[FIELDS["pick_logprob"][0]] == ("–" if chosen is None else share(math.exp(chosen)))
    assert cells[FIELDS["p"][0]] == share(math.exp(STEP.target_logprobs[node]))
    above, state = STEP.tree.parents[node], states(STEP)[node]
    if state == ACCEPTED:
        own = share(math.exp(STEP.target_logprobs[node]))
        expect(part(tab, "fate")).to_have_text(re.compile(rf"^“\S+”: The target chose it, too \(p {own}\)\.$"))
    elif above in (0, *STEP.accepted):
        given = share(math.exp(columns["pick_logprob"][above]))
        expect(part(tab, "fate")).to_contain_text(f"(p {given}) there, not this")


def test_a_node_under_the_mouse_says_which_expert_proposed_it(show):
    tab = show(ADDRESS)
    wait_for_tree(tab)
    found = dict(map(tuple, tab.evaluate(PROPOSERS)))
    assert len(found) > 10 and found == {node: proposer(node) for node in found}


def test_the_outline_has_shares(show):
    tab = show(f"{ADDRESS}&tab=outline")
    node = STEP.accepted[0]
    q, p = draft_probabilities(STEP.tree)[node], math.exp(STEP.target_logprobs[node])
    said = f"accepted, q {100 * q:.{int(q < 0.1)}f}%, p {100 * p:.{int(p < 0.1)}f}%"
    expect(tab.locator(f"[data-view=outline] [data-node='{node}']")).to_contain_text(said)


@pytest.mark.parametrize(("tie", "mark"), [(True, "≈"), (False, "⚠")])
def test_the_badge_marks_a_tie_otherwise_than_a_difference(show, tie, mark):
    def answer(route):
        answered = route.fetch()
        race = json.loads(answered.text())
        race["replay"]["lossless"] = {"identical": False, "tie": tie, "text": "they part"}
        route.fulfill(response=answered, json=race)

    tab = show(ADDRESS, routes={"**/races/question.json": answer})
    expect(part(tab, "lossless")).to_have_text(f"{mark} they part")


def test_what_is_not_shown_is_not_denied(show):
    """One expert alone has a router, which is not asked; a method that drafts may have had nothing to draft."""
    alone = replace(RUN, settings=RUN.settings | {"expert": "0"})
    tab = show("?race=question&tab=routing&motion=0")
    tab.evaluate(DROP, to_json(alone))
    expect(part(tab, "kind")).to_have_text("opened")
    expect(tab.locator("[data-view=routing] .none")).to_have_text(
        "No router weighed experts here: this method has none, or one expert alone proposed."
    )
    idle = replace(synthetic.vanilla_trace(RUN.tokens), method="eagle2")
    tab.evaluate(DROP, f"[{to_json(VANILLA)}, {to_json(idle)}]")
    expect(tab.locator(".lane[data-method=eagle2]")).to_be_visible()
    tab.locator("[data-tab=compare]").click()
    expect(tab.locator("[data-view=compare] .none")).to_have_text(
        "EAGLE-2 drafted nothing in this race: choose another lane."
    )
