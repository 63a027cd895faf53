// The order in which a round's tree is drawn, and where the arrow keys lead in it.

/** The children of every node from the top down: the draft's favourite first, as graph.py draws them. */
export function childrenAsDrawn({parent, score}) {
  const children = parent.map(() => []);
  parent.forEach((above, node) => { if (above >= 0) children[above].push(node); });
  for (const siblings of children) siblings.sort((one, other) => (score[other] ?? 0) - (score[one] ?? 0) || one - other);
  return children;
}

/** All nodes, each before its children and those before its next sibling: the outline's lines. */
function depthFirst(children) {
  const found = [], waiting = [0];
  while (waiting.length) {
    const node = waiting.pop();
    found.push(node);
    for (const child of [...children[node]].reverse()) waiting.push(child);
  }
  return found;
}

/** The node that a key leads to from another: its parent, its first child, the next of its level, or, where the tree is
 * `listed`, the next line; null where there is none. */
export function neighbour(nodes, node, key, listed) {
  const children = childrenAsDrawn(nodes);
  const column = depthFirst(children).filter((one) => listed || nodes.depth[one] === nodes.depth[node]);
  const place = column.indexOf(node);
  const found = {ArrowLeft: nodes.parent[node], ArrowRight: children[node][0], ArrowUp: column[place - 1], ArrowDown: column[place + 1]}[key];
  return found === undefined || found < 0 ? null : found;
}
