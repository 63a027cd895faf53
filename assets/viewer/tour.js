// A tour of one minute over whatever race is shown: each stop outlines a part of the page and says what it is for.

import {IDEA} from './actions.js';
import {h, posed, show as reveal, stillness, store} from './dom.js';

const SEEN = 'jakiro-toured';
const GAP = 20; // px around the tour
const TOUCH = matchMedia('(pointer: coarse)').matches; // there are no keys
const STOPS = [ // `live`: what is not said where there is no server; `leads`: to which round, once
  {part: 'lanes', text: `${IDEA} `
    + 'Each lane decodes the same prompt with the same target. In fp32 all write the same text; tokens a second and τ, the tokens '
    + 'that one pass brings, tell them apart. Underlined tokens were drafted, dotted ones are the target’s own.'},
  {part: 'timeline', text: 'Every bar is a round: a draft, then one pass of the target. Its height is what the round brought; below the axis '
    + `is another method over the same text. Drag along it, or press ${TOUCH ? '◀ and ▶' : 'the arrow keys'}.`},
  {part: 'views', text: 'The draft tree of one round. The green path is what the target agreed with, the star is its own next '
    + 'token; shape and colour say which expert proposed a candidate.'},
  {part: 'why', leads: rejecting, text: 'One sentence says why the round ended here: not proposed, cut by the node budget, or simply the end of the draft.'},
  {part: 'moment', leads: notable, text: `${TOUCH ? '‹✦ and ✦›' : 'N and P'} jump between notable rounds: a rescue by one expert, a sure candidate that was `
    + 'rejected, all levels accepted, the right token cut.'},
  {part: 'node', text: 'Whatever the trace knows of one node: draft and target probability, ranks, router weights. '
    + (TOUCH ? 'Tap a node.' : 'Click a node, or walk the tree with the arrow keys.')},
  {part: 'tabs', text: 'The same round otherwise: as an outline, by router, by diversity; and the whole run.',
    live: ' What if decodes again from here with another tree, one expert alone or forced words.'},
  {query: '[data-do=run]', text: '', live: 'Write a prompt and run it live. Share copies the address of exactly what you see, Export takes it along.'},
];

/** `now()` gives {race, state} where a race can be toured, else null; `go(change)` changes the state, `say(text)` tells why
 * there is no tour. Gives start(), and offers the tour to who has not been here. */
export function tour(part, root, now, go, say) {
  const box = part('tour'), offer = part('offer');
  const offline = root.classList.contains('offline');
  const stops = STOPS.map(({live = '', ...one}) => ({...one, text: one.text + (offline ? '' : live)})).filter(({text}) => text);
  let stop = -1, marked = null, before = null, tab = ''; // before: what had the focus; the view that was open
  reveal(offer, !posed() && !seen());
  document.addEventListener('keydown', (event) => {
    if (event.key !== 'Escape' || stop < 0 || event.defaultPrevented || root.querySelector('dialog[open], .menu[open]')) return;
    event.preventDefault(); // this one is not to end the presentation, too
    end();
  });
  new MutationObserver(() => { if (!now()) end(); }).observe(part('stage'), {attributeFilter: ['class', 'hidden']}); // a race begins
  return start;

  /** What it tells of is to be there: a lane with notable rounds, if one has any, its first round, and of it the tree. */
  function start() {
    const shown = now();
    if (!shown) return say('The tour is of a race that is over: there is none now.');
    const {race: {lanes}, state} = shown, own = lanes.find(({method}) => method === state.method);
    const lane = [own, ...[...lanes].reverse()].find((one) => one.moments.some((kinds) => kinds.length)) ?? own;
    go({method: lane.method, round: 0, node: null, tab: 'tree', present: '', moment: ''});
    [before, tab] = [document.activeElement, state.tab];
    visit(0, 0);
  }

  function end() {
    if (stop < 0) return;
    const byKey = box.querySelector(':focus-visible');
    visit(-1, 0);
    if (now()) go({tab});
    if (before !== document.body && before.getClientRects().length) before.focus({preventScroll: true});
    else if (byKey) root.querySelector('[data-do=help]').focus({preventScroll: true}); // which offers the tour, too
  }

  /** In a frame as high as its page, as a Space is shown in, the bottom of the window is that of the page. */
  function stick() {
    if (!('parentIFrame' in window)) return;
    Object.assign(box.style, {position: 'absolute', bottom: 'auto'});
    box.style.top = `${marked.getBoundingClientRect().bottom - box.offsetParent.getBoundingClientRect().top + 12}px`;
  }

  /** Scroll to what a stop tells of, above the tour; where that has no room, the tour is on the other side of it. */
  function makeRoom() {
    const {left, height} = marked.getBoundingClientRect(), taken = box.offsetHeight + 2 * GAP, tall = height > innerHeight - taken;
    box.classList.toggle('aside', tall && left > box.offsetWidth + GAP);
    marked.style.scrollMargin = `12px 0 ${taken}px`;
    marked.scrollIntoView({block: tall ? 'start' : 'center', behavior: stillness() ? 'auto' : 'smooth'});
  }

  /** Whether the round shown is what a stop `leads` to, once the playhead is, if it `moves`, at the first that is. */
  function led(leads, moves) {
    const {race, state} = now(), lane = race.lanes.find(({method}) => method === state.method);
    const first = lane.nodes.findIndex((_, round) => round > 0 && leads(race, lane, round));
    if (moves && first > 0) go({round: first, node: null});
    return leads(race, lane, moves && first > 0 ? first : state.round);
  }

  /** Go to a stop, one on (`by` 1) or back (-1); a number that is no stop hides the tour. */
  function visit(next, by) {
    marked?.classList.remove('toured');
    stop = next;
    store('localStorage', SEEN, 'yes');
    reveal(offer, false);
    if (!reveal(box, stop >= 0)) return;
    const {part: name, query, leads, text} = stops[stop];
    const there = leads && led(leads, by > 0);
    marked = query ? root.querySelector(query) : part(name);
    marked.classList.add('toured');
    const button = (label, act) => {
      const made = h('button', {type: 'button'}, label);
      made.addEventListener('click', act);
      return made;
    };
    const last = stop === stops.length - 1, back = button('Back', () => visit(stop - 1, -1));
    const on = last ? button('Done', end) : button('Next', () => visit(stop + 1, 1));
    back.disabled = stop === 0;
    box.replaceChildren(h('p', {}, text + (there && leads === notable ? ' This is one.' : '')), h('p', {class: 'row'}, h('span', {}, `${stop + 1} of ${stops.length}`),
      back, on, last ? null : button('Close', end)));
    stick();
    makeRoom();
    on.focus({preventScroll: true});
  }
}

/** What rounds a stop leads to; a lane may have none. */
function notable(race, lane, round) { return Boolean(lane.moments[round]?.length); }
function rejecting({words}, lane, round) { return Boolean(lane.nodes[round]?.state.includes(words.state.indexOf('rejected'))); }

function seen() {
  try { return localStorage.getItem(SEEN) !== null; } catch { return true; } // where nothing can be kept, it would be offered for ever
}
