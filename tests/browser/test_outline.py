"""The tree as a list: by mouse, by keyboard, in words."""

from __future__ import annotations

from dataclasses import replace

import synthetic
from playwright.sync_api import expect
from served import DROP, IN_CHROMIUM, ON_EVERY_SCREEN, WIDE_AND_NARROW, part, wait_for_tree

from jakiro.graph import BONUS, round_graph, states
from jakiro.trace import StepTrace, to_json
from jakiro.tree import DraftTree

pytestmark = IN_CHROMIUM
RUN = synthetic.tree_trace(12, nodes=24)  # as the page has it
STEP = RUN.steps[4]


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


def test_a_replay_leaves_the_focus_of_the_outline_and_ends_with_a_press_on_a_node(show):
    tab = show("?race=question&method=jakiro&round=4&node=0&tab=outline&speed=0.25")
    lines = tab.locator(".outline button")
    expect(lines.first).to_be_visible()
    # the replay stands still, however many frames it draws
    tab.evaluate("""() => {
      const own = window.requestAnimationFrame;
      window.requestAnimationFrame = (draw) => own(() => draw(0));
    }""")
    part(tab, "play").click()
    expect(lines.first).to_have_attribute("aria-current", "false")  # its first frame has moved the current node
    lines.nth(3).focus()
    tab.evaluate("new Promise((done) => setTimeout(done, 300))")
    expect(lines.nth(3)).to_be_focused()
    node = lines.nth(5).get_attribute("data-node")
    lines.nth(5).hover()
    tab.mouse.down()
    tab.wait_for_selector(f"[data-part=node][data-node='{node}']")  # before it is up: there may be another list then
    tab.mouse.up()
    expect(part(tab, "play")).to_contain_text("Play")
    expect(tab.locator(".outline [aria-current=true]")).to_be_focused()


def test_the_whole_run_has_its_sentence(show):
    tab = show("?race=question&method=jakiro&round=4&tab=run")
    expect(part(tab, "why")).to_contain_text("tokens a pass of the target")
    tab.locator("[data-tab=tree]").click()
    expect(part(tab, "why")).not_to_contain_text("tokens a pass of the target")


def walk(tab, keys):
    """The nodes that keys lead to, one after another, and whether each but the last has led to another."""
    shown = "document.querySelector('[data-part=node]').dataset.node"
    frame = f"new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done({shown}))))"
    found = []
    for key in keys:
        tab.keyboard.press(key)
        found.append(int(tab.evaluate(frame)))
    return found


def test_keys_in_the_tree_follow_what_is_drawn(show):
    graph = round_graph(RUN, 4)
    level = [node for node in graph if node != BONUS and graph.nodes[node]["depth"] == 3]
    level.sort(key=lambda node: graph.nodes[node]["y"])
    assert len(level) > 3 and level != sorted(level)  # else the order of the nodes would do
    tab = show(f"?race=question&method=jakiro&round=4&node={level[0]}&tab=tree")
    wait_for_tree(tab)
    tab.locator("[data-view=tree]").focus()
    assert walk(tab, ["ArrowDown"] * len(level)) == [*level[1:], level[-1]]
    assert walk(tab, ["ArrowUp"] * len(level)) == [*level[-2::-1], level[0]]


def test_the_first_child_of_a_key_is_the_one_that_is_drawn_on_top(show):
    tree = DraftTree([1, 2, 3, 4], [-1, 0, 0, 2], [0.0, -2.0, -0.5, -0.9])  # the second child is the draft's favourite
    run = replace(RUN, first=1, steps=[StepTrace(tree, [], 9, [0.0, -1.0, -1.0, -1.0], 0.1, 0.1, 0.0)])
    tab = show("?race=question&tab=tree")
    tab.evaluate(DROP, to_json(run))
    expect(part(tab, "kind")).to_have_text("opened")
    wait_for_tree(tab)
    tab.locator("[data-view=tree]").focus()
    assert walk(tab, ["ArrowRight", "ArrowDown", "ArrowLeft"]) == [2, 1, 0]
    tab.locator("[data-tab=outline]").click()
    lines = tab.locator(".outline button")
    expect(lines).to_have_count(4)
    assert [one.get_attribute("data-node") for one in lines.all()] == ["0", "2", "3", "1"]


def test_keys_in_the_outline_lead_from_line_to_line(show):
    tab = show("?race=question&method=jakiro&round=4&node=0&tab=outline")
    lines = tab.locator(".outline button")
    expect(lines.first).to_be_visible()
    order = [int(one.get_attribute("data-node")) for one in lines.all()]
    lines.first.focus()
    assert walk(tab, ["ArrowDown"] * (len(order) - 1)) == order[1:]
    assert walk(tab, ["ArrowUp"] * (len(order) - 1)) == order[-2::-1]


def test_a_node_says_what_became_of_it(show):
    said = {
        "accepted": "The target chose it, too",
        "passed over": "there, not this",
        "rejected": "there, not this",
        "unreached": "before it was not accepted",
    }
    for state, text in said.items():
        round, node = next(
            (at, node) for at, step in enumerate(RUN.steps) for node, one in enumerate(states(step)) if one == state
        )
        tab = show(f"?race=question&method=jakiro&round={round}&node={node}")
        expect(part(tab, "node").locator(".fate")).to_contain_text(text)


def test_the_tree_stays_where_it_is_from_round_to_round(show):
    """Sentences of one line and of three, with notable things beside them and without."""
    tab = show("?race=question&method=jakiro&round=0", viewport={"width": 1024, "height": 900})
    wait_for_tree(tab)
    top = """(view) => view.getBoundingClientRect().top + scrollY"""
    for large in (False, True):
        if large:
            tab.keyboard.press("Home")
            tab.keyboard.press("Shift+P")
            tab.wait_for_selector("#viewer.presenting")
        tops = set()
        for _ in RUN.steps[1:]:
            tops.add(round(tab.locator("[data-view=tree]").evaluate(top)))
            tab.keyboard.press("ArrowRight")
            tab.wait_for_timeout(50)
        assert len(tops) == 1


def test_what_is_above_the_tree_stays_where_it_is(show):
    """Rounds that are notable have chips there, others have not."""
    for talk in ("", "&present=1"):
        tab = show(f"?race=question&method=jakiro&round=0{talk}")
        wait_for_tree(tab)
        seen = set()
        for at in range(len(RUN.steps)):
            tab.wait_for_selector(f"#viewer [data-round='{at}'][data-method]")
            notable = part(tab, "moments").locator(".chip").count() > 0
            seen.add((notable, part(tab, "reading").locator("span").first.bounding_box()["y"]))
            tab.keyboard.press("ArrowRight")
        assert {notable for notable, _ in seen} == {False, True}
        assert len({y for _, y in seen}) == 1


def test_what_is_above_the_tree_stays_where_it_is_beside_the_settings(show):
    """They open when the heights of its sentences have been measured, and leave these less room."""
    tab = show("?race=question&method=jakiro&round=0", viewport={"width": 1200, "height": 900})
    wait_for_tree(tab)
    wide = part(tab, "why").bounding_box()["width"]
    tab.locator("[data-do=settings]").click()
    tab.wait_for_function("(wide) => document.querySelector('[data-part=why]').clientWidth < wide - 300", arg=wide)
    tab.wait_for_function("document.querySelector('.sidebar').getAnimations({subtree: true}).length === 0")
    seen = set()
    for at in range(1, len(RUN.steps)):
        tab.keyboard.press("ArrowRight")
        tab.wait_for_selector(f"#viewer [data-round='{at}'][data-method]")
        seen.add(part(tab, "views").bounding_box()["y"] - part(tab, "tabs").bounding_box()["y"])
    assert len(seen) == 1


def test_the_tour_does_not_lie_over_the_timeline(show):
    """On a low screen that is last on the page."""
    tab = show("?race=question&round=0", viewport={"width": 1280, "height": 720}, reduced_motion="reduce")
    wait_for_tree(tab)
    tab.locator("[data-do=tour]").first.click()
    part(tab, "tour").get_by_role("button", name="Next").click()
    expect(part(tab, "tour")).to_contain_text("Every bar is a round")
    shown = tab.locator("#viewer .toured").bounding_box()
    assert shown["y"] >= 0 and shown["y"] + shown["height"] <= part(tab, "tour").bounding_box()["y"]


def test_the_tour_is_beside_an_inspector_that_is_higher_than_the_window(show):
    tab = show("?race=question&round=0", viewport={"width": 1280, "height": 720}, reduced_motion="reduce")
    wait_for_tree(tab)
    tab.locator("[data-do=tour]").first.click()
    while "toured" not in part(tab, "node").get_attribute("class"):
        part(tab, "tour").get_by_role("button", name="Next").click()
    shown, tour = part(tab, "node").bounding_box(), part(tab, "tour").bounding_box()
    assert 0 <= shown["y"] < 100 and tour["x"] + tour["width"] <= shown["x"]
    part(tab, "tour").get_by_role("button", name="Next").click()
    assert part(tab, "tour").bounding_box()["x"] > 640  # where it was


@ON_EVERY_SCREEN
def test_a_tab_that_is_chosen_can_be_read_at_once(show):
    """Its colours change places: if one of them takes its time, its name is as dark as what is behind it."""
    tab = show("?race=question&method=jakiro&round=0")
    wait_for_tree(tab)
    alike = tab.locator("[data-tab=run]").evaluate("""async (one) => {
      const look = getComputedStyle(one), next = () => new Promise(requestAnimationFrame);
      one.click();
      while (one.ariaSelected !== 'true') await next();
      return look.color === look.backgroundColor;
    }""")
    assert not alike


def test_the_inspector_has_the_same_rows_for_every_node_of_a_lane(show):
    tab = show("?race=question&method=jakiro&round=0&node=0")
    names = part(tab, "node").locator("> dl dt")
    expect(names.first).to_be_visible()
    rows = names.all_text_contents()
    assert "draft rank of the choice" in rows
    for _ in range(3):
        tab.keyboard.press("ArrowRight")
        assert names.all_text_contents() == rows
    tab.locator(".lane[data-method=vanilla] h2 button").click()
    tab.wait_for_selector("[data-round][data-method=vanilla]")
    assert "draft rank" not in names.all_text_contents()  # which no node of it has


def test_a_notice_is_seen_where_one_has_scrolled_to(show):
    tab = show("?race=question&method=jakiro&round=4")
    tab.evaluate("scrollTo(0, 600)")
    tab.keyboard.press("s")
    expect(part(tab, "notice")).to_be_in_viewport()
