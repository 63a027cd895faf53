// The inspector: all that the trace knows of one node, and the run's own numbers below it.

import {h} from './dom.js';
import {cell, token} from './format.js';

/** Fill the inspector. */
export function showNode(box, race, lane, round, node) {
  if (!lane.rounds.at.length) return box.replaceChildren(h('h2', {}, 'Node'), h('p', {}, 'No rounds, no nodes.'));
  const nodes = lane.nodes[round];
  const fields = lane.fields.filter(({key}) => nodes[key]?.[node] !== null && nodes[key]?.[node] !== undefined);
  const title = node === 0 ? 'Root' : `Node ${node}`;
  box.dataset.node = node;
  box.replaceChildren(
    h('h2', {}, title, ' ', h('code', {}, token(lane, nodes.id[node]))),
    list(fields.map((field) => [field.label, cell(nodes[field.key][node], field, lane, race.words), field.help])),
    h('h2', {}, `Run · ${lane.title}`),
    list(lane.metrics.map(({label, text, help}) => [label, text, help])),
    h('details', {}, h('summary', {}, 'How it was recorded'), list(lane.header.map(([label, text]) => [label, text, '']))),
  );
}

function list(rows) {
  return h('dl', {}, ...rows.flatMap(([label, text, help]) => [
    h('dt', {'data-help': help || null, tabindex: help ? 0 : null}, label), h('dd', {}, text)]));
}

/** The node to show where none is chosen: the last that the target agreed with. */
export function stopNode(race, lane, round) {
  const nodes = lane.nodes?.[round];
  if (!nodes) return 0;
  const accepted = race.words.state?.indexOf('accepted') ?? 1;
  return Math.max(0, nodes.state.lastIndexOf(accepted));
}
