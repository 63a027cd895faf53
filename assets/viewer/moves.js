// Where buttons and keys take the playhead of a race at rest.

import {cross} from './lanes.js';
import {stopNode} from './node.js';
import {nextNotable} from './race.js';
import {neighbour} from './walk.js';

/** Make the move of a name, if it is one. `go(change)` changes the state, `say(text)` tells why it does not. */
export function move(name, argument, {race, lane, state}, go, say) {
  const step = (by) => go({round: Math.min(Math.max(state.round + by, 0), lane.rounds.at.length - 1), node: null});
  const notable = (by) => {
    const round = nextNotable(lane, state.round, by, state.moment);
    if (round !== null) go({round, node: null}); else say(`There is no such round ${by > 0 ? 'after' : 'before'} this one.`);
  };
  const moves = {
    first: () => step(-Infinity), 'far-back': () => step(-10), back: () => step(-1),
    next: () => step(1), 'far-next': () => step(10), last: () => step(Infinity), step: () => step(argument),
    before: () => notable(-1), after: () => notable(1),
    outline: () => go({tab: state.tab === 'outline' ? 'tree' : 'outline'}),
    present: () => go({present: state.present ? '' : '1'}),
    lane: () => {
      const from = race.lanes.find((one) => one.method === state.method), to = race.lanes[argument];
      if (to) go({method: to.method, round: cross(race, from, state.round, to, state.clock), node: null});
    },
    node: () => {
      const node = neighbour(lane.nodes[state.round], state.node ?? stopNode(race, lane, state.round), argument, state.tab === 'outline');
      if (node !== null) go({node});
    },
  };
  moves[name]?.();
}
