// The header's buttons: share, export, theme, help; and the keys.

import {h, store, stored} from './dom.js';
import {WORDS} from './format.js';

/** "dark" or "light", as the page is drawn now. */
export const theme = () => (document.body.classList.contains('dark') ? 'dark' : 'light');

/** The visitor's choice from the address or an earlier visit, else what Gradio found in the system; in a file nobody has
 * looked there yet. */
export function applyTheme() {
  const system = matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light';
  const forced = matchMedia('(forced-colors: active)').matches; // then the background is the system's, whatever is chosen
  const offline = document.querySelector('#viewer.offline') && system;
  const wanted = forced ? system : new URLSearchParams(location.search).get('theme') ?? stored('localStorage', 'jakiro-theme') ?? offline;
  if (wanted === 'dark' || wanted === 'light') document.body.classList.toggle('dark', wanted === 'dark');
}

export function toggleTheme() {
  document.body.classList.toggle('dark');
  store('localStorage', 'jakiro-theme', theme());
  keepTheme();
}

let dark = false; // whether the page was, before it was printed: paper is light, before figures.js measures what is put on it

addEventListener('beforeprint', () => { dark ||= theme() === 'dark'; document.body.classList.remove('dark'); });
addEventListener('afterprint', () => { if (dark) document.body.classList.add('dark'); dark = false; });

/** Where the address has a theme, let it be the one that is shown: else who reloads, or is given it, gets the other one. */
export function keepTheme() {
  const address = new URL(location.href);
  if (!address.searchParams.has('theme')) return;
  address.searchParams.set('theme', theme());
  history.replaceState(history.state, '', address);
}

/** What the button of the settings at the side does. Opened by keyboard they get the focus; Escape closes them, and it goes
 * back. */
export function settings(button) {
  const FRAMES = 60, CONTROLS = ':is(input, select, textarea, button:not(.toggle-button)):enabled';
  const watched = new MutationObserver(changed);
  let bar = null, byKey = false;
  button.setAttribute('aria-expanded', 'false');
  document.addEventListener('keydown', (event) => {
    if (event.key !== 'Escape' || event.defaultPrevented || !opened() || !(bar.contains(event.target) || event.target === button)) return;
    if (bar.contains(event.target) && event.target.closest('[aria-expanded=true]:not(button)')) return; // a list closes first
    event.preventDefault();
    toggle();
  });
  return toggle;

  function opened() { return Boolean(bar?.classList.contains('open')); }

  function toggle() {
    const handle = document.querySelector('#settings .toggle-button');
    if (!bar && handle) begin(handle.closest('.sidebar'));
    byKey = button.matches(':focus-visible');
    handle?.click();
  }

  function begin(sidebar) {
    bar = sidebar;
    watched.observe(bar, {attributeFilter: ['class']});
    for (const label of bar.querySelectorAll('.method-settings > button')) { // Gradio's sections do not say it
      const tell = () => label.setAttribute('aria-expanded', String(label.classList.contains('open')));
      new MutationObserver(tell).observe(label, {attributeFilter: ['class']});
      tell();
    }
  }

  function changed() {
    if (button.getAttribute('aria-expanded') === String(opened())) return;
    button.setAttribute('aria-expanded', String(opened()));
    if (!opened() && bar.contains(document.activeElement)) button.focus();
    if (opened() && byKey) enter(FRAMES);
  }

  /** To the first control, as soon as it can be seen: what turns visible may do so over some frames. */
  function enter(frames) {
    const first = [...bar.querySelectorAll(CONTROLS)].find((one) => one.getClientRects().length);
    first?.focus();
    if (first && first !== document.activeElement && frames) requestAnimationFrame(() => opened() && enter(frames - 1));
  }
}

/** Copy the page's address; where the browser refuses, show it to be copied by hand. */
export async function share(race, path, say) {
  if (race?.running) return say('This race can be shared when it is over.');
  const address = new URL(path, location.href);
  const hosts = [...address.searchParams.keys()].filter((name) => name.startsWith('__')); // as a private Space's token
  hosts.forEach((name) => address.searchParams.delete(name));
  const url = address.href;
  const lasts = !race || race.kind === 'recorded' || document.querySelector('#viewer.offline');
  const until = lasts ? '' : ' It holds as long as this server keeps the race; Export keeps it for good.';
  try {
    await navigator.clipboard.writeText(url);
    say(`The address of this view is in the clipboard.${until}`);
  } catch {
    say(`Copy the address of this view: ${url}${until}`);
  }
}

const EXPORTS = {
  'replay.html': 'Replay (HTML): this page as one file',
  'traces.ndjson': 'Traces (NDJSON): one a line',
  'traces.json': 'Traces (JSON): everything recorded',
  'metrics.json': 'Metrics (JSON): one object a method',
  'nodes.csv': 'Nodes (CSV): one row a node',
};

/** Links to a race's files; `files` has the addresses of those that lie elsewhere. */
export function exportLinks(box, names, id, files = {}) {
  box.replaceChildren(...names.map((name) => h('a', {href: files[name] ?? `races/${id}/${name}`, download: `${id}-${name}`}, EXPORTS[name] ?? name)));
}

const KEYS = [
  ['← → or J K', 'one round back or on; with Shift ten'], ['Home, End', 'first or last round'],
  ['N, P', 'next or previous notable round'], ['Space', 'replay at the chosen speed, or pause'],
  ['O', 'the tree as an outline, or as a tree again'], ['arrows in the tree', 'parent, child, neighbours of the level; in the outline its lines'], ['1 2 3 …', 'choose the lane'],
  ['S', 'copy the address of this view'], ['E', 'export'], ['Shift P', 'present: only the race, in large; Page Down and Page Up, as of a presenter’s clicker, are one round there'], ['?', 'this help'],
];

let characters = stored('localStorage', 'jakiro-keys') !== 'off'; // whether keys of one character work; who dictates may turn them off

/** What drafting is, for who has not met it. */
export const IDEA = 'The target is the language model whose text is wanted; each of its passes takes long. A small draft head guesses several tokens '
  + 'ahead, and one pass of the target checks them all.';

/** The help dialog's text. */
export function fillHelp(box) {
  const choice = h('input', {type: 'checkbox', checked: characters});
  choice.addEventListener('change', () => {
    characters = choice.checked;
    store('localStorage', 'jakiro-keys', characters ? 'on' : 'off');
  });
  const rows = (list) => h('dl', {}, ...list.flatMap(([term, text]) => [h('dt', {}, term), h('dd', {}, text)]));
  box.replaceChildren(
    h('form', {method: 'dialog', class: 'head'}, h('h2', {}, 'What this page shows'),
      h('button', {type: 'button', 'data-do': 'tour'}, 'Tour of one minute'), h('button', {'aria-label': 'Close'}, 'Close')),
    h('p', {}, IDEA),
    h('p', {}, 'Each lane decodes the same prompt with the same target. A method drafts a tree of tokens, the target scores '
      + 'it in one pass and walks down as long as its own choice is among the children; the last token of a round, the bonus, '
      + 'is always the target’s own. So in fp32 all lanes give the same text, and only the number and the cost of the rounds differ.'),
    h('h3', {}, 'Words'),
    rows([['prefill', 'The target’s pass over the prompt, which gives the first token.'],
      ['round', 'A draft and the pass of the target that checks it; of vanilla one pass for one token.'],
      ['EAGLE-2', 'Its draft head is one layer, which guesses the target’s next features; the likeliest paths form the tree.'],
      ['Jakiro', 'An EAGLE head with two experts, whose candidates can come from different features.'],
      ['expert', 'A part of Jakiro’s draft head with guesses of its own; a router weighs them at every node.'],
      ['node budget', 'How many nodes of what was drafted are kept for the target to verify; the rest are cut.'],
      ['rescue', 'An accepted token that one expert alone proposed.'],
      ['contrastive level', 'The last one, which is drafted without a pass of its own: from how the experts differed in the one before.'],
      ['top-k', 'The k likeliest tokens after a node: those that are proposed.'],
      ['p, q', 'Probability of a token under the target, and under the draft.'],
      ['passed over', 'A candidate that the target weighed and took a sibling of; unreached are those that it never got to.'],
      ['walk', 'The way of the target down the tree, along its own choices, to the first that is not there.'],
      ['target mass', 'The target’s probability that its text stays in the tree as far as a level.'],
      ['divergence', 'How much the two experts’ guesses differ (Jensen-Shannon), in nats: 0 for alike, 0.69 = log 2 for nothing in common.'],
      ['tape, CUDA graph', 'A pass that was recorded once and is run again without Python; recording takes time of its own.'],
      ['coupled', 'Where the target draws its tokens, a draft that is told of the same draw.']]),
    h('h3', {}, 'Numbers'),
    rows([['tok/s', WORDS.tps], ['×', WORDS.speedup], ['τ', WORDS.tau], ['bar', WORDS.bar]]),
    h('h3', {}, 'Keys'), rows(KEYS), h('label', {class: 'inline'}, choice, 'keys of one character work'),
  );
}

const LETTERS = {n: 'after', p: 'before', o: 'outline', s: 'share', e: 'export', P: 'present', '?': 'help', Home: 'first', End: 'last'};

/** Keys of the page. `act(name, argument)`. */
export function bindKeys(act) {
  document.addEventListener('keydown', (event) => {
    const target = event.target;
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    const leaves = event.key === 'Escape' && target.matches('#viewer.presenting select:not(:is(:open))'); // an open list closes first
    if (!leaves && target.closest('#settings, input:not([type=range], [type=checkbox]), textarea, select, dialog[open], [contenteditable]')) return;
    if (/^\S$/.test(event.key) && !characters) return;
    const key = /^[a-z]$/i.test(event.key) ? event.key[event.shiftKey ? 'toUpperCase' : 'toLowerCase']() : event.key; // whatever Caps Lock says
    const far = event.shiftKey ? 10 : 1;
    const once = event.repeat ? () => {} : act; // what is held down walks on, and does nothing else again
    if (target.closest('[role=region]') && /^(Arrow|Home|End|Page)/.test(event.key)) return; // they scroll it
    const pages = {PageDown: 1, PageUp: -1}[key];
    const inTree = target.closest('[data-view=tree], [data-view=outline]');
    if (inTree && event.key.startsWith('Arrow')) act('node', event.key);
    else if (pages && document.querySelector('#viewer.presenting')) act('step', pages); // a presenter's clicker sends them
    else if (key === 'ArrowLeft' || key.toLowerCase() === 'j') act('step', -far);
    else if (key === 'ArrowRight' || key.toLowerCase() === 'k') act('step', far);
    else if (event.key === ' ' && !target.closest('button, summary, a, [role=tab], [type=checkbox]')) once('play');
    else if (LETTERS[key]) once(LETTERS[key]);
    else if (event.key === 'Escape' && document.querySelector('#viewer.presenting, #viewer .menu[open]')) once('escape');
    else if (/^[1-9]$/.test(event.key)) once('lane', Number(event.key) - 1);
    else return;
    event.preventDefault();
  });
}
