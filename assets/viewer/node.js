// The inspector: all that the trace knows of one node; folded below it, the run's own numbers.

import {h, keepFocus, tell} from './dom.js';
import {cell, inOrder, token} from './format.js';

/** The inspector in `box`, which says in `why` what became of the node. A lane's rows are made once; a round only changes
 * their text. */
export function nodeView(box, why) {
  const who = h('span', {class: 'heard'}), what = h('span');
  why.append(who, what);
  let shown = null, title = null, code = null, rows = [], folds = [];
  return show;

  function show(race, lane, round, node) {
    if (shown !== lane) keepFocus(box, () => begin(lane));
    shown = lane;
    if (!lane.rounds.at.length) return;
    const nodes = lane.nodes[round];
    box.dataset.node = node;
    title.textContent = node === 0 ? 'Root ' : `Node ${node} `;
    code.textContent = token(lane, nodes.id[node]);
    tell(who, `“${token(lane, nodes.id[node])}”: `); // who walks the tree by keys hears where they are
    tell(what, fate(race, lane, nodes, node));
    for (const {field, value} of rows) value.textContent = cell(column(nodes, field.key)?.[node], field, lane, race.words);
  }

  function begin(lane) {
    if (!lane.rounds.at.length) return box.replaceChildren(h('h2', {}, 'Node'), h('p', {}, 'No rounds, no nodes.'));
    [title, code] = [document.createTextNode(''), h('code', {})];
    rows = lane.fields.filter(({key}) => applies(lane, key))
      .map((field) => ({field, name: term(field.label, field.help), value: h('dd', {})}));
    const open = folds.map((fold) => fold.open);
    folds = [
      fold(`Run · ${lane.title}`, lane.metrics.flatMap(({label, text, help}) => [term(label, help), h('dd', {}, text)])),
      fold('How it was recorded', lane.header.flatMap(([label, text]) => [term(label), h('dd', {}, inOrder(text))])),
    ];
    folds.forEach((one, at) => { one.open = Boolean(open[at]); });
    box.replaceChildren(
      h('h2', {}, title, code),
      why,
      h('dl', {}, ...rows.flatMap(({name, value}) => [name, value])),
      ...folds,
    );
  }
}

/** A column of a round, which may be called as every object's own parts are. */
export const column = (nodes, key) => (Object.hasOwn(nodes, key) ? nodes[key] : undefined);

/** What there is for a lane's method; for that of another head, which may not be here, what there is for its kind. */
export const ofMethod = (found, name) => column(found, name) ?? column(found, name.split('-')[0]);

/** Whether a column has a value for any node of the lane; where it has, its row stays, or what is below would move. */
const applies = (lane, key) => lane.nodes.some((nodes) => column(nodes, key)?.some((value) => value !== null));

/** What became of a node, in a sentence. */
function fate({words}, lane, nodes, node) {
  const state = words.state[nodes.state[node]], above = nodes.parent[node];
  const share = (value) => (value > 0 ? ` (p ${cell(value, {format: 'share'}, lane, words)})` : '');
  if (node === 0) return 'The last token before the round.';
  if (state === 'accepted') return `The target chose it, too${share(nodes.p[node])}.`;
  if (above !== 0 && words.state[nodes.state[above]] !== 'accepted') return `Never weighed: “${token(lane, nodes.id[above])}” before it was not accepted.`;
  if (state === 'unreached') return 'The text ended with it.';
  const pick = nodes.pick?.[above] ?? null;
  const chosen = pick !== null ? `“${token(lane, pick)}”${share(Math.exp(nodes.pick_logprob?.[above] ?? NaN))}` : 'another token';
  return `The target chose ${chosen} there, not this${share(nodes.p[node])}.`;
}

const fold = (title, rows) => h('details', {}, h('summary', {}, title), h('dl', {}, ...rows));

const term = (label, help) => h('dt', {'data-help': help || null, tabindex: help ? 0 : null}, label);

/** The node to show where none is chosen: the last that the target agreed with. */
export function stopNode(race, lane, round) {
  const nodes = lane.nodes[round]; // a run may have no rounds
  return nodes ? Math.max(0, nodes.state.lastIndexOf(race.words.state.indexOf('accepted'))) : 0;
}
