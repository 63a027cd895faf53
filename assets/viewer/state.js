// The view state is the address: race, method, round, node, place, tab, cut, clock, speed, moment, against, bench, present.
// Nothing else decides what is shown.

import {roundOf} from './race.js';
import {TABS} from './round.js';

const NUMBERS = new Set(['round', 'node', 'place']);
const DEFAULTS = {race: '', method: '', round: null, node: null, place: null, tab: narrow() ? 'outline' : 'tree', cut: '', clock: 'wall', speed: '', moment: '', against: '', bench: '', present: ''};
/** Speeds of the replay, and what they are called; where none was chosen, race.js says which suits. */
export const SPEEDS = [['slow', 'in 10 s'], ['0.1', '⅒×'], ['0.25', '¼×'], ['0.5', '½×'], ['1', '1×'], ['2', '2×'], ['4', '4×']];
const CHOICES = {clock: ['wall', 'passes'], speed: ['', ...SPEEDS.map(([speed]) => speed)], present: ['', '1'], cut: ['', '1']};

/** `against` where no lane is wanted below; no method is called so. */
export const NOTHING = 'nothing';

/** Where a tree would not fit, its outline is what is shown first. */
function narrow() { return matchMedia('(max-width: 700px)').matches; }

/** The state in the page's address. */
export function fromAddress() {
  const query = new URLSearchParams(location.search);
  const state = {...DEFAULTS};
  for (const name of Object.keys(DEFAULTS)) {
    const value = query.get(name);
    if (value === null) continue;
    if (!NUMBERS.has(name)) state[name] = value;
    else if (/^\d{1,6}$/.test(value)) state[name] = Number(value);
  }
  return state;
}

/** The address of a state; what others put into the query stays. */
export function address(state) {
  const query = new URLSearchParams(location.search);
  for (const [name, standard] of Object.entries(DEFAULTS)) {
    const value = state[name];
    if ((value === standard && value !== 'outline') || value === null || value === '') query.delete(name); // wide pages open another tab
    else query.set(name, value);
  }
  const text = query.toString();
  return `${location.pathname}${text ? `?${text}` : ''}`;
}

/** Keep the address in step, at most a few times a second: browsers refuse more. The browser's Back leads to the race
 * before; then `drop` what is still to be written: it is of the race that is left. Where that race cannot be shown, `stay`
 * gives its place in the history to the one that still is. */
export function addressKeeper() {
  let timer = null, latest = null, shown = null;
  const drop = () => { clearTimeout(timer); timer = null; };
  return {keep, drop, stay};

  function stay(state) {
    drop();
    shown = state.race;
    history.replaceState(history.state, '', address(state));
  }

  function keep(state) {
    if (timer && latest.race !== state.race) write(); // the race that is left has its own
    latest = state;
    timer ??= setTimeout(write, 250);
  }

  function write() {
    drop();
    const before = new URLSearchParams(location.search).get('race');
    if (shown && before && before !== latest.race) history.pushState(history.state, '', address(latest));
    else history.replaceState(history.state, '', address(latest));
    shown = latest.race;
  }
}

/** What else changes with a change: a lane that is chosen while it is below another changes places with it. */
export function swapped(change, {method, against}) {
  return change.method && change.method === against && change.method !== method ? {against: method} : {};
}

/** The state with everything that a race does not have replaced by what it has. */
export function sound(wanted, race) {
  const lane = race.lanes.find((one) => one.method === wanted.method) ?? race.lanes.at(-1);
  const begin = wanted.round ?? (wanted.place === null ? best(lane) : roundOf(lane, wanted.place));
  const round = Math.max(0, Math.min(begin, lane.rounds.at.length - 1));
  const size = lane.nodes[round]?.id.length ?? 0;
  return {
    race: race.id,
    method: lane.method,
    round,
    node: wanted.node !== null && wanted.node < size ? wanted.node : null,
    place: wanted.place !== null && wanted.place < lane.tokens.id.length ? wanted.place : null,
    tab: TABS.some(({key}) => key === wanted.tab) ? wanted.tab : DEFAULTS.tab,
    ...Object.fromEntries(Object.entries(CHOICES).map(([name, values]) => [name, values.includes(wanted[name]) ? wanted[name] : DEFAULTS[name]])),
    moment: [race.moments, race.stops].some((kinds) => Object.hasOwn(kinds, wanted.moment)) ? wanted.moment : '',
    against: wantedBelow(wanted.against, race, lane),
    bench: wanted.bench,
  };
}

/** What is wanted below a lane, as far as it is there. */
function wantedBelow(against, race, lane) {
  if ([NOTHING, lane.method].includes(against)) return NOTHING;
  return race.lanes.some((one) => one.method === against) ? against : '';
}

/** The round to open with: the first with the most accepted tokens. */
function best(lane) {
  const {accepted} = lane.rounds;
  return accepted.length ? accepted.indexOf(Math.max(...accepted)) : 0;
}
