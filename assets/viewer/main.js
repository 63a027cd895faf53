// The viewer: one race, one playhead, many views. Every view is a function of (race, state), and the state is the address.

import {applyTheme, keepTheme, theme} from './actions.js';
import {benchmarksView} from './benchmarks.js';
import {bindButtons} from './buttons.js';
import {facing} from './compare.js';
import {eachFrame, helpBox, parts, show as reveal, stillness} from './dom.js';
import {draw, hung, plotly, whole} from './figures.js';
import {fixed} from './format.js';
import {headerView} from './header.js';
import {large} from './labels.js';
import {lanesView, sameTime} from './lanes.js';
import {nodeView, stopNode} from './node.js';
import {noticeView} from './notice.js';
import {openFiles} from './opening.js';
import {fetched, paced, ticking, withComparison, withCut} from './race.js';
import {PATIENCE} from './reach.js';
import {roundView} from './round.js';
import {liveRuns} from './runs.js';
import {addressKeeper, fromAddress, sound, swapped} from './state.js';
import {timelineView} from './timeline.js';
import {below, rival, transportView} from './transport.js';

const NARROW = 1220; // px below which the header takes several lines, as beside the open settings
const MOVES = ['race', 'method', 'round', 'node', 'place']; // what ends a replay when it changes
const TIMELINE = 560; // px, the least width of the timeline in a talk
const TIGHT = 300; // px of the timeline below which its legend would take a second line, over the bars

/** Start the viewer in Gradio's element. `send(name, data)` reaches Python, `watch` tells of new lines of a running race. */
export function mount({element: root, props, watch, send}) {
  applyTheme();
  const part = parts(root), viewer = root.closest('#viewer');
  const {keep, drop, stay} = addressKeeper();
  const redraw = eachFrame(() => race && !race.running && redrawNow());
  let state = fromAddress(), race = null, lane = null, Plotly = null;
  let before = null, painted = null; // the race that was shown when one began to run; the theme that figures are in
  let wide = 0; // px of the page
  let turn = 0, settled = 0, since = 0; // what was last asked for, what of it has come or failed, what had been when rounds were to be decoded again

  const examinations = new Map(); // what the doctor found on the heads that are loaded: method -> findings
  const notice = noticeView(part('notice'), () => Boolean(race?.running)), {say} = notice;
  const header = headerView(part, props);
  const lanes = lanesView(part('lanes'), go, (index) => act('lane', index), props.summaries);
  const timeline = timelineView(part, go, (time) => lanes.at(time, state.clock));
  const transport = transportView(part, go);
  const asking = { // what the round's views ask of the model, which is bound further down
    methods: props.methods,
    unable: (run) => live.unable(run),
    again: (request) => { since = turn; live.again(request); },
    compare: (request) => live.compare(request),
    examine: (method) => live.examine(method),
    heads: () => live.heads(),
    findings: (one) => (live.loaded(one.about) && examinations.get(one.kind)) || [],
  };
  const round = roundView(part, go, asking);
  const inspect = nodeView(part('node'), part('fate'));
  const benchmarks = benchmarksView(part, go, say);
  const live = liveRuns({
    root, send, answered: () => props.value, say,
    shown, grown: () => lanes.grow(), restore, compared, examined, ready: () => redraw(), written: () => written(), forget: () => forget(),
  });
  const view = {get race() { return race; }, get lane() { return lane; }, get state() { return state; }, redrawNow, go, open, choose, presenting};
  const {act, written, lost, forget} = bindButtons({root, part, props, view, live, timeline, benchmarks, say});

  helpBox(root, part('tip'));
  window.addEventListener('popstate', travelled);
  part('races').addEventListener('change', (event) => choose(event.target.value));
  new MutationObserver(repaint).observe(document.body, {attributeFilter: ['class']});
  new ResizeObserver(resized).observe(viewer);
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', applyTheme); // after Gradio, which minds no choice
  openFiles(part('file'), free, arrived, say);
  watch('value', () => live.read(props.value));
  open(state.race);

  /** The page has another width, or only another height: captions of figures break where they are wider. */
  function resized() {
    if (viewer.clientWidth === wide) return;
    wide = viewer.clientWidth;
    viewer.classList.toggle('narrow', wide < NARROW);
    redraw();
  }

  // ---- races

  /** The state as it is for a race that is shown from its beginning. */
  function opening(id) { return {...state, race: id, round: null, node: null, place: null}; }

  /** Fetch a race and show it with a change of the state; without an id, or where nothing is shown in place of one that
   * is not there, the first recorded one. What was asked for later wins. */
  async function open(id, change = {}) {
    const first = props.races[0]?.id, own = turn += 1;
    const recorded = !id || props.races.some((one) => one.id === id);
    const waits = setTimeout(() => own === turn && say(recorded || race ? 'Loading …' : 'Waiting for a race that is still running, or that a reload has just stopped …', 'race'), PATIENCE);
    try {
      const next = id || first ? await fetched(id || first) : null;
      if (own !== turn) return;
      settled = own;
      state = {...state, ...change};
      if (next) show(next); else nothing();
      notice.opened(next?.note);
    } catch (error) {
      if (own !== turn) return;
      settled = own;
      if (error.early) header.later(id);
      if (error.gone) lost();
      if (id && first && id !== first && !race) await open(first, {...change, method: '', round: null, node: null, place: null});
      else if (!race) nothing();
      else {
        header.stays(race, error.gone ? id : null);
        stay(state);
      }
      say(error.message);
    } finally {
      clearTimeout(waits);
    }
  }

  /** Whether another race may be shown now; says so where not. */
  function free() {
    if (race?.running) say('A race is running: stop it first, or wait.');
    return !race?.running;
  }

  /** The browser has gone back or on: nothing of the race that is left may come into the history. */
  function travelled() {
    keepTheme();
    if (!free()) return history.forward();
    timeline.stop();
    drop();
    const wanted = fromAddress();
    open(wanted.race, wanted);
  }

  /** What changes where rounds that were decoded again are left: the lane below was the lane as it was. */
  function elsewhere() { return race?.back ? {against: ''} : {}; }

  /** Another race, from its beginning. */
  function choose(id) {
    if (free()) open(id, {round: null, node: null, place: null, ...elsewhere()});
  }

  /** A file has become a race: it is shown. If it is `late`, or a race has begun meanwhile, it can be chosen. */
  function arrived(id, name, late) {
    if (!race?.running && !late) return choose(id);
    header.keep(id, `opened: ${name}`, race);
    say(`${name} is in the list of races${race?.running ? ', for when this one is over' : ''}.`);
  }

  function nothing() {
    race = null;
    header.empty();
    for (const name of ['skip', 'stage']) reveal(part(name), false);
    reveal(part('empty'), true);
    if (reveal(part('again'), props.races.length > 0)) part('empty-text').textContent = 'The race could not be fetched.';
    root.dataset.ready = 'empty';
  }

  /** Show a race from scratch. */
  function show(next) {
    timeline.stop();
    if (!next.running) before = next;
    race = next;
    lane = null;
    reveal(part('empty'), false);
    reveal(part('stage'), true);
    part('stage').classList.toggle('running', race.running);
    reveal(part('skip'), !race.running); // to the round: there is none yet
    header.race(race);
    lanes.show(race);
    if (race.running) return;
    transport.race(race);
    go({race: race.id}, false, redrawNow); // in one frame with its lanes: else what is below them jumps
    if (root.dataset.ready !== 'yes') performance.mark('jakiro-lanes');
    root.dataset.ready = 'yes';
    if (!Plotly) requestAnimationFrame(() => setTimeout(drawTree)); // after the first paint
  }

  /** A live race has begun or is over, or rounds have been decoded again: these are only listed if another race was asked
   * for meanwhile, which is said then. */
  function shown(next, {replay}) {
    if (next.back && turn !== since) {
      header.lists(next, race);
      return 'The rounds that were decoded again are in the list of races.';
    }
    settled = turn += 1;
    if (!next.back) state = {...state, ...elsewhere()};
    if (next.running) keep(opening(next.id)); // who reloads gets what there is of it
    else state = {...state, round: replay || next.back ? 0 : null, node: null, place: null, tab: next.back ? '' : state.tab};
    if (next.back) state = {...state, method: next.lanes.at(-1).method, against: next.lanes[0].method};
    if (!next.running) benchmarks.renew();
    show(next);
    part('heard').textContent = heard(next);
    if (next.back) part('stage').scrollIntoView({behavior: stillness() ? 'auto' : 'smooth'}); // it was asked for far below
    if (replay && next.lanes.some((one) => one.rounds.at.length)) requestAnimationFrame(() => act('replay')); // once the lanes are there
    return '';
  }

  /** What who does not see it is told of a race that begins or is over. */
  function heard({running, lanes: all}) {
    const speeds = all.filter(({summary}) => summary.tps).map(({title, summary}) => `${title} ${fixed(summary.tps, 0)} tokens a second`);
    return running ? `Running: ${all.map(({title}) => title).join(', ')}.` : ['It is over', speeds.join(', ')].filter(Boolean).join(': ');
  }

  /** Two lanes of the race shown have been compared. */
  function compared({race: id, lane: index, other, ...found}) {
    if (race?.id !== id || race.running) return say('The lanes have been compared: choose their race again to see it.');
    const own = race.lanes[index];
    own.compared = (own.compared ?? new Map()).set(other, {...found, at: Date.now()});
    if (own !== lane) return say(`${own.title} and ${race.lanes[other].title} have been compared: Compare of ${own.title} has it.`);
    go({method: own.method, against: race.lanes[other].method, place: state.place, tab: state.tab === 'diversity' ? state.tab : 'compare'});
  }

  /** The doctor has looked at a method's head: what it found holds for all races of the model that is loaded. */
  function examined({method, findings}) {
    examinations.set(method, findings);
    redraw();
  }

  /** Back to what was shown, after a race that came to nothing; `gone` is the id of one that is not in the list any more. */
  function restore(gone = null) {
    if (!race?.running) return null;
    race = null;
    header.forget(gone);
    stay(state);
    return before ? show(before) : open(state.race);
  }

  /** Once plotly is there: the tree first, and the timeline when that is on the screen. */
  function drawTree() {
    plotly().then((loaded) => {
      round.library(loaded);
      redraw();
      requestAnimationFrame(() => setTimeout(() => { Plotly = loaded; lane = null; redraw(); }));
    }, (error) => say(error.message, 'next'));
  }

  // ---- the state and its views

  /** Change the state; everything shown follows within a frame, or as `follow` says. `replaying`: the replay itself moves
   * the playhead. */
  function go(change, replaying = false, follow = redraw) {
    if (!race || race.running) return;
    if (!replaying && MOVES.some((name) => name in change)) timeline.stop();
    if (!replaying) notice.moved(race.note);
    state = sound({...state, ...('round' in change || 'method' in change ? {place: null} : {}), ...swapped(change, state), ...change}, race);
    timeline.pace(state);
    if (settled === turn) keep(state); // else the address is that of the race that is to come
    follow();
  }

  function redrawNow() {
    const turned = header.present(viewer, state.present === '1'); // first: figures are drawn for it
    const next = race.lanes.find((one) => one.method === state.method);
    const against = below(race, next, state);
    if (next !== lane) changeLane(next, against);
    else if (turned || part('against').value !== against) showTimeline(against);
    const node = state.node ?? stopNode(race, lane, state.round);
    lanes.mark(state.method, sameTime(race, lane, state.round, state.clock));
    if (!timeline.playing()) lanes.at(null, state.clock);
    timeline.at(state.round);
    const other = rival(race, lane, state);
    if (state.tab === 'compare') withComparison(race, lane, facing(race, lane, other), redraw);
    if (state.tab === 'diversity') withComparison(race, lane, other, redraw);
    round.at(state.round, node, state.tab, Boolean(state.cut) && withCut(race, lane, redraw, uncut), {other, place: state.place ?? (lane.rounds.from[state.round] ?? 1) - 1});
    inspect(race, lane, state.round, node);
    benchmarks.at(state.bench, theme(), Plotly);
    const clock = ticking(race, state.clock);
    transport.at({...state, clock, speed: paced(race, clock, state.speed)}, lane);
    Object.assign(root.dataset, {race: state.race, round: state.round, method: state.method});
  }

  /** A lane's figure of cut nodes that did not come: without it, until it is asked for again. */
  function uncut(of, text) {
    if (of !== lane) return;
    go({cut: ''});
    say(text);
  }

  /** In another theme all figures are drawn anew, and at once: it may be for paper. A replay goes on. */
  function repaint() {
    if (!race || race.running || theme() === painted) return;
    lane = null;
    redrawNow();
    round.settle();
  }

  function changeLane(next, against) {
    [lane, painted] = [next, theme()];
    header.lane(race, lane);
    round.show(race, lane, theme());
    showTimeline(against);
  }

  function showTimeline(against) {
    transport.lane(race, lane, against);
    const other = race.lanes.find((one) => one.method === against) ?? lane;
    const below = lane.figures.below[race.lanes.indexOf(other)], colors = race.themes[theme()], own = whole(lane.figures.timeline, colors);
    const box = part('bars'), figure = large(box, below ? hung(own, whole(below, colors)) : own, TIMELINE);
    if (box.clientWidth < TIGHT) figure.layout.legend2.indentation = -12; // between names, not beside the colours
    timeline.show(lane, figure);
    if (Plotly) draw(Plotly, box, figure, race.config);
  }

  /** Only the race, or all again, while it runs. */
  function presenting() {
    state = {...state, present: state.present ? '' : '1'};
    header.present(viewer, state.present === '1');
    notice.moved('');
    keep(opening(race.id));
  }
}
