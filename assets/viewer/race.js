// A race as the views read it, made from a payload (replay.py) or, while it runs, from lines of events (stream.py).
//
// race = {id, kind, running, prompt, written, title, model, device, date, lanes, lossless, words, moments, stops, themes, config}
// lane = a trace of the payload, its `method` what the address calls it (a method may run in two lanes), its `kind` the
// method itself, its `about` {model, device, date, prompt}; while it runs only {method, title, text, tokens, rounds}
// plus, for both: text [token] and summary {count, seconds, passes, tps, speedup, tau}

import {inOrder} from './format.js';

const BRIEF = 2; // seconds: a race that is over sooner is not seen
const FEW = 8; // tokens whose speed is not yet held against another's, while more are to come

/** The race with an id, from the server. Raises an Error with what to tell, with `gone` where it is not there (any more), with
 * `early` where it is still running. */
export async function fetched(id) {
  if (id.includes('/')) throw Object.assign(new Error(`There is no race “${id}” here.`), {gone: true});
  const {about, replay} = await answered(`races/${encodeURIComponent(id)}.json`);
  return fromPayload(replay, about);
}

/** What the server answers. Raises an Error with what to tell where it is out of reach. */
export const reached = (address, options) => fetch(address, options)
  .catch(() => { throw new Error('The server cannot be reached; try again when it is back.'); });

async function answered(address) {
  const answer = await reached(address);
  if ([404, 409].includes(answer.status)) throw Object.assign(new Error(await answer.text()), {gone: answer.status === 404, early: answer.status === 409});
  if (!answer.ok) throw new Error(`the server could not prepare this race (${answer.status}); its log says why`);
  return answer.json().catch(() => { throw new Error('The answer came incomplete; try again.'); });
}

/** The round of a lane in which the token after `place` was decoded. */
export const roundOf = (lane, place) => Math.max(0, lane.rounds.from.findLastIndex((from) => from - 1 <= place));

/** The race of a payload. */
function fromPayload(payload, about) {
  const lanes = payload.traces.map((trace, index) => ({
    ...trace, title: inOrder(trace.title), method: trace.key, kind: trace.method,
    about: about.lanes?.[index] ?? about, text: trace.tokens.id.map((id) => trace.pieces[id] ?? `<${id}>`),
  }));
  return summarised({...payload, ...about, running: false, lanes});
}

/** An empty race at the start of a live one. */
export function fromStart(event) {
  const lanes = event.lanes.map(({method, title}) => ({
    method, title, text: [],
    tokens: {id: [], round: [], kind: [], at: []},
    rounds: {from: [], to: [], accepted: [], nodes: [], at: [], draft: [], verify: [], overhead: []},
  }));
  return summarised({
    id: event.race, kind: 'live', running: true, prompt: event.prompt,
    model: event.target, device: event.device, date: '', lanes,
  });
}

/** Add what one lane did. */
export function addTokens(race, event) {
  const {tokens, rounds, text} = race.lanes[event.lane];
  const isRound = event.nodes !== undefined;
  const round = isRound ? rounds.at.length : -1;
  const from = text.length;
  event.id.forEach((id, index) => {
    tokens.id.push(id);
    tokens.round.push(round);
    tokens.kind.push(!isRound ? 0 : index < event.drafted ? 1 : 2);
    tokens.at.push(event.at);
    text.push(event.text[index]);
  });
  if (!isRound) return;
  rounds.from.push(from);
  rounds.to.push(text.length);
  rounds.accepted.push(event.drafted);
  rounds.nodes.push(event.nodes);
  rounds.at.push(event.at);
  for (const phase of ['draft', 'verify', 'overhead']) rounds[phase].push(event[phase]);
}

/** Refresh the lanes' summaries. */
export function summarised(race) {
  const totals = race.lanes.map(total);
  const base = race.lanes.findIndex((lane) => lane.method === 'vanilla');
  race.lanes.forEach((lane, index) => {
    const own = totals[index], vanilla = totals[race.running ? base : lane.baseline];
    const said = !race.running || Math.min(own.count, vanilla?.count) > FEW;
    const speedup = said && vanilla?.tps && own.tps ? own.tps / vanilla.tps : null;
    lane.summary = {...own, speedup};
  });
  return race;
}

function total({tokens, rounds}) {
  const sum = (values) => values.reduce((whole, part) => whole + part, 0);
  const spent = sum(rounds.draft) + sum(rounds.verify) + sum(rounds.overhead);
  const passes = rounds.at.length;
  const count = tokens.id.length;
  return {
    count, passes,
    seconds: passes ? rounds.at[passes - 1] : tokens.at[0] ?? 0,
    tps: spent > 0 ? (count - 1) / spent : null,
    tau: passes ? (count - 1) / passes : null,
  };
}

/** What came of comparing two lanes of a race, null where nothing is kept. Raises an Error with what to tell. */
export const comparison = (race, lane, other) => answered(`races/${encodeURIComponent(race)}/compare/${lane}/${other}.json`);

/** When a round was done on a clock: seconds, or passes of the target. */
export const doneAt = (lane, round, clock) => (clock === 'passes' ? round + 1 : lane.rounds.at[round] ?? 0);

/** How long a lane took on a clock. */
export const length = (lane, clock) => (clock === 'passes' ? lane.summary.passes : lane.summary.seconds);

/** The lane that takes the longest on a clock. */
export const longest = ({lanes}, clock) => lanes.reduce((one, other) => (length(other, clock) > length(one, clock) ? other : one));

/** The speed of the replay, where none was chosen: the true one, or slow motion for a race that is over before one sees it. */
export const paced = (race, clock, speed) => speed || (clock === 'wall' && length(longest(race, clock), clock) < BRIEF ? 'slow' : '1');

/** The clock that a race is shown on: that of passes where no lane says how long it took. */
export const ticking = (race, clock) => (race.lanes.some((lane) => length(lane, 'wall') > 0) ? clock : 'passes');

/** The last round that a lane had begun at a time of the clock. */
export function roundAt(lane, time, clock) {
  const {at} = lane.rounds, round = at.findIndex((_, one) => doneAt(lane, one, clock) >= time - 1e-9);
  return round < 0 ? Math.max(0, at.length - 1) : round;
}

/** How many tokens a lane had at a time of the clock. */
export function tokensAt(lane, time, clock) {
  const {rounds, tokens} = lane;
  if (time >= length(lane, clock)) return tokens.id.length;
  if (clock === 'passes') { const done = Math.floor(time); return done < 1 ? 1 : rounds.to[done - 1]; }
  return tokens.at.findLastIndex((at) => at <= time) + 1;
}

/** The next round that is notable for a kind ('' for any), or stopped in that way, forth (`by` 1) or back (-1); null where
 * there is none. */
export function nextNotable({moments, stops}, round, by, kind) {
  do round += by; while (moments[round] && !(kind ? [...moments[round], stops[round]].includes(kind) : moments[round].length));
  return moments[round] ? round : null;
}

/** Ask the server, once, whether a lane has been compared with another; then comes `ready()`. Until that is known
 * `lane.compared` has the other lane's index without a value; where nothing is kept, not even that. */
export function withComparison(race, lane, other, ready) {
  lane.compared ??= new Map();
  lane.sought ??= new Set();
  if (!race.lanes[other] || race.lanes[other] === lane || lane.compared.has(other) || lane.sought.has(other)) return;
  lane.sought.add(other);
  lane.compared.set(other, undefined);
  comparison(race.id, race.lanes.indexOf(lane), other).catch(() => null).then((found) => {
    if (lane.compared.get(other)) return; // compared meanwhile
    if (found) lane.compared.set(other, found); else lane.compared.delete(other);
    ready();
  });
}

/** Whether the lane's figure of the nodes that were cut is there. It is fetched when it is asked for; then comes `ready()`,
 * or `failed(lane, text)` and it can be asked for again. */
export function withCut(race, lane, ready, failed) {
  if (!lane.cut) return false;
  if (!lane.figures.cut) {
    lane.figures.cut = {};
    answered(`races/${encodeURIComponent(race.id)}/cut/${race.lanes.indexOf(lane)}.json`)
      .then((figure) => { lane.figures.cut = figure; ready(); }, (error) => { lane.figures.cut = null; failed(lane, error.message); });
  }
  return Boolean(lane.figures.cut.template);
}
