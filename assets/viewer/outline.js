// The tree as a nested list: for narrow screens, for the keyboard and for screen readers. States are words here.

import {h} from './dom.js';
import {cell, token} from './format.js';
import {stopNode} from './node.js';
import {childrenAsDrawn} from './walk.js';

/** The view of a round's tree as a list in `box`; a click on a node calls choose({node}). */
export function outlineView(box, choose) {
  let shown = [];
  const chosen = ({target}) => {
    const one = target.closest('[data-node]');
    if (one) choose({node: Number(one.dataset.node)});
  };
  box.addEventListener('click', chosen);
  box.addEventListener('pointerdown', (event) => { // in a replay the list may be another one before the button is up
    if (event.pointerType === 'mouse' && event.button === 0) chosen(event);
  });
  return at;

  /** Show a round, node `current` marked; what has the focus keeps it, until another node is current. */
  function at(race, lane, round, current) {
    const focused = box.contains(document.activeElement), [ofLane, ofRound, last] = shown;
    if (lane === ofLane && round === ofRound && current === last) return;
    if (lane !== ofLane || round !== ofRound) box.replaceChildren(list(race, lane, round));
    shown = [lane, round, current];
    for (const one of box.querySelectorAll('[data-node]')) one.ariaCurrent = String(one.dataset.node === String(current));
    if (focused) box.querySelector('[aria-current=true]')?.focus();
  }
}

function list(race, lane, round) {
  const nodes = lane.nodes[round];
  const children = childrenAsDrawn(nodes), stop = stopNode(race, lane, round);
  return h('ul', {class: 'outline', 'aria-label': `Draft tree of round ${round + 1}`}, entry(0));

  function entry(node) {
    const state = race.words.state[nodes.state[node]];
    const button = h('button', {type: 'button', 'data-node': node, class: state}, h('code', {}, token(lane, nodes.id[node])), ` ${said(node, state)}`);
    const below = children[node].map(entry);
    if (node === stop) below.push(bonus());
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
