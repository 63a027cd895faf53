// The round: its tree, its other views as tabs, and why it ended where it did.

import {h, tell, show as reveal} from './dom.js';
import {draw, fill, paced, whole} from './figures.js';
import {token} from './format.js';
import {compareView} from './compare.js';
import {doctorView} from './doctor.js';
import {enlarged, large, roomy} from './labels.js';
import {outlineView} from './outline.js';
import {tableView} from './table.js';
import {nextNotable} from './race.js';
import {treePlot} from './tree.js';
import {whatIf} from './whatif.js';

export const TABS = [
  {key: 'tree', title: 'Tree', figures: []},
  {key: 'outline', title: 'Outline', figures: []},
  {key: 'routing', title: 'Routing', figures: [['routing', true], ['run_routing', false, () => 'All rounds of this run']],
    none: 'No router weighed experts here: this method has none, or one expert alone proposed.'},
  {key: 'diversity', title: 'Diversity',
    figures: [['diversity', true], ['run_diversity', false, () => 'All rounds of this run'],
      ['same', false, (lane, other) => `After ${places(lane.compared.get(other).reach[0].length)}`]],
    none: 'This method drafts from one distribution: there are no experts to compare.'},
  {key: 'run', title: 'Whole run', figures: [['acceptance', false], ['stops', false], ['classes', false], ['calibration', false]]},
  {key: 'table', title: 'Table', figures: []},
  {key: 'compare', title: 'Compare', figures: [], unless: '#viewer.offline:not(.compared)'},
  {key: 'whatif', title: 'What if', figures: [], unless: '#viewer.offline'}, // a file has no model to ask
].filter(({unless}) => !unless || !document.querySelector(unless));

/** Views of the whole text, and what they are called. */
export const WHOLE = {run: 'Whole run', compare: 'Compare'};
const SAID = {run_diversity: true, same: true}; // figures above which stands what they show, in words
const TRIED = 8, CHIP = 30; // rounds whose sentence may be the highest; letters of one that a chip beside it takes the place of

/** The card of the round. `choose({tab})`, `choose({node})`. For the view What if: the methods' settings, `unable(run)`
 * says why a run cannot be decoded again, `again(request)` does it; `compare(request)` has two lanes compared,
 * `examine(method)` a head, where `heads()` names the methods that have one and `findings(lane)` are those on a lane's. */
export function roundView(part, choose, {methods, unable, again, compare, examine, heads, findings}) {
  const plots = new Map(); // name -> {box, later, settle}
  let Plotly = null, race = null, lane = null, theme = null, colors = null, tree = null, against = null, open = null;
  let width = 0; // px of the sentence's box, which the settings beside it change, too

  const tabs = TABS.map(({key, title}) => h('button', {type: 'button', role: 'tab', id: `tab-${key}`, 'data-tab': key}, title));
  part('tabs').replaceChildren(...tabs);
  part('tabs').addEventListener('click', ({target, detail}) => {
    if (!target.dataset.tab) return;
    choose({tab: target.dataset.tab});
    if (detail) target.blur(); // by mouse: arrow keys go on leading from round to round
  });
  part('tabs').addEventListener('keydown', otherTab);
  const panels = new Map(TABS.map(({key}) => [key, h('div', {role: 'tabpanel', 'aria-labelledby': `tab-${key}`, 'data-view': key, hidden: true})]));
  const nothing = note('');
  part('views').replaceChildren(...panels.values(), nothing);
  panels.get('tree').setAttribute('tabindex', '0');
  const comparing = compareView(panels.get('compare') ?? h('div'), ({other}) => compare({race: race.id, lane: race.lanes.indexOf(lane), other}), choose);

  const outline = outlineView(panels.get('outline'), choose);
  const table = tableView(panels.get('table'), choose);
  const doctor = doctorView(panels.get('run'), examine);
  new ResizeObserver(([{contentRect}]) => { width = contentRect.width; }).observe(part('why').parentNode);

  return {show, at, settle, library};

  /** plotly has arrived. */
  function library(loaded) { Plotly = loaded; }

  /** Another lane. */
  function show(nextRace, nextLane, nextTheme) {
    settle();
    [race, lane, theme, colors] = [nextRace, nextLane, nextTheme, nextRace.themes[nextTheme]];
    read();
  }

  /** How the lane's trees are read, in words that explain themselves; the shapes have their legend below. */
  function read() {
    const {q, p, head} = Object.fromEntries((lane.fields ?? []).map(({key, help}) => [key, help]));
    const contrastive = (lane.nodes ?? []).some((nodes) => nodes.head?.includes(1));
    const drafts = lane.rounds.nodes.some((count) => count > 1);
    const words = [['size, width: draft q', drafts && q], ['%: target p', p], ['last level: contrastive', contrastive && head]];
    part('reading').replaceChildren(...words.filter(([, help]) => help).map(([text, help]) => h('span', {tabindex: 0, 'data-help': help}, text)));
  }

  /** Everything about one round of the lane; `cut`: the tree with the nodes that were cut. */
  function at(round, node, tab, cut, {other, place}) {
    against = other;
    heading(round, tab);
    if (tab !== open) settle();
    open = tab;
    const rounds = lane.rounds.at.length > 0;
    if (reveal(nothing, !rounds)) nothing.textContent = lane.headline;
    for (const {key} of TABS) reveal(panels.get(key), rounds && key === tab);
    for (const button of tabs) {
      button.setAttribute('aria-selected', String(button.dataset.tab === tab));
      button.tabIndex = button.dataset.tab === tab ? 0 : -1;
    }
    if (!rounds) return;
    if (tab === 'tree') return treeFigure(round, node, cut);
    if (tab === 'outline') return outline(race, lane, round, node);
    if (tab === 'compare') {
      const said = comparing.at(race, lane, other, place, unable(lane.about), Plotly, theme);
      return tell(part('why'), said || lane.headline);
    }
    if (tab === 'whatif') return whatIf(panels.get('whatif'), race, lane, round, methods, unable(lane.about), again);
    if (tab === 'table') return table.at(race, lane, round, node);
    const {figures, none} = TABS.find(({key}) => key === tab);
    let any = false;
    for (const [name, perRound, title] of figures) any = figure(panels.get(tab), name, perRound, title, round) || any;
    let empty = panels.get(tab).querySelector('.none');
    if (!empty) panels.get(tab).append(empty = note(none ?? ''));
    reveal(empty, !any && Boolean(none) && lane.rounds.nodes.some((count) => count > 1)); // what drafts nothing is said to
    if (tab === 'run') doctor.at(lane, heads(), unable(lane.about), findings(lane));
    if (tab === 'diversity') samePlaces(panels.get(tab));
  }

  /** Keys of a list of tabs: the next one, the one before, the first, the last. */
  function otherTab(event) {
    const last = tabs.length - 1, here = tabs.indexOf(event.target);
    const to = {ArrowRight: here < last ? here + 1 : 0, ArrowLeft: here > 0 ? here - 1 : last, Home: 0, End: last}[event.key];
    if (to === undefined) return;
    event.preventDefault(); // the keys would lead to another round
    tabs[to].focus();
    choose({tab: tabs[to].dataset.tab});
  }

  /** Draw what is still to be drawn, while its tab is open: plotly cannot measure what is hidden. */
  function settle() {
    tree?.settle();
    for (const plot of plots.values()) plot.settle();
    comparing.settle();
    table.settle();
  }

  /** The offer to compare with another lane after the same tokens, where that has not been done yet. */
  function samePlaces(panel) {
    let offer = panel.querySelector('.offered');
    if (!offer) {
      panel.append(offer = h('p', {class: 'row offered'}, h('button', {type: 'button'})));
      offer.firstChild.addEventListener('click', () => compare({race: race.id, lane: race.lanes.indexOf(lane), other: against}));
    }
    offer.firstChild.textContent = `Against ${race.lanes[against].title} after the same tokens`;
    const both = lane.figures.run_diversity && race.lanes[against].figures.run_diversity; // else nothing would come of it
    reveal(offer, Boolean(both) && race.lanes[against] !== lane && !lane.compared?.has(against) && !unable(lane.about));
  }

  function heading(round, tab) {
    const accepted = lane.rounds.accepted[round] ?? 0;
    const whole = WHOLE[tab];
    part('title').textContent = lane.rounds.at.length ? `${whole ?? `Round ${round + 1}`} · ${lane.title}` : lane.title;
    part('nodes').textContent = `${(lane.rounds.nodes[round] ?? 1) - 1} drafted`; // the root is not
    part('accepted').textContent = `accepted ${accepted} + bonus ${lane.bonus?.[round] === undefined ? '' : `“${token(lane, lane.bonus[round])}”`}`;
    reveal(part('reading'), tab === 'tree' && lane.rounds.at.length > 0);
    for (const name of ['nodes', 'accepted', 'why']) reveal(part(name), lane.rounds.at.length > 0 && (!whole || name === 'why')); // the first token alone is no round
    steady(Boolean(whole));
    if (tab !== 'compare') tell(part('why'), tab === 'run' ? lane.headline : lane.why?.[round] ?? '');
    chips(whole ? [] : lane.moments[round] ?? []);
  }

  /** Keep room for what the lane's longest sentences take: else the tree below goes up and down from round to round. */
  function steady(whole) {
    const box = part('why').parentNode, key = whole || !lane.why?.length ? '' : `${race.id} ${lane.method} ${width} ${enlarged(panels.get('tree'))}`;
    if (box.dataset.of === key) return;
    box.dataset.of = key;
    box.style.minHeight = '';
    if (!key) return;
    const weight = (at) => lane.why[at].length + CHIP * lane.moments[at].length;
    const highest = lane.why.map((_, at) => at).sort((one, other) => weight(other) - weight(one)).slice(0, TRIED);
    box.style.minHeight = `${Math.max(...highest.map(high))}px`;

    function high(at) {
      part('why').textContent = lane.why[at];
      chips(lane.moments[at]);
      return box.offsetHeight;
    }
  }

  function chips(kinds) {
    const key = kinds.join(' ');
    if (part('moments').dataset.shows === key) return; // most rounds are like the one before
    part('moments').dataset.shows = key;
    const named = kinds.map((kind) => race.moments[kind]);
    part('moments').replaceChildren(...named.map(([name, help]) => h('span', {class: 'chip', tabindex: 0, 'data-help': help}, `✦ ${name}`)));
  }

  /** The tree of a round, with the nodes that were cut, once they are there; sketched until plotly is. */
  function treeFigure(round, node, cut) {
    const source = lane.figures?.[cut ? 'cut' : 'tree'], {box} = plot(panels.get('tree'), 'tree', source, 'Outline and Table have it as text.');
    if (!source) return;
    tree ??= treePlot(box);
    if (!Plotly) {
      tree.preview(fill(source, round, lane, race.words, colors), colors);
      if (!performance.getEntriesByName('jakiro-preview').length) performance.mark('jakiro-preview');
      return;
    }
    const like = `${race.id} ${lane.method} ${theme} ${enlarged(box)} ${cut}`, key = `${like} ${round} ${node}`;
    if (box.dataset.shows === key) return;
    box.dataset.shows = key;
    tree.show(Plotly, fill(source, round, lane, race.words, colors), node, like, colors, race.config, () => begin(box, 'tree'));
  }

  /** Another figure, of a round or of a run; whether the lane has it. */
  function figure(panel, name, perRound, title, round) {
    const compared = lane.compared?.get(against), source = name === 'same' ? compared?.figures.diversity : lane.figures?.[name];
    const {box, later} = plot(panel, name, source, source?.told);
    if (!source) return false;
    const scroll = box.closest('.scroll'), told = scroll.querySelector('.told');
    if (title) scroll.firstChild.textContent = title(lane, against);
    if (reveal(told, name in SAID && Boolean(source.told))) told.textContent = source.told;
    if (!Plotly) return true;
    const of = perRound ? round : `${against} ${compared?.at ?? ''}`;
    const key = `${race.id} ${lane.method} ${theme} ${roomy(box, source.min_width)} ${Math.min(width, source.min_width)} ${of}`;
    if (box.dataset.shows === key) return true;
    box.dataset.shows = key;
    const filled = perRound ? fill(source, round, lane, race.words, colors) : whole(source, colors);
    later(() => draw(Plotly, box, large(box, filled, source.min_width), race.config).then(() => begin(box, name)));
    return true;
  }

  /** The box of a figure, shown where there is one, and what paces its drawing. `told`: what who cannot see it is told. */
  function plot(panel, name, source, told) {
    if (!plots.has(name)) {
      const box = h('div', {class: 'plot', 'data-figure': name, role: 'group'});
      plots.set(name, {box, ...paced(box)});
      panel.append(h('div', {class: 'scroll'}, h('h3'), h('p', {class: 'told', hidden: true}), h('div', {class: 'layers'}, box)));
    }
    const {box} = plots.get(name);
    box.style.minWidth = `${source?.min_width ?? 0}px`;
    const height = source?.height ?? source?.layout?.height;
    if (height) box.style.minHeight = `${height}px`;
    if (reveal(box.closest('.scroll'), Boolean(source))) box.setAttribute('aria-label', [`Figure: ${name.replace('_', ' ')}.`, told].filter(Boolean).join(' '));
    return plots.get(name);
  }

  /** A plot is drawn for the first time. */
  function begin(box, name) {
    if (box.dataset.clicks) return;
    box.dataset.clicks = 'yes';
    performance.mark(`jakiro-${name}`);
    box.on('plotly_click', ({points}) => {
      const node = points[0]?.customdata?.node;
      const {customdata: kind, data: {meta} = {}} = points[0] ?? {};
      if (node >= 0) choose({node}); // bars of a run and the bonus star have none
      else if (meta === 'stop') {
        choose({moment: kind, round: nextNotable(lane, -1, 1, kind), node: null, tab: ''}); // its tree, which is drawn in the next frame
        requestAnimationFrame(() => requestAnimationFrame(() => part('title').scrollIntoView({block: 'nearest'})));
      }
      else if (meta === 'round') choose({round: points[0].x - 1, node: null});
    });
  }
}

const places = (count) => (count === 1 ? 'the same token' : `each of the same ${count} tokens`);
const note = (text) => h('p', {class: 'none'}, text);
