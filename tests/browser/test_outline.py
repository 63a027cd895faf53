"""The tree as a list: by mouse, by keyboard, in words."""

from __future__ import annotations

import synthetic
from playwright.sync_api import expect
from served import IN_CHROMIUM, WIDE_AND_NARROW, part, wait_for_tree

from jakiro.graph import states

pytestmark = IN_CHROMIUM
STEP = synthetic.tree_trace(12, nodes=24).steps[4]  # as the page has it


def test_the_outline_has_every_node_below_its_parent_with_its_state_in_words(show):
    tab = show("?race=question&method=jakiro&round=4&tab=outline")
    tab.wait_for_selector(".outline [aria-current=true]")
    nodes = tab.locator(".outline button")
    assert nodes.count() == len(STEP.tree)
    for node, (parent, state) in enumerate(zip(STEP.tree.parents, states(STEP), strict=True)):
        entry = tab.locator(f".outline [data-node='{node}']")
        expect(entry).to_contain_text(state)
        above = entry.locator("xpath=ancestor::li[2]/button")
        assert node == 0 or above.get_attribute("data-node") == str(parent)
    expect(tab.locator(".outline .bonus")).to_contain_text("the target’s own choice")


@WIDE_AND_NARROW
def test_the_outline_is_walked_by_keys_and_keeps_the_focus(show):
    tab = show("?race=question&method=jakiro&round=4")
    wait_for_tree(tab)
    tab.keyboard.press("o")
    tab.locator(".outline [data-node='0']").click()
    tab.wait_for_selector("[data-part=node][data-node='0']")
    tab.keyboard.press("ArrowRight")
    tab.wait_for_selector("[data-part=node][data-node='1']")
    assert tab.evaluate("document.activeElement.dataset.node") == "1"
    tab.keyboard.press("ArrowLeft")
    tab.wait_for_selector("[data-part=node][data-node='0']")
    tab.keyboard.press("o")
    expect(tab.locator("[data-view=tree]")).to_be_visible()


def test_the_whole_run_has_its_sentence(show):
    tab = show("?race=question&method=jakiro&round=4&tab=run")
    expect(part(tab, "why")).to_contain_text("tokens a pass of the target")
    tab.locator("[data-tab=tree]").click()
    expect(part(tab, "why")).not_to_contain_text("tokens a pass of the target")
