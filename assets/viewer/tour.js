// A tour of one minute over whatever race is shown: each stop outlines a part of the page and says what it is for.

import {h, posed, show as reveal, stillness} from './dom.js';

const SEEN = 'jakiro-toured';
const STOPS = [ // `live`: what is not said where there is no server
  {part: 'lanes', text: 'Each lane decodes the same prompt with the same target. In fp32 all write the same text; tokens a second and τ, the tokens '
    + 'that one pass of the target brings, tell them apart. Underlined tokens were drafted, dotted ones are the target’s own.'},
  {part: 'timeline', text: 'Every bar is a round: a draft, then one pass of the target. Its height is what the round brought; below the axis '
    + 'is another method over the same text. Drag along it, or press the arrow keys.'},
  {part: 'views', act: ['first'], text: 'The draft tree of one round. The green path is what the target agreed with, the star is its own next '
    + 'token; shape and colour say which expert proposed a candidate.'},
  {part: 'why', text: 'One sentence says why the round ended here: not proposed, cut by the node budget, or simply the end of the draft.'},
  {part: 'moment', act: ['after'], text: 'N and P jump between notable rounds: a rescue by one expert, a sure candidate that was rejected, all '
    + 'levels accepted, the right token cut. This is the next one.'},
  {part: 'node', text: 'Whatever the trace knows of one node: draft and target probability, ranks, router weights. Click a node, or walk the '
    + 'tree with the arrow keys.'},
  {part: 'tabs', text: 'The same round otherwise: as an outline, by router, by diversity; and the whole run.',
    live: ' What if decodes again from here with another tree, one expert alone or forced words.'},
  {query: '[data-do=run]', text: '', live: 'Write a prompt and run it live. Share copies the address of exactly what you see, Export takes it along.'},
];

/** `act(name)` moves the page as its buttons do. Gives start(), and offers the tour to who has not been here. */
export function tour(part, root, act) {
  const box = part('tour'), offer = part('offer');
  const offline = root.classList.contains('offline');
  const stops = STOPS.map(({live = '', ...one}) => ({...one, text: one.text + (offline ? '' : live)})).filter(({text}) => text);
  let stop = -1, marked = null;
  reveal(offer, !posed() && !seen());
  return start;

  function start() { go(0); }

  function go(next) {
    marked?.classList.remove('toured');
    stop = next;
    remember();
    reveal(offer, false);
    if (!reveal(box, stop >= 0 && stop < stops.length)) return;
    const {part: name, query, act: action, text} = stops[stop];
    if (action) act(...action);
    marked = query ? root.querySelector(query) : part(name);
    marked.classList.add('toured');
    marked.scrollIntoView({block: 'center', behavior: stillness() ? 'auto' : 'smooth'});
    const button = (label, to) => {
      const made = h('button', {type: 'button', disabled: to < 0 && label === 'Back'}, label);
      made.addEventListener('click', () => go(to));
      return made;
    };
    const last = stop === stops.length - 1;
    const next_ = button(last ? 'Done' : 'Next', last ? -1 : stop + 1);
    box.replaceChildren(h('p', {}, text), h('p', {class: 'row'}, h('span', {}, `${stop + 1} of ${stops.length}`),
      button('Back', stop - 1), next_, last ? null : button('Close', -1)));
    next_.focus({preventScroll: true});
  }
}

function seen() {
  try { return localStorage.getItem(SEEN) !== null; } catch { return true; }
}

function remember() {
  try { localStorage.setItem(SEEN, 'yes'); } catch { /* private windows refuse: it is offered again */ }
}
