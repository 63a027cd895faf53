// The tree as a nested list: for narrow screens, for the keyboard and for screen readers. States are words here.

import {h} from './dom.js';
import {cell, token} from './format.js';
import {stopNode} from './node.js';
import {childrenAsDrawn} from './walk.js';

/** A round's tree as a list in `box`, node `chosen` marked; a click on a node calls choose({node}). */
export function outline(box, race, lane, round, chosen, choose) {
  const nodes = lane.nodes[round];
  const focused = box.contains(document.activeElement);
  const children = childrenAsDrawn(nodes);
  box.replaceChildren(h('ul', {class: 'outline', 'aria-label': `Draft tree of round ${round + 1}`}, entry(0)));
  if (focused) box.querySelector('[aria-current=true]')?.focus();

  function entry(node) {
    const state = race.words.state[nodes.state[node]];
    const button = h('button', {type: 'button', 'data-node': node, 'aria-current': String(node === chosen), class: state},
      h('code', {}, token(lane, nodes.id[node])), ` ${said(node, state)}`);
    button.addEventListener('click', () => choose({node}));
    const below = children[node].map(entry);
    if (node === stopNode(race, lane, round)) below.push(bonus());
    return h('li', {}, button, below.length ? h('ul', {}, ...below) : null);
  }

  function said(node, state) {
    if (node === 0) return 'root';
    const facts = [state, ...['q', 'p'].filter((name) => nodes[name]?.[node] !== null).map((name) => `${name} ${share(nodes[name][node])}`)];
    const source = nodes.source?.[node] ?? null;
    if (source !== null) facts.push(cell(source, {key: 'source', format: 'word'}, lane, race.words));
    return facts.join(', ');
  }

  function bonus() {
    return h('li', {class: 'bonus'}, '★ ', h('code', {}, token(lane, lane.bonus[round])), ' bonus, the target’s own choice');
  }
}

const share = (value) => (value > 0 && value < 0.0005 ? '< 0.1%' : `${(100 * value).toFixed(value < 0.1 ? 1 : 0)}%`);
