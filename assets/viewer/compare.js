// Compare: two lanes drafting after every token of one text. Their trees at one place, what they cover, and the whole text.

import {h, show as reveal, tabled} from './dom.js';
import {draw, fill, paced, whole} from './figures.js';
import {token} from './format.js';
import {enlarged, large} from './labels.js';
import {roundOf} from './race.js';
import {treePlot} from './tree.js';

const drafts = (lane) => lane.rounds.nodes.some((count) => count > 1);

/** The index of the lane that one is compared with: `other`, or the first other one that drafts where that is the lane
 * itself or drafts nothing; the lane's own where there is none. */
export function facing(race, lane, other) {
  const able = race.lanes.filter((one) => one !== lane && drafts(one));
  return race.lanes.indexOf(able.includes(race.lanes[other]) ? race.lanes[other] : able[0] ?? lane);
}

/** The view in `box`. `ask({other})` has the model compare, `choose({place})` goes to a token of the text. */
export function compareView(box, ask, choose) {
  const plots = new Map(['overlay', 'coverage', 'reach'].map((name) => [name, h('div', {class: 'plot', 'data-figure': name, role: 'group', 'aria-label': `Figure: ${name}`})]));
  const select = h('select', {'aria-label': 'The other lane'}), button = h('button', {type: 'button', class: 'primary'}, 'Compare');
  const note = h('p', {class: 'none'}), links = h('p', {class: 'links'}), results = h('div', {hidden: true});
  const plot = (name) => h('div', {class: 'scroll'}, h('div', {class: 'layers'}, plots.get(name)));
  const said = h('ul', {class: 'said'}), differ = h('div', {class: 'scroll table'});
  results.append(links, plot('overlay'), said, plot('coverage'), plot('reach'), differ);
  box.append(h('p', {class: 'row'}, h('label', {class: 'inline'}, 'with ', select), button), note, results);
  button.addEventListener('click', () => ask({other: Number(select.value)}));
  select.addEventListener('change', () => choose({against: race.lanes[select.value].method}));
  for (const list of [links, differ]) {
    list.addEventListener('click', ({target}) => {
      const one = target.closest('[data-place]');
      if (one) chosen(Number(one.dataset.place));
    });
  }
  const trees = treePlot(plots.get('overlay')), covered = paced(plots.get('coverage'));
  let text = '', shown = '', race = null, own = null, colors = null;
  return {at, settle};

  /** Go to a token of the text; the playhead goes to its round. */
  function chosen(place) {
    choose({place, round: roundOf(own, place), node: null});
  }

  /** `place`: a token of the text; `why`: why lanes cannot be compared here, '' where they can. */
  function at(next, lane, other, place, why, Plotly, theme) {
    [race, own, colors] = [next, lane, next.themes[theme]];
    const index = race.lanes.indexOf(lane);
    const options = race.lanes.map((one, at) => [at, one]).filter(([at, one]) => at !== index && drafts(lane) && drafts(one));
    other = facing(race, lane, other);
    if (select.dataset.of !== `${race.id} ${index}`) { // else a list that is open would close
      select.dataset.of = `${race.id} ${index}`;
      select.replaceChildren(...options.map(([at, one]) => h('option', {value: at}, one.title)));
    }
    if (select.value !== String(other)) select.value = other;
    const found = lane.compared?.get(other), asking = !found && lane.compared?.has(other);
    reveal(button.parentNode, options.length > 0);
    button.disabled = Boolean(why) || asking;
    button.textContent = found ? 'Compare again' : 'Compare';
    button.classList.toggle('primary', !found);
    const alone = race.lanes.length === 1 ? 'This race has one lane: run two methods, or open several traces together.'
      : drafts(lane) ? 'No other lane of this race drafted anything: run two methods that do.' : `${lane.title} drafted nothing in this race: choose another lane.`;
    note.textContent = options.length ? why : alone;
    if (!note.textContent && !found) note.textContent = 'Both lanes draft after every token of this one’s text, and the trees are laid over one another.';
    reveal(note, Boolean(note.textContent));
    const key = `${race.id} ${lane.method} ${other} ${found?.at} ${theme} ${enlarged(box)}`;
    if (key !== text) settle();
    if (!reveal(results, Boolean(found)) || !Plotly) return '';
    const here = Math.min(place, found.tokens.length - 1);
    if (key !== text) along(found, Plotly);
    if (`${key} ${here}` !== shown) show(found, here, Plotly, key);
    [text, shown] = [key, `${key} ${here}`];
    const [first, second] = found.reach.map((reach) => reach[here]);
    return `${found.summary} After token ${here + 1} ${found.names[0]} drafts ${first} of the tokens that follow and ${found.names[1]} drafts ${second}.`;
  }

  /** Draw what is still to be drawn. */
  function settle() {
    trees.settle();
    covered.settle();
  }

  /** What is the same at every place of the text. */
  function along(found, Plotly) {
    const piece = (place) => `“${token(found, found.tokens[place])}”`;
    const named = found.telling.map((place) => h('button', {type: 'button', 'data-place': place},
      `${place + 1} ${piece(place)}${found.reach[0][place] === found.reach[1][place] ? '' : `: ${found.reach[0][place]} against ${found.reach[1][place]}`}`));
    const far = named.length && found.reach[0][found.telling[0]] === found.reach[1][found.telling[0]];
    const most = far ? 'Neither gets further anywhere; they differ most in the target’s probability that they cover, after ' : 'Where they differ most: ';
    links.replaceChildren(named.length ? most : 'They differ nowhere.', ...named);
    differ.replaceChildren(...(far || !named.length ? [] : [table(found)]));
    const {reach} = found.figures, box = plots.get('reach');
    size(box, reach.min_width, reach.layout.height);
    draw(Plotly, box, large(box, whole(reach, colors), reach.min_width), race.config).then(() => {
      if (box.dataset.clicks) return;
      box.dataset.clicks = 'yes';
      box.on('plotly_click', ({points}) => chosen(points[0].customdata));
    });
  }

  function show(found, here, Plotly, key) {
    results.dataset.after = here + 1; // for what is saved
    for (const link of links.querySelectorAll('[data-place]')) link.setAttribute('aria-current', String(Number(link.dataset.place) === here));
    for (const row of differ.querySelectorAll('tr[data-place]')) row.className = Number(row.dataset.place) === here ? 'now' : '';
    said.replaceChildren(...found.names.map((name, side) => h('li', {}, h('strong', {}, `${name}: `), found.why[side][here])));
    const nothing = {nodes: {[here]: {}}, labels: {}};
    const [overlay, coverage] = ['overlay', 'coverage'].map((name) => {
      const source = found.figures[name];
      size(plots.get(name), source.min_width, source.height);
      return fill(source, here, nothing, {}, colors);
    });
    trees.show(Plotly, overlay, null, key, colors, race.config);
    covered.later(() => draw(Plotly, plots.get('coverage'), large(plots.get('coverage'), coverage, found.figures.coverage.min_width), race.config));
  }

  /** Every place where one lane gets further than the other. */
  function table({tokens, pieces, names, reach, drafted, shared}) {
    const [first, second] = names, further = (place) => (reach[0][place] > reach[1][place] ? first : second);
    const head = ['after token', 'token', 'further', `${first}: along the text`, `${second}: along the text`, `${first}: drafted`, `${second}: drafted`, 'drafted by both'];
    const places = tokens.map((_, place) => place).filter((place) => reach[0][place] !== reach[1][place]);
    const rows = places.map((place) => h('tr', {'data-place': place},
      h('th', {scope: 'row'}, h('button', {type: 'button'}, String(place + 1))), h('td', {}, token({pieces}, tokens[place])), h('td', {}, further(place)),
      ...[reach[0], reach[1], drafted[0], drafted[1], shared].map((counts) => h('td', {}, String(counts[place])))));
    return tabled(head, rows);
  }

  function size(plot, width, height) {
    plot.style.minWidth = `${width}px`;
    plot.style.minHeight = `${height}px`;
  }
}
