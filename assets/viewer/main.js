// The viewer: one race, one playhead, many views. Every view is a function of (race, state), and the state is the address.

import {applyTheme, bindKeys, exportLinks, fillHelp, share, theme, toggleTheme} from './actions.js';
import {eachFrame, h, helpBox, parts, show as reveal, stillness} from './dom.js';
import {draw, plotly, whole} from './figures.js';
import {lanesView, sameTime} from './lanes.js';
import {liveReader} from './live.js';
import {showNode, stopNode} from './node.js';
import {fromPayload, roundAt} from './race.js';
import {TABS, neighbour, roundView} from './round.js';
import {address, addressKeeper, fromAddress} from './state.js';
import {timelineView} from './timeline.js';

const STATUS_EVERY = 1000; // ms between two questions whether the models are there

/** Start the viewer in Gradio's element. `send(name)` reaches Python, `watch` tells of new lines of a running race. */
export function mount({element, props, watch, send}) {
  applyTheme();
  const root = element;
  const part = parts(root);
  const known = new Map(props.races.map((race) => [race.id, race]));
  const keep = addressKeeper();
  let state = fromAddress(), race = null, lane = null, Plotly = null, running = false;

  const lanes = lanesView(part('lanes'), (change) => go(change));
  const timeline = timelineView(part, go, (time) => lanes.at(time, state.clock));
  const round = roundView(part, go);
  const live = liveReader({started, grown: () => lanes.grow(), done: finished, failed});

  helpBox(root, part('tip'));
  fillHelp(part('help'));
  bindKeys(act);
  root.addEventListener('click', (event) => {
    const name = event.target.closest('[data-do]')?.dataset.do;
    if (name) act(name);
    const example = event.target.closest('.gallery-item')?.textContent.trim();
    const recorded = example && props.races.find((one) => one.title === example);
    if (recorded && !running) open(recorded.id);
  });
  part('races').addEventListener('change', (event) => open(event.target.value));
  part('clock').addEventListener('change', (event) => { timeline.stop(); go({clock: event.target.value}); });
  part('against').addEventListener('change', (event) => go({against: event.target.value}));
  new MutationObserver(() => race && !running && show()).observe(document.body, {attributeFilter: ['class']});
  watch('value', () => live.read(props.value));
  askForModels();
  open(state.race || props.races[0]?.id || '');

  // ---- races

  /** Fetch a race and show it. */
  async function open(id) {
    if (!id) return nothing();
    try {
      show(await fetched(id));
      say('');
    } catch (error) {
      say(error.message);
      if (!race && props.races[0] && props.races[0].id !== id) open(props.races[0].id);
      else if (!race) nothing();
    }
  }

  async function fetched(id) {
    const answer = await fetch(`races/${encodeURIComponent(id)}.json`);
    if (!answer.ok) throw new Error(answer.status === 404 ? await answer.text() : `the server could not prepare this race (${answer.status})`);
    const {about, replay} = await answer.json();
    return fromPayload(replay, about);
  }

  function nothing() {
    reveal(part('stage'), false);
    reveal(part('empty'), true);
    part('empty-text').textContent = 'There is no recorded race in assets/traces yet. Write a prompt, or take an example, and press Run live.';
    for (const name of ['export', 'source', 'settings', 'lossless']) reveal(part(name), false);
    reveal(part('races').parentElement, false);
    root.dataset.ready = 'empty';
  }

  /** Show a race from scratch (or the same one again, in another theme). */
  function show(next = race) {
    race = next;
    timeline.stop();
    for (const name of ['export', 'source', 'settings']) reveal(part(name), true);
    reveal(part('empty'), false);
    reveal(part('stage'), true);
    part('stage').classList.toggle('running', running);
    header();
    lanes.show(race);
    if (running) return;
    lane = null;
    go({race: race.id});
    root.dataset.ready = 'yes';
    if (!Plotly) requestAnimationFrame(() => setTimeout(loadPlotly));
  }

  function loadPlotly() {
    plotly(props.plotly).then((loaded) => { Plotly = loaded; round.library(loaded); lane = null; if (race && !running) go({}); }, (error) => say(error.message));
  }

  // ---- the state and its views

  /** Change the state; everything shown follows within a frame. `replaying`: the replay itself moves the playhead. */
  function go(change, replaying = false) {
    if (!race || running) return;
    if (!replaying) timeline.stop();
    state = sound({...state, ...change});
    keep(state);
    redraw();
  }

  /** The state with everything that this race does not have replaced by what it has. */
  function sound(wanted) {
    const found = {...wanted, race: race.id};
    const own = race.lanes.find((one) => one.method === wanted.method) ?? race.lanes.at(-1);
    found.method = own.method;
    const count = own.rounds.at.length;
    found.round = Math.min(Math.max(wanted.round ?? best(own), 0), Math.max(0, count - 1));
    const size = own.nodes[found.round]?.id.length ?? 0;
    found.node = wanted.node !== null && wanted.node < size ? wanted.node : null;
    if (!TABS.some(({key}) => key === wanted.tab)) found.tab = 'tree';
    if (!['wall', 'passes'].includes(wanted.clock)) found.clock = 'wall';
    if (!race.lanes.some((one) => one.method === wanted.against)) found.against = '';
    return found;
  }

  function redrawNow() {
    const next = race.lanes.find((one) => one.method === state.method);
    if (next !== lane) changeLane(next);
    lanes.mark(state.method, sameTime(race, lane, state.round, state.clock, roundAt));
    if (!timeline.playing()) lanes.at(null, state.clock);
    timeline.at(state.round);
    const node = state.node ?? stopNode(race, lane, state.round);
    round.at(state.round, node, state.tab);
    showNode(part('node'), race, lane, state.round, node);
    part('clock').value = state.clock;
    if (part('against').value !== other()) drawTimeline();
    root.dataset.round = state.round;
    root.dataset.method = state.method;
  }
  function redraw() { later(); }
  const later = eachFrame(() => race && !running && redrawNow());

  function changeLane(next) {
    lane = next;
    round.show(race, lane, theme());
    const facts = new Map(lane.header);
    part('settings').textContent = [facts.get('Sampling'), facts.get('Settings')].filter(Boolean).join(' · ');
    part('settings').dataset.help = `${lane.title}: ${part('settings').textContent}`;
    drawTimeline();
  }

  /** The method below in the timeline: the one asked for, or the nearest other that drafts. */
  function other() {
    if (state.against) return state.against;
    const drafting = race.lanes.filter((one) => one !== lane && one.summary.tau > 1);
    return (drafting.at(-1) ?? lane).method;
  }

  function drawTimeline() {
    const options = race.lanes.map((one) => h('option', {value: one.method}, one === lane ? 'nothing' : one.title));
    part('against').replaceChildren(...options);
    part('against').value = other();
    reveal(part('against-box'), race.lanes.length > 1);
    const below = race.lanes.findIndex((one) => one.method === other());
    const figure = lane.figures.timeline[below];
    timeline.show(lane, figure);
    const box = part('timeline');
    box.style.height = `${figure.layout.height}px`;
    if (Plotly) draw(Plotly, plotBox(box), whole(figure, theme(), race.themes), race.config);
  }

  function plotBox(box) {
    return box.querySelector('.inner') ?? box.insertBefore(h('div', {class: 'inner'}), box.firstChild);
  }

  function header() {
    part('prompt').textContent = race.prompt;
    part('kind').textContent = running ? 'running' : race.live ? 'live' : 'recorded';
    part('source').textContent = [race.model, race.device, race.date].filter(Boolean).join(' · ');
    part('source').dataset.help = race.live ? 'Run live by this server: target, device, date.' : 'Recorded beforehand: target, device and date of the recording.';
    badge();
    choices();
    exportLinks(part('exports'), props.exports, race.id);
    part('export').open = false;
  }

  function badge() {
    const chip = part('lossless');
    if (!reveal(chip, Boolean(race.lossless))) return;
    const {identical, text} = race.lossless;
    chip.textContent = `${identical ? '✓' : '⚠'} ${text}`;
    chip.classList.toggle('good', identical);
    chip.dataset.help = `${text}. Compared are the token ids of every lane with the first one’s; where two part, the place and the target’s margin between the two tokens are named.`;
  }

  function choices() {
    const races = [...props.races];
    if (!known.has(race.id)) races.unshift({id: race.id, title: race.prompt});
    part('races').replaceChildren(...races.map(({id, title}) => h('option', {value: id}, title)));
    part('races').value = race.id;
    reveal(part('races').parentElement, true);
  }

  // ---- live races

  function started(next) {
    running = true;
    buttons();
    say('The lanes share one machine and take turns; the replay afterwards runs at true speed.');
    show(next);
  }

  async function finished(id) {
    const replay = !stillness();
    await settle(id);
    if (race?.id === id && replay) act('replay');
  }

  async function stopRun() {
    send('stop');
    const id = live.id();
    live.forget();
    await settle(id);
    if (race?.id === id) say('Stopped. The race is shown as far as it went.');
  }

  /** The run is over: show its traces, or, where there are none, what was shown before. */
  async function settle(id) {
    let next = null;
    try {
      next = id && await fetched(id);
      say('');
    } catch (error) {
      say(error.message);
    }
    running = false;
    buttons();
    if (!next) return restore();
    state = {...state, round: null, node: null};
    show(next);
  }

  function failed(message) {
    running = false;
    buttons();
    say(message);
    live.forget();
    restore();
  }

  /** Back to the race of the address, after one that came to nothing. */
  function restore() {
    if (!race || race.running) { race = null; open(state.race || props.races[0]?.id || ''); }
  }

  function buttons() {
    const run = root.querySelector('[data-do=run]');
    reveal(run, !running);
    reveal(root.querySelector('[data-do=stop]'), running);
    root.dataset.running = running ? 'yes' : 'no';
  }

  async function askForModels() {
    const run = root.querySelector('[data-do=run]');
    const status = await fetch('models.json').then((answer) => answer.json()).catch(() => ({state: 'loading', text: ''}));
    root.dataset.models = status.state;
    run.disabled = status.state !== 'ready';
    run.dataset.help = status.text;
    if (status.state === 'ready') send('ready');
    else if (status.state === 'failed') say(status.text);
    else setTimeout(askForModels, STATUS_EVERY);
  }

  // ---- what buttons and keys do

  function act(name, argument) {
    const count = lane?.rounds.at.length ?? 0;
    const step = (by) => go({round: Math.min(Math.max(state.round + by, 0), Math.max(0, count - 1)), node: null});
    const actions = {
      run: () => send('run'), stop: stopRun, theme: toggleTheme,
      help: () => (part('help').open ? part('help').close() : part('help').showModal()),
      share: () => share(address(state), say),
      settings: () => document.querySelector('#settings .toggle-button')?.click(),
      first: () => step(-Infinity), back: () => step(-1), next: () => step(1), last: () => step(Infinity), step: () => step(argument),
      play: () => race && !running && timeline.toggle(race, state.round, state.clock),
      replay: () => { go({round: 0}); timeline.toggle(race, 0, state.clock); },
      lane: () => race?.lanes[argument] && go({method: race.lanes[argument].method, round: null, node: null}),
      node: () => {
        const node = neighbour(lane.nodes[state.round], state.node ?? stopNode(race, lane, state.round), argument);
        if (node !== null) go({node});
      },
    };
    actions[name]?.();
  }

  function say(text) {
    part('notice').textContent = text;
    reveal(part('notice'), Boolean(text));
  }
}

/** The round to open with: the first with the most accepted tokens. */
function best(lane) {
  const {accepted} = lane.rounds;
  return accepted.length ? accepted.indexOf(Math.max(...accepted)) : 0;
}
