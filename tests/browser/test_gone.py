"""What the server does not have any more: the page says so, and stays with what it shows."""

from __future__ import annotations

import re

import synthetic
from playwright.sync_api import expect
from served import IN_CHROMIUM, part, wait_for_tree, with_facts

from jakiro.trace import to_json

pytestmark = IN_CHROMIUM
UNREACHED = "The server cannot be reached; try again when it is back."
GONE = {"status": 404, "content_type": "text/plain", "body": "it is not kept any more"}


def test_a_race_that_is_gone_leaves_the_one_shown(show):
    tab = show("?race=question&method=eagle2&round=3&node=2&motion=0", expected="404")
    wait_for_tree(tab)
    tab.route("**/races/hostile.json", lambda route: route.fulfill(**GONE))
    part(tab, "races").select_option("hostile")
    expect(part(tab, "notice")).to_have_text(GONE["body"])
    assert part(tab, "races").input_value() == "question"
    tab.locator("[data-view=tree]").focus()
    tab.keyboard.press("ArrowLeft")  # the parent of the node that was shown
    tab.wait_for_selector("[data-part=node]:not([data-node='2'])")
    tab.keyboard.press("j")
    tab.wait_for_selector("[data-round='2'][data-method=eagle2]")
    tab.keyboard.press("s")
    expect(part(tab, "notice")).to_contain_text("race=question&method=eagle2&round=2")
    tab.unroute("**/races/hostile.json")
    part(tab, "races").select_option("hostile")
    expect(part(tab, "kind")).to_have_text("recorded")
    tab.wait_for_function("location.search.includes('race=hostile')")


def test_a_server_that_is_out_of_reach_leaves_the_race_shown(show):
    tab = show("?race=question&round=3&motion=0", expected="ERR_FAILED")
    tab.wait_for_selector("[data-round='3'][data-method]")
    tab.route("**/races/hostile.json", lambda route: route.abort())
    part(tab, "races").select_option("hostile")
    expect(part(tab, "notice")).to_have_text(UNREACHED)
    expect(part(tab, "races")).to_have_value("question")


def test_a_race_that_is_gone_is_offered_no_more(show):
    tab = show("?race=question", expected="404")
    trace = to_json(synthetic.tree_trace(6, nodes=16, seed=5))
    file = {"name": "run.json", "mimeType": "application/json", "buffer": trace.encode()}
    part(tab, "file").set_input_files(file)
    expect(part(tab, "kind")).to_have_text("opened")
    kept = part(tab, "races").input_value()
    part(tab, "races").select_option("question")
    expect(part(tab, "kind")).to_have_text("recorded")
    tab.route(f"**/races/{kept}.json", lambda route: route.fulfill(**GONE))
    part(tab, "races").select_option(kept)
    expect(part(tab, "notice")).to_have_text(GONE["body"])
    expect(part(tab, "races").locator(f"option[value='{kept}']")).to_have_count(0)
    assert part(tab, "races").input_value() == "question"


def test_where_the_whole_race_is_gone_its_branch_stays(show):
    back = {"race": "gone", "method": "vanilla", "round": 1}
    routes = {"**/races/question.json": with_facts(about={"back": back})}
    tab = show("?race=question&method=jakiro&round=3", routes=routes, expected="404")
    wait_for_tree(tab)
    part(tab, "back").click()
    expect(part(tab, "notice")).to_contain_text("'gone' is not kept any more")
    tab.keyboard.press("ArrowRight")
    tab.wait_for_selector("[data-round='4'][data-method=jakiro]")
    expect(tab.locator("[data-tab=tree]")).to_have_attribute("aria-selected", "true")


def test_cut_nodes_that_are_gone_can_be_asked_for_again(show):
    routes = {
        "**/races/question.json": with_facts(lane={"cut": True}),
        "**/cut/2.json": lambda route: route.fulfill(**GONE),
    }
    tab = show("?race=question&method=jakiro&round=3", routes=routes, expected="404")
    wait_for_tree(tab)
    part(tab, "cut").click()
    expect(part(tab, "notice")).to_have_text(GONE["body"])
    expect(part(tab, "cut")).not_to_be_checked()
    tab.unroute("**/cut/2.json")
    with tab.expect_response("**/cut/2.json") as answer:
        part(tab, "cut").check()
    assert answer.value.ok
    tab.wait_for_function("location.search.includes('cut=1')")
    wait_for_tree(tab)


def test_benchmarks_that_do_not_come_are_said_once_and_asked_for_again(show):
    tab = show("?race=question&method=jakiro&round=3", expected="404")
    wait_for_tree(tab)
    tab.route("**/benchmarks.json", lambda route: route.fulfill(**GONE))
    part(tab, "benchmarks").locator("summary").click()
    expect(part(tab, "notice")).to_contain_text("benchmarks could not be read: the server answered 404")
    tab.keyboard.press("n")
    tab.keyboard.press("s")  # another notice, which stays
    expect(part(tab, "notice")).to_contain_text("address of this view")
    part(tab, "cut-box").evaluate("() => new Promise(requestAnimationFrame)")
    expect(part(tab, "notice")).to_contain_text("address of this view")
    tab.unroute("**/benchmarks.json")
    for _ in range(2):
        part(tab, "benchmarks").locator("summary").click()
    tab.wait_for_selector("[data-part=benchmarks][data-drawn]")


def test_a_run_of_a_head_that_is_not_here_is_changed_as_those_of_its_kind(show):
    tab = show("?race=question", routes={"**/races/question.json": with_facts(lane={"method": "jakiro-gone"})})
    tab.locator(".lane[data-kind=jakiro-gone] h2 button").click()
    expect(tab.locator(".lane[data-kind=jakiro-gone] h2 button")).to_have_attribute("data-help", re.compile("experts"))
    tab.locator("[data-tab=whatif]").click()
    expect(tab.locator("form.whatif").get_by_label("depth")).to_be_visible()
