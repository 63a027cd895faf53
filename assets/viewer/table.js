// The table: every node of the round with all that the trace knows of it.

import {h, keepFocus} from './dom.js';
import {paced} from './figures.js';
import {cell} from './format.js';
import {column} from './node.js';

/** The view in `box`; a click on a row calls choose({node}). A lane's cells are made once; a round only changes their text. */
export function tableView(box, choose) {
  const body = h('tbody'), head = h('tr');
  const whole = h('div', {class: 'scroll table', tabindex: 0, role: 'region', 'aria-label': 'All nodes of the round'}, h('table', {}, h('thead', {}, head), body));
  whole.addEventListener('click', ({target}) => {
    const chosen = target.closest('[data-node]');
    if (chosen) choose({node: Number(chosen.dataset.node)});
  });
  box.append(whole);
  let shown = null, rows = [];
  const {later, settle} = paced(whole);
  return {at: (...now) => later(() => show(...now)), settle};

  function show(...now) {
    const lane = now[1];
    if (shown === lane) return fill(...now);
    keepFocus(whole, () => {
      begin(lane);
      fill(...now);
    });
  }

  function fill(race, lane, round, node) {
    const nodes = lane.nodes[round];
    while (rows.length < nodes.id.length) rows.push(row(rows.length, lane.fields));
    rows.forEach(({line, cells}, index) => {
      line.hidden = index >= nodes.id.length;
      line.className = index === node ? 'now' : '';
      line.ariaCurrent = String(index === node);
      if (line.hidden) return;
      lane.fields.forEach((field, at) => write(cells[at], cell(column(nodes, field.key)?.[index], field, lane, race.words)));
    });
    whole.dataset.drawn = 'yes';
  }

  function begin(lane) {
    shown = lane;
    rows = [];
    body.replaceChildren();
    head.replaceChildren(h('th', {scope: 'col'}, 'node'), ...lane.fields.map((field) => h('th', {scope: 'col', 'data-help': field.help}, field.label)));
  }

  function row(index, fields) {
    const cells = fields.map(() => document.createTextNode(''));
    const line = h('tr', {'data-node': index}, h('th', {scope: 'row'}, h('button', {type: 'button', 'aria-label': `Node ${index}`}, String(index))), ...cells.map((text) => h('td', {}, text)));
    body.append(line);
    return {line, cells};
  }
}

function write(place, text) {
  if (place.data !== text) place.data = text;
}
