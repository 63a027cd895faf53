"""The address alone says what is shown: comparisons, the lane below, Back, and races that are not to be had."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect
from served import CUT_OFF, HOSTILE, IN_CHROMIUM, open_page, part, wait_for_timeline, wait_until

pytestmark = IN_CHROMIUM
NEW_TOKENS = 32  # of its live races


def test_a_comparison_is_there_again_with_its_address(show_live):
    tab = show_live(expected=CUT_OFF)
    tab.locator("[data-tab=compare]").click()
    view = tab.locator("[data-view=compare]")
    view.get_by_label("The other lane").select_option(label="EAGLE-2")
    view.get_by_role("button", name="Compare").click()
    tab.wait_for_selector("[data-figure=overlay][data-drawn=yes]:visible")
    tab.wait_for_function("location.search.includes('against=eagle2') && location.search.includes('tab=compare')")
    said = part(tab, "why").text_content()
    asked = []
    tab.on("request", lambda request: asked.append(request.url) if "/compare/" in request.url else None)
    tab.reload()
    tab.wait_for_selector("[data-figure=overlay][data-drawn=yes]:visible")
    expect(part(tab, "why")).to_have_text(said)
    tab.locator("[data-tab=diversity]").click()
    tab.wait_for_selector("[data-figure=same][data-drawn=yes]:visible")
    expect(tab.locator("[data-view=diversity] .offered")).to_be_hidden()
    assert len(asked) == 1


def test_the_lanes_of_an_address_that_were_never_compared_are_asked_for_once(show_live):
    tab = show_live()
    asked = []
    tab.on("request", lambda request: asked.append(request.url) if "/compare/" in request.url else None)
    for name in ("compare", "diversity", "compare"):
        tab.locator(f"[data-tab={name}]").click()
        expect(tab.locator(f"[data-view={name}] button:visible").first).to_be_enabled()
        tab.keyboard.press("ArrowRight")
    expect(tab.locator("[data-view=compare] .links")).to_be_hidden()
    assert len(asked) == 1


def test_the_button_waits_for_what_is_asked_of_the_address(show_live):
    tab = show_live()
    held = []
    tab.route("**/compare/*/*.json", lambda route: held.append(route))
    tab.locator("[data-tab=compare]").click()
    button = tab.locator("[data-view=compare] .primary")
    expect(button).to_be_disabled()
    wait_until(tab, lambda: held)
    held[0].continue_()
    expect(button).to_be_enabled()


@pytest.mark.parametrize("key", ["ArrowLeft", " "])
def test_what_moves_when_back_is_pressed_does_not_come_into_the_history(chromium, address, key):
    """A key just before, or a replay: the race that is left must not be put on top of the one that is fetched."""
    tab, trouble = open_page(chromium, address, "?race=question&method=eagle2&round=3&motion=0")
    tab.wait_for_selector("[data-round='3'][data-method=eagle2]")
    tab.clock.install()
    part(tab, "races").select_option("hostile")
    tab.wait_for_function("new URLSearchParams(location.search).get('race') === 'hostile'")
    tab.clock.run_for(300)  # what the first sight of a race writes is written
    held = []
    tab.route("**/races/question.json", lambda route: held.append(route))
    press = """(key) => {
      document.body.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true, cancelable: true}));
      history.back();
    }"""
    tab.evaluate(press, key)
    wait_until(tab, lambda: held)
    expect(part(tab, "play")).to_contain_text("Play")
    tab.keyboard.press("ArrowRight")  # in the race that is left
    tab.clock.run_for(800)  # an address is written within 250 ms, and what is slow is said after 700
    expect(part(tab, "notice")).to_have_text("Loading …")
    assert "race=question" in tab.url
    held[0].continue_()
    tab.wait_for_selector("[data-round='3'][data-method=eagle2]")
    expect(part(tab, "notice")).to_have_text("")
    tab.clock.run_for(400)
    tab.go_forward()
    expect(part(tab, "prompt")).to_have_text(HOSTILE)
    tab.context.close()
    assert trouble == []


def test_back_leads_to_a_race_that_was_left_at_once(show):
    """Before its address was written, which waits longer here than another race takes to be chosen."""
    slow = """const set = setTimeout;
      window.setTimeout = (call, ms, ...given) => set(call, ms === 250 ? 3000 : ms, ...given);"""
    tab = show("?motion=0", script=slow)
    left = part(tab, "races").input_value()
    other = "hostile" if left == "question" else "question"
    part(tab, "races").select_option(other)
    tab.wait_for_function("(other) => new URLSearchParams(location.search).get('race') === other", arg=other)
    tab.go_back()
    expect(part(tab, "races")).to_have_value(left)
    assert f"race={left}" in tab.url


def test_back_to_a_race_that_is_gone_leaves_the_address_of_the_one_shown(show):
    tab = show("?race=question&method=eagle2&motion=0", expected="404")
    tab.wait_for_selector("[data-round][data-method=eagle2]")
    part(tab, "races").select_option("hostile")
    tab.wait_for_function("location.search.includes('race=hostile')")
    tab.route("**/races/question.json", lambda route: route.fulfill(status=404, body="it is not kept any more"))
    tab.go_back()
    expect(part(tab, "notice")).to_have_text("it is not kept any more")
    tab.wait_for_function("location.search.includes('race=hostile')")
    count = tab.evaluate("history.length")
    tab.keyboard.press("Home")
    tab.wait_for_function("location.search.includes('round=0')")
    assert tab.evaluate("history.length") == count and "race=hostile" in tab.url


def test_a_lane_that_is_chosen_changes_places_with_the_one_above_it(show):
    tab = show("?race=question&method=jakiro&against=eagle2&round=0&tab=compare")
    other = tab.locator("[data-view=compare]").get_by_label("The other lane")
    for lane, below, name in (("eagle2", "jakiro", "Jakiro"), ("jakiro", "eagle2", "EAGLE-2")):
        tab.locator(f".lane[data-method={lane}] h2 button").click()
        tab.wait_for_selector(f"#viewer [data-method={lane}][data-round]")
        expect(part(tab, "against")).to_have_value(below)
        expect(other.locator("option:checked")).to_have_text(name)
        tab.wait_for_function("(below) => location.search.includes(`against=${below}`)", arg=below)


def test_nothing_below_stays_nothing(show):
    tab = show("?race=question&method=jakiro&round=0&tab=compare")
    expect(part(tab, "against")).to_have_value("eagle2")
    wait_for_timeline(tab)
    part(tab, "against").select_option(label="nothing")
    shown = "[...document.querySelector('[data-part=bars]').data].filter((one) => one.meta !== undefined)"
    for number, lane in ((2, "eagle2"), (3, "jakiro")):
        tab.keyboard.press(str(number))
        tab.wait_for_selector(f"#viewer [data-method={lane}][data-round]")
        expect(part(tab, "against").locator("option:checked")).to_have_text("nothing")
        tab.wait_for_function(f"new Set({shown}.map((one) => one.meta)).size === 1")
    other = tab.locator("[data-view=compare]").get_by_label("The other lane")
    expect(other.locator("option:checked")).to_have_text("EAGLE-2")  # something to compare with there always is
    tab.wait_for_function("/method=jakiro.*against=nothing/.test(location.search)")  # it follows with a delay
    tab.goto(tab.evaluate("location.href").replace("against=nothing", "against=jakiro"))  # how it was written once
    tab.wait_for_selector("[data-ready=yes]")
    expect(part(tab, "against").locator("option:checked")).to_have_text("nothing")


def test_in_place_of_a_race_that_is_not_to_be_had_another_is_shown_from_its_beginning(show, address):
    path = "?race=live-1&method=eagle2&round=3&node=2&place=5"
    gone = {"**/races/live-1.json": lambda route: route.fulfill(status=404, body="not now")}
    tab = show(path, routes=gone, expected="404")
    expect(part(tab, "notice")).to_have_text("not now")
    tab.wait_for_function("location.search.includes('race=question')")
    tab.goto(f"{address}?race=question")
    tab.wait_for_function("location.search.includes('round=')")
    usual = tab.evaluate("location.search")
    tab.goto(f"{address}{path}")
    tab.wait_for_function("(usual) => location.search === usual", arg=usual)


def test_a_race_that_still_runs_can_be_chosen_when_it_is_over(show, address):
    early = {"**/races/live-1.json": lambda route: route.fulfill(status=409, body="still running")}
    tab = show("?race=live-1", routes=early, expected="409")
    expect(part(tab, "notice")).to_have_text("still running")
    expect(part(tab, "races")).to_have_value("question")
    races = part(tab, "races")
    races.select_option("live-1")  # still too early
    expect(races).to_have_value("question")
    tab.reload()
    expect(races.locator("option[value=live-1]")).to_have_text("a race that was still running")
    tab.unroute("**/races/live-1.json")
    over = tab.request.get(f"{address}races/hostile.json").json()
    over["about"]["id"] = "live-1"
    tab.route("**/races/live-1.json", lambda route: route.fulfill(json=over))
    races.select_option("live-1")
    expect(part(tab, "prompt")).to_have_text(HOSTILE)
    expect(races).to_have_value("live-1")
