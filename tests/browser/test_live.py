"""Live races in a real browser: they stream, stop and say what is wrong."""

from __future__ import annotations

import re
import threading
import time
from dataclasses import replace

import pytest
import synthetic
from playwright.sync_api import expect
from served import (
    CUT_OFF,
    DROP,
    HEAR_THE_REPLAY,
    IN_CHROMIUM,
    REPLAYED,
    WIDE_AND_NARROW,
    launched,
    open_page,
    part,
    race_live,
    served,
    wait_for_tree,
    wait_until,
)

from jakiro.trace import to_json
from jakiro.ui import library, live, recorded
from jakiro.ui.library import Library
from jakiro.ui.models import Models
from jakiro.ui.race import Race

pytestmark = IN_CHROMIUM
NEW_TOKENS = 48  # of a live race here
ROUNDS, EVENTS = Race.rounds, live.events
COUNT_COPIES = """{
  const copy = structuredClone;
  window.copied = [];
  window.structuredClone = (one, ...more) => { copied.push(one); return copy(one, ...more); };
}"""


# The page then says of every wait that it waits.
NO_PATIENCE = """const set = setTimeout;
  window.setTimeout = (call, ms, ...given) => set(call, ms === 700 ? 100 : ms, ...given);"""
NOTE_THE_HEIGHTS = """() => {
  window.heights = new Set();
  const look = () => {
    const lane = document.querySelector('.running .lane');
    if (lane) heights.add(lane.offsetHeight);
    requestAnimationFrame(look);
  };
  look();
}"""
NOTE_THE_SPEEDUPS = """() => {
  window.passes = new Set(); // of vanilla, wherever some lane's speed is held against its
  const look = () => {
    const lanes = document.querySelectorAll('.running .lane .numbers');
    const [vanilla, ...others] = [...lanes].map((one) => one.textContent);
    if (others.some((text) => text.includes('×'))) passes.add(Number(/([0-9]+) pass/.exec(vanilla)[1]));
    requestAnimationFrame(look);
  };
  look();
}"""
WATCH_THE_LANES = """() => {
  window.tops = new Set();
  const lanes = document.querySelector('#viewer [data-part=lanes]');
  const look = () => { tops.add(lanes.getBoundingClientRect().top + scrollY); requestAnimationFrame(look); };
  look();
}"""


STOP_AND_RUN = """() => {
  const [stop, run] = ['stop', 'run'].map((name) => document.querySelector(`#viewer [data-do=${name}]`));
  const seen = new MutationObserver(() => { if (!run.hidden) { seen.disconnect(); run.click(); } });
  seen.observe(run, {attributes: true});
  stop.click();
}"""
HEAR_THE_NOTICE = """() => {
  const notice = document.querySelector('#viewer [data-part=notice]');
  window.heard = [];
  new MutationObserver(() => heard.push(notice.textContent)).observe(notice, {childList: true});
}"""


def slowly(race):
    """A race's rounds, so that there is time to do something while it runs."""
    for event in ROUNDS(race):
        time.sleep(0.06)
        yield event


def run(tab, prompt):
    tab.wait_for_selector("#viewer [data-models=ready]")
    tab.locator("#prompt textarea").fill(prompt)
    tab.locator("[data-do=run]").click()


def choose_live(tab, prompt):
    """A live race of this visit, from the list, where it stands with its time and its methods."""
    titles = part(tab, "races").locator("option").all_text_contents()
    [found] = [one for one in titles if re.fullmatch(rf"live \d\d:\d\d:\d\d: {prompt} · Vanilla, EAGLE-2, Jakiro", one)]
    part(tab, "races").select_option(label=found)


def run_until_it_is_in_the_address(tab):
    run(tab, "the the an")
    tab.wait_for_function(
        "document.querySelector('#viewer [data-running=yes]') && location.search.includes('race=live-')"
    )
    tab.wait_for_selector(".lane .text span")


@WIDE_AND_NARROW
def test_a_live_race_streams_and_can_be_opened(show):
    tab = show("?motion=0", expected=CUT_OFF)
    run(tab, "the an the")
    tab.wait_for_selector("#viewer [data-running=no]")  # the click has begun it
    expect(part(tab, "kind")).to_have_text("live")
    expect(part(tab, "prompt")).to_have_text("the an the")
    expect(part(tab, "lossless")).to_contain_text("lossless: 3/3")
    expect(tab.locator("[data-do=run]")).to_have_attribute("data-help", "")  # nothing is waited for any more
    wait_for_tree(tab)
    tab.wait_for_function("location.search.includes('race=live-')")  # written at most four times a second
    tab.reload()  # the address alone brings it back
    tab.wait_for_selector("[data-ready=yes]")
    expect(part(tab, "prompt")).to_have_text("the an the")


@pytest.mark.parametrize("width", [1440, 768, 390])
def test_a_race_that_begins_and_ends_moves_no_lane(show, monkeypatch, width):
    """What is not there while it runs leaves its place."""
    monkeypatch.setattr(Race, "rounds", slowly)
    tab = show("?motion=0", script=NO_PATIENCE, viewport={"width": width, "height": 900})
    race_live(tab, "the an the")
    tab.evaluate(WATCH_THE_LANES)
    tab.locator("[data-do=run]").click()
    expect(part(tab, "kind")).to_have_text("running")
    expect(part(tab, "export")).to_be_hidden()
    expect(part(tab, "kind")).to_have_text("live")
    tab.wait_for_timeout(300)
    assert tab.evaluate("Math.max(...tops) - Math.min(...tops)") < 1


def test_the_races_of_a_visit_are_in_the_list_when_the_page_is_loaded_again(show):
    tab = show("?motion=0", expected=CUT_OFF)
    run(tab, "the an the")
    tab.wait_for_selector("#viewer [data-running=no]")  # the click has begun it
    part(tab, "races").select_option("question")
    tab.wait_for_function("location.search.includes('race=question')")
    tab.reload()
    tab.wait_for_selector("[data-ready=yes]")
    choose_live(tab, "the an the")
    expect(part(tab, "kind")).to_have_text("live")


def test_the_list_of_a_visit_stays_short_whatever_is_asked(show):
    before = [[f"opened-{number}", f"opened: word word, number {number}"] for number in range(19)]
    tab = show("?race=question", script=f"sessionStorage.setItem('jakiro-races /', JSON.stringify({before}))")
    long = synthetic.tree_trace(1, nodes=2)
    long = replace(long, pieces=long.pieces | dict.fromkeys(long.prompt, "word " * 150))
    races = part(tab, "races").element_handle()
    for seed in range(3):
        shown = races.input_value()
        tab.evaluate(DROP, to_json(replace(long, seed=seed)))
        tab.wait_for_function("([races, shown]) => races.value !== shown", arg=[races, shown])
    kept = "JSON.parse(Object.entries(sessionStorage).find(([name]) => name.startsWith('jakiro-races'))[1])"
    titles = [title for _, title in tab.evaluate(kept)]
    assert len(set(titles)) == 20 and max(map(len, titles)) < 90
    assert titles[0] == before[2][1]  # the oldest two have gone
    assert all(title.startswith("opened: word word") for title in titles)
    assert max(map(len, part(tab, "races").locator("option").all_text_contents())) < 90
    assert part(tab, "races").locator("option").count() == 22  # the two recorded ones among them


def test_a_live_race_ends_at_the_round_that_a_recorded_one_opens_with(show):
    tab = show("?speed=4")
    tab.evaluate(HEAR_THE_REPLAY)
    run(tab, "the an the")
    tab.wait_for_function(REPLAYED)
    accepted = tab.evaluate("""async () => {
      const id = new URLSearchParams(location.search).get('race');
      const {replay} = await (await fetch(`races/${id}.json`)).json();
      return replay.traces.at(-1).rounds.accepted;
    }""")
    tab.wait_for_selector(f"[data-round='{accepted.index(max(accepted))}'][data-method=jakiro]")


def test_the_header_makes_room_for_the_settings(show):
    tab = show("?race=question", viewport={"width": 1280, "height": 720})
    tab.locator("[data-do=settings]").click()
    tab.wait_for_selector("#viewer.narrow")
    badge, run_live = part(tab, "lossless").bounding_box(), tab.locator("[data-do=run]").bounding_box()
    assert badge["x"] + badge["width"] <= run_live["x"] or badge["y"] + badge["height"] <= run_live["y"]


def test_nothing_on_the_screen_moves_when_a_race_is_over(show, monkeypatch):
    monkeypatch.setattr(Race, "rounds", slowly)
    tab = show("?race=question&motion=0")
    run(tab, "the an the")
    tab.wait_for_selector(".running .lane .text span")  # no round yet
    before = part(tab, "lanes").bounding_box()
    assert tab.locator("footer").bounding_box()["y"] > tab.viewport_size["height"]
    tab.wait_for_selector("#viewer [data-running=no]")
    expect(part(tab, "kind")).to_have_text("live")
    assert part(tab, "lanes").bounding_box() == before


def test_a_lane_is_as_high_before_its_first_round_as_after(show, monkeypatch):
    """On a screen where the mean of a lane stands below its name."""
    monkeypatch.setattr(Race, "rounds", slowly)
    tab = show("?race=question&motion=0", viewport={"width": 768, "height": 900})
    tab.evaluate(NOTE_THE_HEIGHTS)
    run(tab, "the an the")
    expect(tab.locator(".running .lane .numbers", has_text=re.compile("[1-9] pass"))).not_to_have_count(0)
    assert tab.evaluate("heights.size") == 1


def test_no_speed_is_held_against_that_of_a_token_or_two(show, monkeypatch):
    monkeypatch.setattr(Race, "rounds", slowly)
    monkeypatch.setattr("jakiro.ui.race.TURN", 0.0)  # all lanes have begun soon
    tab = show("?race=question&motion=0")
    tab.evaluate(NOTE_THE_SPEEDUPS)
    run(tab, "the an the")
    tab.wait_for_selector("#viewer [data-running=no]")
    passes = tab.evaluate("[...passes]")
    assert passes and min(passes) >= 8


def test_a_stopped_race_is_shown_as_far_as_it_went(show, monkeypatch):
    monkeypatch.setattr(Race, "rounds", slowly)
    monkeypatch.setattr("jakiro.ui.race.TURN", 0.0)  # all lanes have begun soon
    tab = show("?motion=0")
    run(tab, "an the an")
    tab.wait_for_selector(".running .lane .text span")
    tab.locator("[data-do=stop]").click()
    tab.wait_for_selector("#viewer [data-running=no]")
    expect(part(tab, "prompt")).to_have_text("an the an")
    expect(part(tab, "notice")).to_have_text(re.compile("Stopped"))
    expect(part(tab, "lossless")).to_have_class(re.compile("good"))  # identical as far as all went
    expect(part(tab, "lanes").locator(".numbers", has_text="· stopped")).not_to_have_count(0)
    assert tab.locator("[data-do=run]").is_enabled()
    part(tab, "races").select_option("question")
    expect(part(tab, "prompt")).to_have_text("Why?")
    expect(part(tab, "notice")).to_be_hidden()  # it was about the other race
    choose_live(tab, "an the an")  # and is there for the whole visit
    expect(part(tab, "kind")).to_have_text("live")


def test_a_race_that_is_stopped_without_a_server_gives_back_the_view(show, monkeypatch):
    monkeypatch.setattr(Race, "rounds", slowly)
    tab = show("?race=question&method=eagle2&round=3&motion=0", expected="ERR_FAILED")
    run_until_it_is_in_the_address(tab)
    tab.route("**/races/**", lambda route: route.abort())
    tab.locator("[data-do=stop]").click()
    tab.wait_for_selector("[data-round='3'][data-method=eagle2]")
    expect(part(tab, "prompt")).to_have_text("Why?")
    tab.wait_for_function("location.search.includes('race=question')")


def test_the_keyboard_stays_at_run_and_stop(show, monkeypatch):
    monkeypatch.setattr(Race, "rounds", slowly)
    tab = show("?motion=0")
    tab.wait_for_selector("#viewer [data-models=ready]")
    tab.locator("#prompt textarea").fill("an the an")
    tab.keyboard.press("Tab")  # so that what is focused is so by the keyboard
    tab.locator("[data-do=run]").focus()
    tab.keyboard.press("Enter")
    expect(tab.locator("[data-do=stop]")).to_be_focused()
    tab.wait_for_selector(".running .lane .text span")
    tab.keyboard.press("Enter")
    expect(part(tab, "notice")).to_have_text(re.compile("Stopped"))
    expect(tab.locator("[data-do=run]")).to_be_focused()


def test_a_text_of_one_token_has_no_round(show):
    tab = show("?motion=0")
    tab.wait_for_selector("#viewer [data-models=ready]")
    tab.locator("[data-do=settings]").click()
    tab.get_by_label("max_new_tokens").fill("1")
    tab.locator("[data-do=settings]").click()
    tab.locator("#prompt textarea").fill("an the an")
    tab.locator("[data-do=run]").click()
    expect(part(tab, "kind")).to_have_text("live")
    expect(part(tab, "title")).to_have_text("Jakiro")
    for name in ("nodes", "accepted", "why"):
        expect(part(tab, name)).to_be_hidden()
    expect(tab.locator("[data-view=tree] ~ .none")).to_contain_text("ended with its first token")
    expect(tab.locator(".lane .row > .chip").first).to_contain_text("τ –")


def test_a_reload_during_a_race_shows_it_as_far_as_it_went(show, monkeypatch):
    monkeypatch.setattr(Race, "rounds", slowly)
    tab = show("?race=question&method=jakiro&round=3&node=1&motion=0", expected=CUT_OFF)
    run_until_it_is_in_the_address(tab)
    tab.reload()
    tab.wait_for_selector("[data-ready=yes]")
    expect(part(tab, "kind")).to_have_text("live")
    expect(part(tab, "prompt")).to_have_text("the the an")
    texts = tab.locator(".lane .text")
    assert 0 < sum(text.locator("span").count() for text in texts.all()) < NEW_TOKENS * texts.count()  # it was stopped


def test_a_race_that_fails_gives_back_the_view_and_the_address(show, monkeypatch):
    failing = threading.Event()

    def rounds(race):
        for event in slowly(race):
            yield event
            if failing.is_set():
                raise ValueError("no memory left")

    monkeypatch.setattr(Race, "rounds", rounds)
    tab = show("?race=question&method=jakiro&round=3&motion=0")
    run_until_it_is_in_the_address(tab)
    failing.set()
    expect(part(tab, "notice")).to_contain_text("no memory left")
    tab.wait_for_selector("[data-round='3'][data-method=jakiro]")
    tab.wait_for_function("location.search.includes('race=question')")


def test_a_server_that_is_lost_in_a_race_is_said_and_heard_again(show, monkeypatch):
    """And what is said of a key while a race runs does not stay until its end."""
    held = threading.Event()

    def rounds(race):
        for count, event in enumerate(ROUNDS(race)):
            if count == 4:
                held.wait(60)
            yield event

    monkeypatch.setattr(Race, "rounds", rounds)
    tab = show("?race=question&motion=0", expected="ERR_FAILED")
    run_until_it_is_in_the_address(tab)
    tab.keyboard.press("s")
    expect(part(tab, "notice")).to_contain_text("can be shared when it is over")
    expect(part(tab, "notice")).to_be_empty()
    tab.route("**/models.json", lambda route: route.abort())
    expect(part(tab, "notice")).to_contain_text("The server cannot be reached: what it worked on may be lost")
    tab.unroute("**/models.json")
    expect(part(tab, "notice")).to_be_empty()
    held.set()
    expect(part(tab, "kind")).to_have_text("live")


def test_back_in_a_race_leads_nowhere_and_afterwards_to_the_race_before(show, monkeypatch):
    monkeypatch.setattr(Race, "rounds", slowly)
    tab = show("?race=question&method=eagle2&round=3&motion=0")
    tab.wait_for_selector("[data-round='3'][data-method=eagle2]")
    run_until_it_is_in_the_address(tab)
    tab.evaluate("history.back()")
    expect(part(tab, "notice")).to_contain_text("A race is running")
    tab.wait_for_function("location.search.includes('race=live-')")
    expect(part(tab, "kind")).to_have_text("live")
    tab.evaluate("history.back()")
    expect(part(tab, "prompt")).to_have_text("Why?")
    tab.wait_for_selector("[data-round='3'][data-method=eagle2]")


def test_a_prompt_is_there_again_where_a_reload_finds_its_race_lost(show):
    tab = show("?motion=0", expected=f"404|{CUT_OFF}")
    run(tab, "the an the an")
    tab.wait_for_function("location.search.includes('race=live-')")
    expect(part(tab, "kind")).to_have_text("live")
    tab.route("**/races/live-*.json", lambda route: route.fulfill(status=404, body="it is not kept any more"))
    held = []
    tab.route("**/models.json", lambda route: held.append(route))
    tab.reload()
    expect(part(tab, "notice")).to_contain_text("not kept any more")
    tab.locator("#prompt textarea").fill("")  # as Gradio may before its controls are there
    wait_until(tab, lambda: held)
    tab.unroute("**/models.json")
    held[0].continue_()
    expect(tab.locator("#prompt textarea")).to_have_value("the an the an")


def test_a_race_that_begins_ends_the_tour_and_has_none(show, monkeypatch):
    monkeypatch.setattr(Race, "rounds", slowly)
    tab = show("?race=question")
    part(tab, "offer").click()
    expect(part(tab, "tour")).to_be_visible()
    run_until_it_is_in_the_address(tab)
    expect(part(tab, "tour")).to_be_hidden()
    tab.keyboard.press("?")
    part(tab, "help").get_by_text("Tour of one minute").click()
    expect(part(tab, "notice")).to_contain_text("The tour is of a race that is over")
    expect(part(tab, "tour")).to_be_hidden()
    tab.locator("[data-do=stop]").click()
    tab.wait_for_selector("#viewer [data-running=no]")


def test_a_file_that_is_dropped_on_a_race_is_not_sent(show, monkeypatch):
    monkeypatch.setattr(Race, "rounds", slowly)
    tab = show("?motion=0")
    sent = []
    tab.on("request", lambda request: sent.append(request.url) if request.url.endswith("/races") else None)
    run_until_it_is_in_the_address(tab)
    expect(part(tab, "benchmarks")).to_be_hidden()
    tab.evaluate(DROP, "[]")
    expect(part(tab, "notice")).to_contain_text("A race is running")
    tab.wait_for_timeout(300)
    expect(part(tab, "notice")).to_contain_text("A race is running")
    tab.locator("[data-do=stop]").click()
    tab.wait_for_selector("#viewer [data-running=no]")
    assert sent == []


def test_a_file_that_comes_while_a_race_runs_can_be_chosen_afterwards(show, monkeypatch):
    monkeypatch.setattr(Race, "rounds", slowly)
    tab = show("?motion=0")
    held = []
    tab.route("**/races", lambda route: held.append(route))
    tab.evaluate(DROP, to_json(synthetic.tree_trace(3, nodes=4)))
    expect(part(tab, "notice")).to_contain_text("Reading")
    run_until_it_is_in_the_address(tab)
    held[0].continue_()
    expect(part(tab, "notice")).to_contain_text("is in the list of races, for when this one is over")
    tab.locator("[data-do=stop]").click()
    tab.wait_for_selector("#viewer [data-running=no]")
    [name] = [one for one in part(tab, "races").locator("option").all_text_contents() if one.startswith("opened:")]
    part(tab, "races").select_option(label=name)
    expect(part(tab, "kind")).to_have_text("opened")


def test_a_running_race_can_be_presented_and_stopped(show, monkeypatch):
    monkeypatch.setattr(Race, "rounds", slowly)
    tab = show("?motion=0")
    run_until_it_is_in_the_address(tab)
    expect(tab.locator(".lane .bar").first).to_be_hidden()  # nobody knows how far it is
    for presents in (True, False, True):
        tab.keyboard.press("Shift+P")
        expect(tab.locator("#viewer.presenting")).to_have_count(int(presents))
    tab.locator("[data-do=stop]").click()
    tab.wait_for_selector("#viewer [data-running=no]")
    tab.keyboard.press("Escape")
    expect(tab.locator("#viewer.presenting")).to_have_count(0)


def test_enter_before_the_models_are_there_says_so(chromium, tmp_path):
    with launched(Models(lambda: threading.Event().wait()), Library(tmp_path)) as address:
        tab, trouble = open_page(chromium, address)
        tab.wait_for_selector("#viewer [data-models=loading]")
        expect(tab.locator("[data-do=run]")).to_have_text("Loading …")
        tab.locator("#prompt textarea").fill("the an")
        tab.locator("#prompt textarea").press("Enter")
        expect(part(tab, "notice")).to_contain_text("models are loading")
        tab.context.close()
    assert trouble == []


def test_no_button_lies_over_what_the_header_says_while_the_models_load(show):
    """On a laptop, where a race's facts and the buttons share a row, and where the badge has more to say than usual."""
    loading = {"**/models.json": lambda route: route.fulfill(json={"state": "loading"})}
    tab = show("?race=question", routes=loading, viewport={"width": 1280, "height": 720})
    expect(part(tab, "lossless")).to_contain_text("as far as they went")
    last, first = part(tab, "settings").bounding_box(), tab.locator("#viewer .actions").bounding_box()
    assert abs(first["y"] - last["y"]) < 10 and first["x"] - last["x"] - last["width"] > 13, (last, first)


def test_what_was_asked_for_last_is_shown(show):
    tab = show("?race=question&method=jakiro&round=1&node=2")
    wait_for_tree(tab)
    held = []
    tab.route("**/races/hostile.json", lambda route: held.append(route))
    part(tab, "races").select_option("hostile")
    tab.wait_for_timeout(300)
    part(tab, "races").select_option("question")
    expect(part(tab, "title")).not_to_have_text(re.compile("Round 2 "))  # a race that is chosen begins anew
    wait_until(tab, lambda: held)
    [late] = held
    with tab.expect_response("**/races/hostile.json"):
        late.continue_()
    tab.wait_for_timeout(500)
    expect(part(tab, "prompt")).to_have_text("Why?")


def test_arrow_keys_in_the_settings_stay_there(show):
    tab = show("?race=question&method=jakiro&round=3")
    tab.keyboard.press("ArrowRight")
    expect(part(tab, "title")).to_have_text(re.compile("Round 5"))
    tab.locator("[data-do=settings]").click()
    section = tab.locator("#settings .method-settings button").nth(1)
    expect(section).to_have_attribute("aria-expanded", "false")
    section.click()
    expect(section).to_have_attribute("aria-expanded", "true")
    tab.locator("#settings input[type=range]:visible").first.focus()
    tab.keyboard.press("ArrowRight")
    tab.wait_for_timeout(300)
    expect(part(tab, "title")).to_have_text(re.compile("Round 5"))


def test_with_an_empty_box_the_prompt_that_is_shown_is_run(show):
    tab = show("?race=question")
    tab.wait_for_selector("#viewer [data-models=ready]")
    prompt = part(tab, "prompt").text_content()
    tab.locator("[data-do=run]").click()
    expect(part(tab, "kind")).to_have_text("live", timeout=60000)
    expect(tab.locator("#prompt textarea")).to_have_value(prompt)
    expect(part(tab, "prompt")).to_have_text(prompt)
    expect(tab.locator("[data-do=run]")).to_be_enabled(timeout=60000)


def test_an_example_is_in_the_box_at_once(show):
    """Who runs it before Gradio has heard of it from the server runs the example, not the race shown."""
    tab = show("?race=hostile")
    tab.wait_for_selector("#viewer [data-models=ready]")
    example = tab.locator(".gallery-item", has_text="Question")
    written = example.evaluate("(one) => { one.click(); return document.querySelector('#prompt textarea').value; }")
    assert written == "Why?"
    expect(part(tab, "prompt")).to_have_text("Why?")


def test_a_race_that_is_stopped_before_its_first_token_leaves_nothing(show, monkeypatch):
    def rounds(race):
        race.left.wait(60)
        yield from ()

    monkeypatch.setattr(Race, "rounds", rounds)
    tab = show("?race=question&method=jakiro&round=3&motion=0", expected="404")
    run(tab, "the the an")
    tab.wait_for_function("location.search.includes('race=live-')")
    count = tab.evaluate("history.length")
    tab.locator("[data-do=stop]").click()
    expect(part(tab, "notice")).to_have_text("Stopped before its first token.")
    tab.wait_for_selector("[data-round='3'][data-method=jakiro]")
    tab.wait_for_function("location.search.includes('race=question')")
    assert tab.evaluate("history.length") == count  # Back does not lead to it
    assert not [one for one in part(tab, "races").locator("option").all_text_contents() if one.startswith("live")]


def test_a_race_whose_trees_take_a_while_is_said_to_be_over(show):
    """Another visitor's race may come first."""
    tab, held = show("?race=question&motion=0"), []
    tab.route("**/races/live-*.json", lambda route: held.append(route))
    run(tab, "the the an")
    expect(part(tab, "notice")).to_have_text("The race is over; its trees are being prepared …")
    held[0].continue_()
    expect(part(tab, "kind")).to_have_text("live")
    expect(part(tab, "notice")).to_have_text("")


def test_a_running_race_copies_nothing_that_stays_the_same(show):
    """Gradio copies all numbers and texts of a component with every change of one."""
    tab = show("?motion=0", script=COUNT_COPIES)
    run(tab, "the an the")
    tab.wait_for_selector("#viewer [data-running=no]")
    assert tab.evaluate("copied.length") > 0 and not tab.evaluate("copied.includes('Hostile')")


def test_bad_input_is_said_on_the_page_and_leaves_what_was_shown(show):
    tab = show("?race=question")
    tab.wait_for_selector("#viewer [data-models=ready]")
    tab.locator("#prompt textarea").fill("   ")
    for _ in range(2):  # asked again, it is said again
        tab.locator("[data-do=run]").click()
        part(tab, "notice").get_by_text("the prompt is empty").wait_for()
        expect(tab.locator("[data-do=run]")).to_be_enabled()
    tab.wait_for_timeout(1000)
    expect(part(tab, "notice")).to_contain_text("the prompt is empty")
    assert tab.locator(".toast-body").count() == 0  # said once
    assert part(tab, "kind").text_content() == "recorded" and tab.locator(".lane").count() == 3
    assert tab.locator("[data-do=run]").is_enabled()


def test_the_page_without_recordings_says_what_to_do(chromium, tmp_path):
    with served(tmp_path) as address:
        tab, trouble = open_page(chromium, address)
        assert tab.locator("[data-ready]").get_attribute("data-ready") == "empty"
        assert "press Run live" in part(tab, "empty-text").text_content() and part(tab, "again").is_hidden()
        tab.wait_for_selector("#viewer [data-models=failed]")
        assert "without a model" in part(tab, "notice").text_content()
        assert tab.locator("[data-do=run]").is_disabled()
        expect(tab.locator("[data-do=run]")).to_have_text("Run live")
        tab.context.close()
    assert trouble == []


def test_where_the_first_race_cannot_be_fetched_it_can_be_tried_again(chromium, tmp_path):
    recorded.save(tmp_path, "one", "One", "Why?", [synthetic.tree_trace(3, nodes=4)])
    with served(tmp_path) as address:
        tab = chromium.new_context().new_page()
        tab.route("**/races/one.json", lambda route: route.abort())
        tab.goto(address)
        expect(part(tab, "empty-text")).to_have_text("The race could not be fetched.")
        tab.unroute("**/races/one.json")
        part(tab, "again").click()
        expect(part(tab, "empty")).to_be_hidden()
        expect(part(tab, "prompt")).to_have_text("Why?")
        tab.context.close()


def test_what_needs_a_model_says_why_there_is_none(chromium, tmp_path):
    go_on = threading.Event()

    def read():
        go_on.wait(60)
        raise ValueError("the folder is empty")

    recorded.save(tmp_path, "one", "One", "Why?", [synthetic.tree_trace(3, nodes=4)])
    with launched(Models(read), Library(tmp_path)) as address:
        tab, trouble = open_page(chromium, address, "?tab=whatif")
        note = tab.locator("[data-view=whatif] .none")
        expect(note).to_have_text("The models are loading.")
        go_on.set()
        expect(note).to_have_text("Live runs are off: the folder is empty")
        tab.context.close()
    assert trouble == []


def test_a_number_out_of_bounds_is_said_by_name_and_can_be_mended(show):
    tab = show("?race=question&motion=0")
    tab.wait_for_selector("#viewer [data-models=ready]")
    tab.locator("[data-do=settings]").click()
    for name, wrong, good in (("max_new_tokens", "0", "8"), ("temperature", "-1", "0"), ("seed", "-1", "0")):
        tab.locator("#settings").get_by_label(name).fill(wrong)
        run(tab, "the an the")
        expect(part(tab, "notice")).to_contain_text(name)
        expect(tab.locator("[data-do=run]")).to_be_visible()
        tab.locator("#settings").get_by_label(name).fill(good)
    tab.locator("[data-do=run]").click()
    expect(part(tab, "kind")).to_have_text("live")


def test_the_settings_of_the_race_shown_can_be_taken(show):
    """Whatever the panel had: the next race is like the one shown."""
    tab = show("?race=question&motion=0")
    tab.wait_for_selector("#viewer [data-models=ready]")
    tab.locator("[data-do=settings]").click()
    settings = tab.locator("#settings")
    settings.get_by_label("max_new_tokens").fill("9")
    settings.get_by_label("temperature").fill("0.5")
    settings.get_by_label("Prompt lookup").check()
    settings.get_by_text("Take those of the race shown").click()
    expect(settings).to_contain_text("Taken: Run live races with them.")
    expect(settings.get_by_label("temperature")).to_have_value("0")
    expect(settings.get_by_label("Prompt lookup")).not_to_be_checked()
    run(tab, "the an the")
    expect(part(tab, "kind")).to_have_text("live")
    expect(part(tab, "settings")).to_contain_text("greedy")
    assert part(tab, "lanes").locator("article").count() == 3
    expect(part(tab, "heard")).to_have_text(
        re.compile(r"^It is over: Vanilla \d+ tokens a second, EAGLE-2 \d+ .*, Jakiro")
    )


def test_what_gradio_refuses_leaves_the_page_free(show):
    tab = show("?race=question&motion=0", expected="503")
    tab.route("**/queue/join*", lambda route: route.fulfill(status=503, json={"detail": "Queue is full."}))
    run(tab, "the an the")
    expect(part(tab, "notice")).to_contain_text("took nothing on")
    expect(tab.locator("[data-do=run]")).to_be_visible()
    tab.reload()
    expect(tab.locator("#prompt textarea")).to_have_value("the an the")  # there is no race that has it


def test_controls_are_asked_for_again_where_the_answer_was_lost(show):
    """Else the next race would have the trees of a method's own defaults."""
    lost = []

    def once(route):
        if lost or route.request.method != "POST":
            return route.continue_()
        lost.append(route.request.post_data)
        return route.fulfill(status=502, body="bad gateway")

    tab = show("?race=question&motion=0", expected="502", routes={"**/gradio_api/run/**": once})
    tab.wait_for_selector("#viewer [data-models=ready]")
    assert lost
    tab.locator("[data-do=settings]").click()
    expect(tab.locator("#settings").get_by_label("Prompt lookup")).to_be_enabled()


def test_a_page_that_cannot_start_says_so(chromium, address):
    tab = chromium.new_context().new_page()
    tab.route("**/viewer/*/tour.js", lambda route: route.abort())
    tab.goto(address)
    expect(part(tab, "notice")).to_contain_text("The page cannot start; reload it")
    tab.context.close()


def test_who_runs_again_after_a_stop_is_not_told_that_nothing_was_taken_on(show, monkeypatch):
    """Gradio has three words to say of a stop, and the next race may be long in beginning."""
    monkeypatch.setattr(Race, "rounds", slowly)
    tab = show("?motion=0")
    tab.evaluate(HEAR_THE_NOTICE)
    run(tab, "the an the")
    expect(part(tab, "kind")).to_have_text("running")

    def late(*given):
        time.sleep(2)
        yield from EVENTS(*given)

    def slow(route):
        answer = route.fetch()
        time.sleep(1)
        route.fulfill(response=answer)

    monkeypatch.setattr(live, "events", late)
    tab.route("**/cancel", slow)
    tab.evaluate(STOP_AND_RUN)
    tab.wait_for_function("heard.at(-1) === 'Waiting for the model, which is busy …'")
    expect(part(tab, "kind")).to_have_text("live")  # the second: the first one's notice lasts until the next
    expect(part(tab, "notice")).not_to_contain_text("Waiting")
    assert not [one for one in tab.evaluate("heard") if "took nothing on" in one]


def test_who_waits_is_told_before_how_many(show):
    """Of those in the queue some may have come later, which is not known: never more than before."""
    sizes = [2, 3, 1, 0]
    soon = """const set = setTimeout;
      window.setTimeout = (call, ms, ...given) => set(call, Math.min(ms, 700), ...given);"""
    tab = show("?motion=0", script=soon)
    tab.evaluate(HEAR_THE_NOTICE)
    held = []
    tab.route("**/queue/join*", lambda route: held.append(route))
    tab.route("**/queue/status", lambda route: route.fulfill(json={"queue_size": sizes.pop(0) if sizes else 0}))
    run(tab, "an the")
    tab.wait_for_function("heard.at(-1) === 'Waiting for the model, which is busy …'")
    said = [one for one in tab.evaluate("heard") if one]
    assert said == [
        f"Waiting for the model, which is busy{more} …"
        for more in (": at most 2 are before you", ": at most one is before you", "")
    ]
    held[0].continue_()
    expect(part(tab, "kind")).to_have_text("live")
    tab.unroute("**/queue/join*")


def test_a_race_that_waits_for_another_visitors_says_so(show, monkeypatch):
    monkeypatch.setattr(Race, "rounds", slowly)
    other = show("?motion=0")
    run_until_it_is_in_the_address(other)
    tab = show("?motion=0")
    run(tab, "an the")
    expect(part(tab, "notice")).to_have_text("Waiting for the model, which is busy: at most one is before you …")
    other.locator("[data-do=stop]").click()
    expect(part(tab, "kind")).to_have_text("running")
    tab.locator("[data-do=stop]").click()
    tab.wait_for_selector("#viewer [data-running=no]")


def test_a_stop_before_the_server_has_answered_is_heard(show):
    tab = show("?motion=0")
    held = []
    tab.route("**/queue/join*", lambda route: held.append(route))
    run(tab, "an the")
    wait_until(tab, lambda: held)
    tab.locator("[data-do=stop]").click()
    expect(part(tab, "notice")).to_have_text("Stopped before the race began.")
    with tab.expect_response("**/cancel") as cancelled:
        held[0].continue_()
    assert cancelled.value.ok
    tab.unroute("**/queue/join*")
    race_live(tab, "the the an")
    expect(part(tab, "prompt")).to_have_text("the the an")


def test_a_double_click_runs_a_race(show):
    tab = show("?motion=0")
    tab.wait_for_selector("#viewer [data-models=ready]")
    tab.locator("#prompt textarea").fill("an the")
    tab.locator("[data-do=run]").dblclick()
    expect(part(tab, "kind")).to_have_text("live")
    expect(part(tab, "prompt")).to_have_text("an the")


def test_a_run_right_after_a_stop_is_run(show, monkeypatch):
    """Gradio drops what is asked before it is through with what was stopped."""
    go_on, begun = threading.Event(), []

    def held(race, id):
        for event in EVENTS(race, id):
            yield event
            if event["event"] == "start":
                begun.append(id)
                assert go_on.wait(60)

    monkeypatch.setattr(live, "events", held)
    monkeypatch.setattr(library, "PATIENCE", 0.01)
    tab = show("?race=question&motion=0", expected="409")  # its traces are asked for too early
    run(tab, "the an the")
    expect(part(tab, "kind")).to_have_text("running")
    tab.locator("[data-do=stop]").click()
    expect(part(tab, "notice")).to_contain_text("still running")
    tab.locator("[data-do=run]").click()
    go_on.set()
    expect(part(tab, "kind")).to_have_text("live")
    assert len(begun) == 2
