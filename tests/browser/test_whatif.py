"""What if, on the page: rounds of a race decoded again with something changed, shown beside what they were."""

from __future__ import annotations

import json
import re
import threading
import time
from dataclasses import fields, make_dataclass

from playwright.sync_api import expect
from served import IN_CHROMIUM, WIDE_AND_NARROW, open_page, part, race_live, wait_for_tree, wait_until

from jakiro.assets import ASSETS
from jakiro.settings import setting
from jakiro.ui import comparing, live, whatif
from jakiro.ui.modules import Modules

pytestmark = IN_CHROMIUM
NEW_TOKENS = 32  # of its live races, which most tests here begin with
MARKED = """(token) => {
  // whether the token is of the round shown
  return document.querySelectorAll('.lane[data-method=jakiro] .text span')[token]?.classList.contains('now');
}"""


@WIDE_AND_NARROW
def test_rounds_are_decoded_again_and_shown_beside_what_they_were(show):
    tab = show("?motion=0")
    race_live(tab, "the an the")
    tab.keyboard.press("Home")
    tab.wait_for_selector("[data-round='0'][data-method=jakiro]")
    wait_for_tree(tab)
    points = tab.locator("[data-figure=tree] .points path").count()
    part(tab, "cut").check()  # the nodes that did not fit are drawn too
    tab.wait_for_function(
        "(count) => document.querySelectorAll('[data-figure=tree] .points path').length > count", arg=points
    )
    tab.wait_for_function("location.search.includes('cut=1')")
    part(tab, "cut").uncheck()
    tab.keyboard.press("ArrowRight")
    tab.wait_for_selector("[data-round='1'][data-method=jakiro]")
    tab.locator("[data-tab=whatif]").click()
    form = tab.locator("form.whatif")
    form.get_by_label("depth").fill("3")
    form.get_by_label("rounds").fill("3")
    form.locator("[type=submit]").click()
    expect(part(tab, "kind")).to_have_text("what if")
    expect(tab.locator(".lane").first).to_be_in_viewport()
    expect(part(tab, "notice")).to_contain_text("depth 3 instead of 2")
    expect(part(tab, "notice")).to_contain_text("the same text")
    assert tab.locator(".lane").count() == 2
    assert tab.locator(".lane.chosen h2").text_content() == "Jakiro, what if"
    tab.wait_for_selector("[data-method=jakiro-2]")
    usual = "Outline" if tab.viewport_size["width"] < 700 else "Tree"
    expect(tab.locator("[role=tab][aria-selected=true]")).to_have_text(usual)
    wait_for_tree(tab)
    part(tab, "back").click()
    tab.wait_for_selector("[data-round='1'][data-method=jakiro]")
    expect(part(tab, "kind")).to_have_text("live")
    expect(form.get_by_label("depth")).to_have_value("3")  # what was filled in stays
    form.get_by_label("next token").select_option(index=1)
    form.get_by_label("or text").press_sequentially(" an")  # no shortcut of the page
    expect(form.get_by_label("next token")).to_have_value("")  # one or the other
    form.locator("[type=submit]").click()
    expect(part(tab, "notice")).to_contain_text("“ an” forced")
    part(tab, "back").click()
    tab.wait_for_selector("[data-round='1'][data-method=jakiro]")
    form.get_by_label("or text").fill("")
    form.get_by_label("depth").fill("99")
    tab.evaluate("document.querySelector('form.whatif').noValidate = true")
    form.locator("[type=submit]").click()
    expect(part(tab, "notice")).to_contain_text("depth must be a whole number from 1 to 16")
    expect(form.locator("[type=submit]")).to_be_enabled()
    expect(form.get_by_label("depth")).to_have_value("99")  # what was typed stays
    expect(part(tab, "kind")).to_have_text("live")


def test_a_setting_that_is_any_text_is_asked_for(show):
    """No method has one yet; the settings of the next race take it, too."""
    own = make_dataclass("Own", [("words", str, setting("a b", "Any."))])
    script = """async ([path, fields]) => {
      const {whatIf} = await import(new URL(path, document.baseURI));
      const box = document.createElement('div'), asked = [];
      const sampling = {temperature: 0, top_p: 1, seed: 0};
      const lane = {kind: 'mine', method: 'mine', settings: {words: 'a b'}, sampling,
        nodes: [{id: [1], parent: [-1]}]};
      whatIf(box, {id: 'r', lanes: [lane]}, lane, 0, {mine: fields}, '', (request) => asked.push(request));
      for (const text of ['a b', 'c']) {
        box.querySelector('input').value = text;
        box.firstChild.dispatchEvent(new Event('submit'));
      }
      return asked.map(({settings, text}) => [settings, text]);
    }"""
    given = [f"{Modules(ASSETS / 'viewer').path}/whatif.js", [whatif._description(one) for one in fields(own)]]
    assert show("?race=question").evaluate(script, given) == [[{}, ""], [{"words": "c"}, ""]]


def test_rounds_that_come_late_leave_the_race_that_was_chosen_since(show_live, monkeypatch):
    tab, free, real = show_live(), threading.Event(), live.what_if
    monkeypatch.setattr(live, "what_if", lambda *given: free.wait(120) and real(*given))
    tab.locator("[data-tab=whatif]").click()
    tab.locator("form.whatif [type=submit]").click()
    expect(part(tab, "notice")).to_contain_text("when the model is free")
    tab.locator(".gallery-item", has_text="Question").click()
    expect(part(tab, "prompt")).to_have_text("Why?")
    tab.locator("#prompt textarea").press("Enter")
    expect(part(tab, "notice")).to_contain_text("The model is busy with what was asked")
    free.set()
    expect(part(tab, "notice")).to_have_text("The rounds that were decoded again are in the list of races.")
    expect(part(tab, "prompt")).to_have_text("Why?")
    [late] = [one for one in part(tab, "races").locator("option").all_text_contents() if one.startswith("what if: ")]
    part(tab, "races").select_option(label=late)
    expect(part(tab, "kind")).to_have_text("what if")


def test_what_ifs_of_one_run_are_told_apart_in_the_list(show_live):
    tab = show_live()
    form = tab.locator("form.whatif")
    for depth in (4, 3, 3):
        tab.locator("[data-tab=whatif]").click()
        form.get_by_label("rounds").fill("2")
        form.get_by_label("depth").fill(str(depth))
        form.locator("[type=submit]").click()
        expect(part(tab, "kind")).to_have_text("what if")
        part(tab, "back").click()
        expect(part(tab, "kind")).to_have_text("live")
    titles = part(tab, "races").locator("option").all_text_contents()
    named = [one for one in titles if one.startswith("what if: Jakiro from round")]
    assert len(set(named)) == len(named) == 3 and max(map(len, named)) < 90
    assert sum("depth 3 instead of 2" in one for one in named) == 2


@WIDE_AND_NARROW
def test_two_lanes_are_compared_along_one_text(show):
    tab = show("?motion=0")
    race_live(tab, "the an the")
    tab.locator("[data-tab=compare]").click()
    view = tab.locator("[data-view=compare]")
    expect(view.locator("select option")).to_have_text(["EAGLE-2"])  # vanilla drafts nothing
    view.get_by_role("button", name="Compare").click()
    for figure in ("overlay", "coverage", "reach"):
        tab.wait_for_selector(f"[data-figure={figure}][data-drawn=yes]:visible")
    expect(part(tab, "why")).to_contain_text("tokens of one text, Jakiro would have got further")
    expect(view.locator("[data-figure=reach] .annotation-text")).to_have_text("drafted tokens along the text")
    tab.locator(".lane[data-method=vanilla] h2 button").click()
    expect(view).to_contain_text("Vanilla drafted nothing in this race: choose another lane.")
    expect(view.locator(".links, .primary").first).to_be_hidden()  # what is below is of the lane that is chosen
    tab.locator(".lane[data-method=jakiro] h2 button").click()
    expect(view.locator(".links")).to_be_visible()
    assert view.locator(".links button").count() == min(5, view.locator("tbody tr").count())
    view.locator(".links button").nth(1).click()
    tab.wait_for_function("location.search.includes('place=')")
    expect(view.locator(".links button").nth(1)).to_have_attribute("aria-current", "true")
    expect(view.locator(".said li")).to_have_count(2)
    expect(view.locator(".said li").first).to_contain_text("Jakiro: ")
    rows = view.locator("tbody tr")
    assert rows.count() > 0
    rows.last.get_by_role("button").click()
    expect(rows.last).to_have_class("now")
    place = int(rows.last.get_attribute("data-place"))
    tab.wait_for_function(MARKED, arg=place + 1)  # the playhead went along
    tab.wait_for_selector("[data-figure=overlay][data-drawn=yes]:visible")
    tab.keyboard.press("e")
    with tab.expect_download() as download:
        tab.locator("[data-do=svg]").click()
    assert f"Jakiro and EAGLE-2 · after token {place + 1} · the an the" in download.value.path().read_text()
    further, first, second = (rows.last.locator("td").nth(at).text_content() for at in (1, 2, 3))
    assert further == ("Jakiro" if int(first) > int(second) else "EAGLE-2")
    tab.wait_for_function("(place) => Number(new URLSearchParams(location.search).get('place')) === place", arg=place)
    link = re.sub("&(round|node)=[0-9]+", "", tab.evaluate("location.search"))  # tab.url follows with a delay
    expect(part(show(link), "count")).to_have_text(part(tab, "count").text_content())  # the place says the round
    tab.locator("[data-tab=diversity]").click()
    tab.wait_for_selector("[data-figure=same][data-drawn=yes]:visible")  # both lanes after the same tokens
    expect(tab.locator("[data-view=diversity] .offered")).to_be_hidden()
    tab.locator("[data-tab=tree]").click()
    tab.keyboard.press("ArrowRight")
    tab.wait_for_function("!location.search.includes('place=')")


def test_where_no_lane_gets_further_it_is_said_in_what_they_differ(show_live):
    tab = show_live()

    def alike(route):
        found = (answer := route.fetch()).json()
        if found:  # nothing is kept before
            found["reach"][1] = found["reach"][0]
        route.fulfill(response=answer, body=json.dumps(found))

    tab.route("**/compare/**", alike)
    tab.locator("[data-tab=compare]").click()
    view = tab.locator("[data-view=compare]")
    view.get_by_role("button", name="Compare").click()
    expect(view.locator(".links")).to_contain_text("Neither gets further anywhere; they differ most in")
    expect(view.locator(".links button").first).to_be_visible()
    expect(view.locator("thead")).to_have_count(0)


def test_what_was_compared_goes_with_the_replay(show_live, chromium, address, tmp_path):
    tab = show_live()
    tab.locator("[data-tab=compare]").click()
    tab.locator("[data-view=compare]").get_by_role("button", name="Compare").click()
    tab.wait_for_selector("[data-figure=overlay][data-drawn=yes]:visible")
    said, id = part(tab, "why").text_content(), part(tab, "races").input_value()
    file = tmp_path / "replay.html"
    file.write_bytes(tab.request.get(f"{address}races/{id}/replay.html").body())
    replay, trouble = open_page(chromium, file.as_uri(), "?tab=compare")
    replay.wait_for_selector("[data-figure=overlay][data-drawn=yes]:visible")
    expect(part(replay, "why")).to_have_text(said)
    replay.context.close()
    assert trouble == []


def test_what_is_asked_of_a_busy_model_need_not_be_waited_for(show_live, monkeypatch):
    tab = show_live()
    free = threading.Event()
    compare = comparing.along
    monkeypatch.setattr(comparing, "along", lambda *given, **named: free.wait(120) and compare(*given, **named))
    tab.locator("[data-tab=compare]").click()
    tab.locator("[data-view=compare] .primary").click()
    expect(part(tab, "notice")).to_contain_text("when the model is free")
    tab.locator("[data-do=stop]").click()
    expect(part(tab, "notice")).to_contain_text("not waiting for the answer")
    expect(tab.locator("[data-do=run]")).to_be_visible()
    free.set()
    race_live(tab, "an the")
    expect(part(tab, "prompt")).to_have_text("an the")


def test_what_is_stopped_ends_on_the_server_too(show_live, monkeypatch):
    tab, begun, ended = show_live(), [], []

    def endless(loaded, library, asked, heed):
        begun.append(asked)
        try:
            while True:
                heed(0.25)
                time.sleep(0.01)
        finally:
            ended.append(asked)

    monkeypatch.setattr(live, "compare", endless)
    tab.locator("[data-tab=compare]").click()
    tab.locator("[data-view=compare] .primary").click()
    wait_until(tab, lambda: begun)
    expect(part(tab, "notice")).to_have_text("Drafting along the text, twice: 20 %")
    tab.locator("[data-do=stop]").click()
    wait_until(tab, lambda: ended)
    race_live(tab, "an the")
    expect(part(tab, "prompt")).to_have_text("an the")


def test_the_end_of_what_was_stopped_is_not_taken_for_the_end_of_the_next(show_live, monkeypatch):
    tab = show_live()
    begun, free = [], [threading.Event(), threading.Event()]
    compare = comparing.compare

    def held(*given):
        begun.append(given)
        assert free[len(begun) - 1].wait(120)
        return compare(*given)

    monkeypatch.setattr(live, "compare", held)
    tab.locator("[data-tab=compare]").click()
    view = tab.locator("[data-view=compare]")
    view.locator(".primary").click()
    expect(part(tab, "notice")).to_contain_text("when the model is free")
    wait_until(tab, lambda: begun)
    tab.locator("[data-do=stop]").click()
    expect(part(tab, "notice")).to_contain_text("not waiting for the answer")
    tab.locator(".lane[data-method=eagle2] h2 button").click()
    view.locator(".primary").click()
    expect(part(tab, "notice")).to_contain_text("when the model is free")
    free[0].set()
    wait_until(tab, lambda: len(begun) == 2)
    tab.wait_for_timeout(1500)  # by which the page says that no answer comes
    expect(part(tab, "notice")).to_contain_text("when the model is free")
    expect(tab.locator("[data-do=stop]")).to_be_visible()
    free[1].set()
    expect(view.locator(".links")).to_be_visible()
    expect(part(tab, "why")).to_contain_text("one text, EAGLE-2 would have got further")
    expect(view.get_by_label("The other lane").locator("option:checked")).to_have_text("Jakiro")


def look_at_compare(tab):
    """The tab is open, and the server has said that nothing is kept: before, too, the button can be pressed."""
    with tab.expect_response("**/compare/*/*.json"):
        tab.locator("[data-tab=compare]").click()
    expect(tab.locator("[data-view=compare] .primary")).to_be_enabled()


def compare_late(tab):
    """Lanes are compared; gives the request for what came of it, which is held."""
    held = []
    look_at_compare(tab)
    tab.route("**/live-*/compare/*/*.json", lambda route: held.append(route))
    tab.locator("[data-view=compare] .primary").click()
    expect(part(tab, "notice")).to_contain_text("Drafting along the text")
    wait_until(tab, lambda: held)
    return held[0]


def test_a_comparison_that_fails_late_leaves_what_is_asked_since(show_live):
    tab = show_live()
    held = []
    look_at_compare(tab)
    tab.route("**/compare/*/*.json", lambda route: held.append(route))
    tab.locator("[data-view=compare] .primary").click()
    wait_until(tab, lambda: held)
    tab.locator("[data-do=stop]").click()
    tab.locator("[data-view=compare] .primary").click()
    wait_until(tab, lambda: len(held) == 2)
    held[0].fulfill(body="{")  # which is no comparison
    tab.wait_for_timeout(300)
    expect(part(tab, "notice")).to_contain_text("Drafting along the text")  # how far, if the machine is slow
    held[1].continue_()
    expect(tab.locator("[data-view=compare] .links")).to_be_visible()


def test_a_late_comparison_does_not_go_to_another_race(show_live):
    tab = show_live()
    late = compare_late(tab)
    part(tab, "races").select_option("question")
    expect(part(tab, "prompt")).to_have_text("Why?")
    late.continue_()
    tab.wait_for_selector("#viewer [data-running=no]")
    assert part(tab, "prompt").text_content() == "Why?"
    expect(tab.locator("[data-view=compare] .links")).to_be_hidden()
    expect(part(tab, "notice")).to_contain_text("choose their race again")


def test_a_late_comparison_leaves_the_lane_that_was_chosen_since(show_live):
    tab = show_live()
    late = compare_late(tab)
    tab.keyboard.press("1")
    tab.keyboard.press("End")
    tab.wait_for_selector("#viewer [data-method=vanilla].chosen")
    expect(part(tab, "count")).to_have_text(re.compile(r"^round (\d+) / \1$"))  # which may come a frame later
    last = part(tab, "count").text_content()
    late.continue_()
    expect(part(tab, "notice")).to_have_text("Jakiro and EAGLE-2 have been compared: Compare of Jakiro has it.")
    expect(tab.locator(".lane[data-method=vanilla]")).to_have_class(re.compile("chosen"))
    expect(part(tab, "count")).to_have_text(last)
    tab.keyboard.press("3")
    expect(tab.locator("[data-view=compare] .links")).to_be_visible()


def test_who_asks_by_key_has_the_focus_back(show_live):
    tab = show_live()
    tab.keyboard.press("Escape")  # from here on it is the keyboard's
    with tab.expect_response("**/compare/*/*.json"):
        tab.locator("[data-tab=compare]").press("Enter")
    tab.locator("[data-view=compare] .primary:enabled").press("Enter")
    expect(tab.locator("[data-view=compare] .links")).to_be_visible()
    expect(tab.get_by_role("button", name="Compare again")).to_be_focused()
    tab.locator("[data-tab=whatif]").press("Enter")
    tab.locator("form.whatif [type=submit]:enabled").press("Enter")
    expect(part(tab, "kind")).to_have_text("what if")
    expect(part(tab, "title")).to_be_focused()
    part(tab, "back").press("Enter")
    expect(part(tab, "kind")).to_have_text("live")
    expect(part(tab, "title")).to_be_focused()
    tab.locator("[data-tab=whatif]").press("Enter")
    tab.locator("form.whatif").get_by_label("rounds").press("Enter")  # as much as the button
    expect(part(tab, "kind")).to_have_text("what if")
    expect(part(tab, "title")).to_be_focused()


def test_back_from_a_what_if_leaves_the_lane_below_as_it_was(show_live):
    tab = show_live()
    part(tab, "against").select_option("vanilla")
    tab.locator("[data-tab=whatif]").click()
    tab.wait_for_function("location.search.includes('against=vanilla')")
    tab.locator("form.whatif [type=submit]").click()
    expect(part(tab, "kind")).to_have_text("what if")
    tab.wait_for_function("!location.search.includes('against=vanilla')")
    tab.go_back()
    expect(part(tab, "kind")).to_have_text("live")
    expect(part(tab, "against")).to_have_value("vanilla")


def test_what_needs_the_model_can_be_asked_as_soon_as_it_is_there(show, show_live):
    tab = show_live()
    tab.wait_for_function("location.search.includes('race=live')")  # the address follows with a delay
    again = show(f"?{tab.url.partition('?')[2]}&tab=compare")
    again.wait_for_selector("#viewer [data-models=ready]")
    expect(again.locator("[data-view=compare] .primary")).to_be_enabled()


def test_diversity_offers_the_comparison_and_stays_where_it_is(show_live):
    tab = show_live()
    tab.locator("[data-tab=diversity]").click()
    offer = tab.locator("[data-view=diversity] .offered button")
    expect(offer).to_have_text("Against EAGLE-2 after the same tokens")
    offer.click()
    tab.wait_for_selector("[data-figure=same][data-drawn=yes]:visible")
    expect(tab.locator("[data-tab=diversity]")).to_have_attribute("aria-selected", "true")
    heads = tab.locator("[data-view=diversity] h3:visible")
    expect(heads).to_have_text(["All rounds of this run", re.compile(r"After each of the same \d+ tokens")])
    part(tab, "against").select_option("vanilla")
    expect(tab.locator("[data-figure=same]")).to_be_hidden()
    expect(offer).to_be_hidden()  # nothing would come of what drafts nothing


@WIDE_AND_NARROW
def test_the_doctor_examines_the_head_of_the_lane_shown(show_live):
    tab = show_live()
    tab.locator("[data-tab=run]").click()
    view = tab.locator("[data-view=run]")
    view.get_by_role("button", name="Examine the head of Jakiro").click()
    expect(view.locator(".findings tr")).to_have_count(9)  # of fourteen: this head knows nothing that five look at
    expect(view.locator(".findings tr").first).to_contain_text("keys and shapes")
    expect(view.locator(".findings tr").first).to_contain_text("good")
    tab.keyboard.press("1")  # vanilla has no head
    expect(view.locator(".doctor")).to_be_hidden()
    tab.keyboard.press("3")
    expect(view.locator(".findings tr")).to_have_count(9)
    race = part(tab, "races").input_value()
    part(tab, "races").select_option("question")  # of another model
    expect(view.locator(".doctor small")).to_contain_text("This race was recorded with")
    expect(view.locator(".findings")).to_be_hidden()
    part(tab, "races").select_option(race)
    expect(view.locator(".findings tr")).to_have_count(9)
    expect(view.locator(".doctor small")).to_contain_text("how well it knows its target")


def test_another_models_run_cannot_be_decoded_again_and_the_form_says_so(show):
    tab = show("?race=question&method=jakiro&round=3&tab=whatif")
    tab.wait_for_selector("#viewer [data-models=ready]")
    tab.keyboard.press("ArrowRight")
    expect(tab.locator("form.whatif .none")).to_contain_text("recorded with synthetic")
    expect(tab.locator("form.whatif [type=submit]")).to_be_disabled()


def test_what_was_filled_in_stays_from_round_to_round_and_lane_to_lane(show):
    tab = show("?race=question&method=jakiro&round=3&tab=whatif")
    form, token = tab.locator("form.whatif"), tab.locator("form.whatif [name=token]")
    expect(form.locator("[type=submit]")).to_have_text("Decode again from round 4")
    before = token.locator("option").all_text_contents()
    form.get_by_label("depth").fill("2")
    tab.locator("[data-do=next]").click()
    expect(form.locator("[type=submit]")).to_have_text("Decode again from round 5")
    expect(form.get_by_label("depth")).to_have_value("2")
    assert token.locator("option").all_text_contents() != before
    tab.keyboard.press("1")  # and while another lane is looked at
    expect(form.get_by_label("depth")).to_have_count(0)
    tab.keyboard.press("3")
    expect(form.get_by_label("depth")).to_have_value("2")
