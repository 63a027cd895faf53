// The inspector: all that the trace knows of one node; folded below it, the run's own numbers.

import {h} from './dom.js';
import {cell, token} from './format.js';

/** The inspector in `box`. A lane's rows are made once; a round only changes their text. */
export function nodeView(box) {
  let shown = null, title = null, code = null, rows = [], folds = [];
  return show;

  function show(race, lane, round, node) {
    if (shown !== lane) begin(lane);
    shown = lane;
    if (!lane.rounds.at.length) return;
    const nodes = lane.nodes[round];
    box.dataset.node = node;
    title.textContent = node === 0 ? 'Root ' : `Node ${node} `;
    code.textContent = token(lane, nodes.id[node]);
    for (const {field, name, value} of rows) {
      const known = nodes[field.key]?.[node] ?? null;
      if (name.hidden === (known !== null)) name.hidden = value.hidden = known === null;
      if (known !== null) value.textContent = cell(known, field, lane, race.words);
    }
  }

  function begin(lane) {
    if (!lane.rounds.at.length) return box.replaceChildren(h('h2', {}, 'Node'), h('p', {}, 'No rounds, no nodes.'));
    [title, code] = [document.createTextNode(''), h('code', {})];
    rows = lane.fields.map((field) => ({field, name: term(field.label, field.help), value: h('dd', {})}));
    const open = folds.map((fold) => fold.open);
    folds = [
      fold(`Run · ${lane.title}`, lane.metrics.flatMap(({label, text, help}) => [term(label, help), h('dd', {}, text)])),
      fold('How it was recorded', lane.header.flatMap(([label, text]) => [term(label), h('dd', {}, text)])),
    ];
    folds.forEach((one, at) => { one.open = Boolean(open[at]); });
    box.replaceChildren(
      h('h2', {}, title, code),
      h('dl', {}, ...rows.flatMap(({name, value}) => [name, value])),
      ...folds,
    );
  }
}

const fold = (title, rows) => h('details', {}, h('summary', {}, title), h('dl', {}, ...rows));

const term = (label, help) => h('dt', {'data-help': help || null, tabindex: help ? 0 : null}, label);

/** The node to show where none is chosen: the last that the target agreed with. */
export function stopNode(race, lane, round) {
  const nodes = lane.nodes[round]; // a run may have no rounds
  return nodes ? Math.max(0, nodes.state.lastIndexOf(race.words.state.indexOf('accepted'))) : 0;
}
