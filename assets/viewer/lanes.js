// The race: one card a method, on one clock.

import {h} from './dom.js';
import {WORDS, fixed, inOrder, seconds} from './format.js';
import {ofMethod} from './node.js';
import {doneAt, length, roundAt, ticking, tokensAt} from './race.js';

const KINDS = ['t0', 't1', 't2'];
const UNDERLINE = 1; // px of a line's underline that are in the next line
const UNKNOWN = '–\u2008\u2007\u2007'; // as wide as 1.00: what comes with the first round takes no other line
const ROOMY = 3; // lanes beside each other that have room for a unit beside their name

/** The view of all lanes in `box`. For clicks: `choose({method, round})` on a token, `cross(index)` elsewhere on a lane.
 * `summaries`: a sentence for each method. */
export function lanesView(box, choose, cross, summaries = {}) {
  let race = null, cards = [];

  box.addEventListener('click', (event) => {
    const card = event.target.closest('.lane');
    if (!card || race?.running) return;
    if (event.target.closest('.text') && getSelection()?.type === 'Range') return; // text was selected, to be copied
    const round = event.target.closest('.text [data-round]')?.dataset.round;
    if (round === undefined || round < 0) cross(cards.findIndex(({root}) => root === card));
    else choose({method: card.dataset.method, round: Number(round), node: null});
  });

  return {show, grow, mark, at};

  /** Show a race from scratch. */
  function show(next) {
    race = next;
    cards = race.lanes.map(card);
    race.before?.forEach((text, index) => { if (text) cards[index].text.append(h('span', {class: 'forced'}, inOrder(text))); });
    box.replaceChildren(...cards.map((one) => one.root));
    grow();
    race.before?.forEach((text, index) => { if (text) cards[index].spans[0]?.classList.add('forced'); });
  }

  /** Append the tokens that the lanes have got since, and refresh the numbers. */
  function grow() {
    race.lanes.forEach((lane, index) => {
      const {text, spans} = cards[index];
      for (let i = spans.length; i < lane.text.length; i += 1) {
        spans.push(h('span', {class: KINDS[lane.tokens.kind[i]], 'data-round': lane.tokens.round[i]}, inOrder(lane.text[i])));
      }
      for (const span of spans.slice(cards[index].shown)) text.append(span);
      cards[index].shown = spans.length;
      numbers(lane, cards[index]);
    });
    if (!race.running) return;
    const heights = cards.map(({text}) => text.scrollHeight); // all read before any moves: one layout for all lanes
    cards.forEach(({text}, index) => { text.scrollTop = heights[index]; });
  }

  /** Mark the round shown, and in the other lanes the round at the same time of the clock. */
  function mark(method, rounds) {
    race.lanes.forEach((lane, index) => {
      const {root, button, spans, marked} = cards[index];
      const own = lane.method === method;
      root.classList.toggle('chosen', own);
      button.setAttribute('aria-pressed', own);
      const {from, to} = lane.rounds;
      for (const span of marked.splice(0)) span.classList.remove('now', 'same');
      marked.push(...spans.slice(from[rounds[index]] ?? 0, to[rounds[index]] ?? 0));
      for (const span of marked) span.classList.add(own ? 'now' : 'same');
    });
    follow(cards); // after all writing: one layout for all lanes
  }

  /** Show the race at a time of the clock: later tokens hidden, bars as far as the lanes are. null: at rest. */
  function at(time, wanted) {
    const clock = ticking(race, wanted);
    const over = race.lanes.filter((lane) => !stopped(lane)), most = Math.max(1, ...race.lanes.map(({summary}) => summary.count));
    const finish = Math.min(...(over.length ? over : race.lanes).map((lane) => length(lane, clock)).filter((long) => long > 0));
    race.lanes.forEach((lane, index) => {
      const own = cards[index];
      const shown = time === null ? own.spans.length : tokensAt(lane, time, clock);
      for (let i = Math.min(shown, own.shown); i < Math.max(shown, own.shown); i += 1) {
        own.spans[i]?.classList.toggle('later', i >= shown);
      }
      own.shown = shown;
      const untimed = clock === 'wall' && !length(lane, clock); // in a file of which others have their times
      const share = untimed ? 0 : (time === null ? tokensAt(lane, finish, clock) : shown) / (stopped(lane) ? most : Math.max(1, lane.summary.count));
      const width = `${(100 * share).toFixed(2)}%`;
      if (own.bar.style.width !== width) own.bar.style.width = width;
    });
  }

  function card(lane) {
    const parts = {
      tps: h('strong', {'data-help': WORDS.tps, tabindex: 0}), speedup: h('span', {'data-help': WORDS.speedup, tabindex: 0}),
      tau: h('span', {class: 'chip', 'data-help': WORDS.tau, tabindex: 0}),
      time: h('span', {'data-help': `${WORDS.seconds} ${WORDS.passes}`, tabindex: 0}),
      bar: h('i'), text: h('p', {class: 'text', role: 'group', dir: 'auto', tabindex: 0, 'aria-label': `Text of ${lane.title}`}),
      button: h('button', {type: 'button', 'aria-pressed': 'false', 'data-help': ofMethod(summaries, lane.kind ?? lane.method)}, lane.title),
      spans: [], marked: [], shown: 0,
    };
    parts.root = h('article', {class: 'lane card', 'data-method': lane.method, 'data-kind': lane.kind ?? lane.method},
      h('div', {class: 'row'}, h('h2', {}, parts.button), parts.tau),
      h('div', {class: 'row numbers'}, h('span', {}, parts.tps, h('small', {}, ' tok/s')), parts.speedup, parts.time),
      h('div', {class: 'bar', 'data-help': WORDS.bar}, parts.bar), parts.text);
    return parts;
  }

  function numbers(lane, parts) {
    const {tps, speedup, tau, passes} = lane.summary;
    parts.tps.textContent = fixed(tps, 1);
    parts.speedup.textContent = speedup === null ? '' : `${fixed(speedup, 2)}×`;
    parts.tau.textContent = `τ ${tau === null ? UNKNOWN : fixed(tau, 2)}${race.lanes.length > ROOMY ? '' : ' tokens / pass'}`;
    parts.time.textContent = `${seconds(lane.summary.seconds)} · ${passes} ${passes === 1 ? 'pass' : 'passes'}${stopped(lane) ? ' · stopped' : ''}`;
  }
}

/** Whether somebody ended it; a side of a what-if ends where it was asked to. */
function stopped(lane) {
  return lane.stop === 'stopped' && !lane.branch;
}

let crossed = null; // the last change of lane: where it led, [race, lane, round], and where the first of several began, [lane, round]
const begin = (...place) => (place.every((one, at) => one === crossed?.to[at]) ? crossed.begun : place.slice(1));

/** The round of every lane at the moment when one lane's round was done. */
export function sameTime(race, lane, round, wanted) {
  const clock = ticking(race, wanted), begun = begin(race, lane, round);
  const time = doneAt(...begun, clock), known = new Map([begun, [lane, round]]);
  return race.lanes.map((other) => known.get(other) ?? roundAt(other, time, clock));
}

/** The round to go to in lane `to`. From there it leads back to the same round: each way alone would lead to a later one. */
export function cross(race, lane, round, to, wanted) {
  const at = sameTime(race, lane, round, wanted)[race.lanes.indexOf(to)];
  crossed = {to: [race, to, at], begun: begin(race, lane, round)};
  return at;
}

/** Scroll inside the cards only, so that the marked words can be seen: all of them or, where there is no room, the first.
 * Reads all places before it moves anything. */
function follow(cards) {
  const moves = cards.map(({text: box, marked}) => {
    if (!marked.length || box.scrollHeight <= box.clientHeight) return null;
    const worded = marked.filter((span) => span.textContent.trim()), words = worded.length ? worded : marked;
    const place = (span) => [...span.getClientRects()].at(-1) ?? span.getBoundingClientRect(); // its space may be on the line before
    const first = place(words[0]), last = place(words.at(-1));
    const {top, bottom} = box.getBoundingClientRect();
    if (first.top >= top && last.bottom <= bottom) return null;
    const high = parseFloat(getComputedStyle(box).lineHeight), line = (at) => Math.floor((at.top - top + box.scrollTop) / high);
    const least = line(last) + 1 - Math.floor(box.clientHeight / high);
    const lines = Math.min(line(first), Math.max(line(first) - 1, least)); // whole ones, the one before on top if it may be
    return lines && lines * high + UNDERLINE;
  });
  cards.forEach(({text}, index) => { if (moves[index] !== null) text.scrollTop = moves[index]; });
}
