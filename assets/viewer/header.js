// The header: what is shown, whether the lanes agree, how the chosen lane was set.

import {exportLinks} from './actions.js';
import {h, show as reveal, store, stored} from './dom.js';
import {inOrder} from './format.js';

const SOURCES = {live: 'Run live on this server', recorded: 'Recorded beforehand', opened: 'Recorded elsewhere, opened from a file',
  'what if': 'Rounds as they were and as they would have been'};
const OF_A_RACE = ['export', 'source', 'settings', 'lossless', 'pick'];

const VISIT = `jakiro-races ${location.pathname}`, MOST = 20; // where a visit's races are kept for when the page is loaded again, and how many
const TITLE = 80, PROMPT = 36; // characters in the list of races
const EARLY = 'a race that was still running'; // until it is shown

/** A text on one line, with an ellipsis where it is longer than `most`. */
function short(text, most) {
  const line = [...inOrder(text.slice(0, 4 * most)).replace(/\s+/g, ' ').trim()];
  return line.length > most || text.length > 4 * most ? `${line.slice(0, most - 1).join('')}…` : line.join('');
}

/** What the list calls a race: its kind, and what tells it from others. One that begins now says when. */
function titled({kind, running, prompt, note, lanes}) {
  if (note) return `${kind}: ${note}`;
  const time = running ? ` ${new Date().toTimeString().slice(0, 8)}` : '';
  return `${kind}${time}: ${short(prompt, PROMPT)} · ${lanes.map(({title}) => title).join(', ')}`;
}

/** The header's parts. `races` are the recorded ones, `exports` the names of a race's files, `files` where some lie. */
export function headerView(part, {races, exports, files}) {
  let mine = new Map(JSON.parse(stored('sessionStorage', VISIT))); // the last races of this visit that are not among the recorded ones: id -> title
  return {race, lane, present, stays, keep, lists, forget, later, empty: () => OF_A_RACE.forEach((name) => reveal(part(name), false))};

  /** A race is shown. */
  function race(shown) {
    const row = part('pick').parentElement;
    for (const one of [row, part('export').parentElement, row.parentElement]) one.style.minHeight = shown.running ? `${one.getBoundingClientRect().height}px` : ''; // what comes back when it is over moves nothing
    OF_A_RACE.forEach((name) => reveal(part(name), true));
    part('kind').textContent = shown.running ? 'running' : shown.kind;
    sourced(shown.kind, shown);
    reveal(part('settings'), !shown.running);
    reveal(part('back'), Boolean(shown.back));
    reveal(part('export'), !shown.running);
    badge(shown.lossless);
    choices(shown);
    exportLinks(part('exports'), exports, shown.id, files);
    part('export').open = false;
  }

  /** Only the race and its rounds, or all again. True where that changes. */
  function present(viewer, wanted) {
    if (viewer.classList.toggle('presenting', wanted) === (part('present').getAttribute('aria-pressed') === 'true')) return false;
    if (wanted) document.querySelector('.sidebar.open .toggle-button')?.click();
    part('present').setAttribute('aria-pressed', wanted);
    part('present').textContent = wanted ? 'Exit' : 'Present';
    part('export').open = false; // else Escape would close what cannot be seen
    return true;
  }

  /** A race that is not shown can be chosen, beside the one that is. */
  function keep(id, title, shown = null) {
    const others = [...mine].filter(([one]) => one !== id).slice(1 - MOST), said = short(title, TITLE);
    const [, last] = others.findLast(([, other]) => other === said || other.startsWith(`${said} (`)) ?? [];
    mine = new Map([...others, [id, last ? `${said} (${Number(last.slice(said.length).match(/\d+/) ?? 1) + 1})` : said]]);
    remember();
    if (shown && !shown.running) choices(shown);
  }

  function lists(race, shown = null) { keep(race.id, titled(race), shown); }

  /** A race that is still running can be opened when it is over. */
  function later(id) { if (!mine.has(id)) keep(id, EARLY); }

  function remember() { store('sessionStorage', VISIT, JSON.stringify([...mine])); }

  /** The race shown stays, since the one asked for could not be had; `gone` is the id of one that never can. */
  function stays(shown, gone) {
    forget(gone);
    choices(shown);
  }

  function forget(gone) {
    mine.delete(gone);
    remember();
  }

  /** Where what is shown is from, and what was asked: in a file each lane may differ. */
  function sourced(kind, {model, device, date, prompt}) {
    const source = [model, device, date].filter(Boolean).join(' · ');
    const plain = [model, device].filter(Boolean).join(' · ').replace(/\((R|TM)\)|( Processor| CPU)\b|\bNVIDIA /g, ''); // which processors' names are full of
    part('source').replaceChildren(plain, h('span', {class: 'more'}, plain && date ? ` · ${date}` : date));
    part('source').dataset.help = `${SOURCES[kind]}: target, device, date. ${source}`;
    part('prompt').textContent = inOrder(prompt);
  }

  /** A lane is chosen. */
  function lane({kind}, chosen) {
    sourced(kind, chosen.about);
    const facts = new Map(chosen.header), {temperature, top_p: kept} = chosen.sampling;
    const others = facts.has('Settings') ? ` · ${facts.get('Settings')}` : '';
    const sampling = temperature ? `T ${temperature}${kept < 1 ? `, top_p ${kept}` : ''}` : 'greedy';
    const nodes = chosen.settings?.total_tokens ? ` · ${chosen.settings.total_tokens} nodes` : '';
    part('settings').replaceChildren(sampling, h('span', {class: 'more'}, others), h('span', {class: 'less'}, nodes));
    part('settings').dataset.help = `Settings of ${chosen.title}: ${facts.get('Sampling')}${others}`;
  }

  function badge(lossless) {
    const chip = part('lossless');
    if (!reveal(chip, Boolean(lossless))) return;
    const {identical, tie, text} = lossless;
    chip.textContent = identical === null ? text : `${identical ? '✓' : tie ? '≈' : '⚠'} ${text}`;
    chip.classList.toggle('good', identical === true);
    chip.classList.toggle('badge', identical !== null && !tie);
    chip.dataset.help = `${text}. The token ids of every lane are compared with the first one’s; where two part, `
      + 'the place and the target’s margin between the two tokens are named. Two logits that are rounded differently may '
      + 'change places: a margin of at most four steps of half precision, or 0.0001 nats in float32, is called a tie.';
  }

  function choices(shown) {
    if (!races.some(({id}) => id === shown.id) && (mine.get(shown.id) ?? EARLY) === EARLY) lists(shown);
    const others = races.map(({id, title}) => ({id, title: short(title, TITLE)})); // a file has its prompt as title
    const all = [...[...mine].reverse().map(([id, title]) => ({id, title})), ...others];
    const kind = new RegExp(`^${shown.kind}:? `); // it stands beside the one shown
    const said = ({id, title}) => (id === shown.id ? title.replace(kind, '') : title);
    part('races').replaceChildren(...all.map((one) => h('option', {value: one.id}, said(one))));
    part('races').value = shown.id;
    part('races').disabled = shown.running;
  }
}
