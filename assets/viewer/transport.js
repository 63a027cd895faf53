// The choices beside the playhead: clock, speed, the lane below in the timeline, the kind of notable round, cut nodes.

import {h, show as reveal} from './dom.js';
import {NOTHING, SPEEDS} from './state.js';

const option = ([value, name]) => h('option', {value}, name);
const usual = (race, lane) => race.lanes.filter((one) => one !== lane && one.summary.tau > 1).at(-1);

/** The method below in the timeline: the one asked for, or the last other one that drafts; or nothing. */
export const below = (race, lane, {against}) => against || (usual(race, lane)?.method ?? NOTHING);

/** The index of the lane that others' views compare with: the one below, or, with nothing there, the one that would be; the
 * lane's own where no other drafts. */
export function rival(race, lane, {against}) {
  const asked = race.lanes.findIndex((one) => one.method === against);
  return asked < 0 ? race.lanes.indexOf(usual(race, lane) ?? lane) : asked;
}

export function transportView(part, go) {
  part('speed').replaceChildren(...SPEEDS.map(option));
  for (const name of ['clock', 'speed', 'against', 'moment']) part(name).addEventListener('change', (event) => go({[name]: event.target.value}));
  part('cut').addEventListener('change', (event) => go({cut: event.target.checked ? '1' : ''}));

  function race(shown) {
    const kinds = Object.entries(shown.moments).map(([kind, [name]]) => option([kind, name]));
    const stops = Object.entries(shown.stops).filter(([kind]) => !Object.hasOwn(shown.moments, kind)).map(option);
    part('moment').replaceChildren(option(['', 'notable']), ...kinds, h('optgroup', {label: 'where it stopped'}, ...stops));
  }

  function lane(shown, own, other) {
    part('against').replaceChildren(...shown.lanes.map((one) => (one === own ? h('option', {value: NOTHING}, 'nothing') : h('option', {value: one.method}, one.title))));
    part('against').value = other;
    reveal(part('against-box'), shown.lanes.length > 1);
  }

  function at(state, own) {
    for (const name of ['clock', 'speed', 'moment']) if (part(name).value !== state[name]) part(name).value = state[name];
    if (part('cut').checked !== (state.cut === '1')) part('cut').checked = state.cut === '1';
    reveal(part('cut-box'), state.tab === 'tree' && own.cut);
  }

  return {race, lane, at};
}
