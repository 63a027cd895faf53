// What if: a form under the round that asks for some rounds to be decoded again, with something changed.

import {h, show as reveal} from './dom.js';
import {token} from './format.js';
import {ofMethod} from './node.js';

const OF_SAMPLING = [
  {name: 'temperature', help: '0 is greedy.', kind: 'float', low: 0, high: 100},
  {name: 'top_p', help: 'Sample from the likeliest tokens with this mass.', kind: 'float', low: 0, high: 1},
  {name: 'seed', help: 'Same seed, same text.', kind: 'int', low: 0},
];
const ROUNDS = {name: 'rounds', help: 'How many rounds are decoded again.', kind: 'int', low: 1, high: 64};

const KEPT = 20;
const forms = new Map(); // by race and lane: what was filled in stays while others are looked at

/** The form in `box` for a round of a lane. `ask(request)` sends it; `why` says why that cannot be, '' where it can. */
export function whatIf(box, race, lane, round, methods, why, ask) {
  const submit = '[type=submit]';
  const key = `${race.id} ${lane.method}`;
  if (!forms.has(key)) forms.set(key, form({race: race.id, lane: race.lanes.indexOf(lane)}, lane, methods, ask));
  if (forms.size > KEPT) forms.delete(forms.keys().next().value);
  const made = forms.get(key);
  if (box.firstChild !== made) box.replaceChildren(made);
  if (made.dataset.round !== String(round)) { // the rest of the form stays as it was filled in
    made.dataset.round = round;
    made.querySelector('[name=token]').replaceChildren(...candidates(lane, round));
    made.querySelector(submit).textContent = `Decode again from round ${round + 1}`;
  }
  made.querySelector(submit).disabled = Boolean(why);
  box.querySelector('.none').textContent = why;
  reveal(box.querySelector('.none'), Boolean(why));
}

/** Holds nothing else of the lane, which may be large and is fetched anew. */
function form(asked, {kind, settings: recorded, sampling: drawn}, methods, ask) {
  const own = ofMethod(methods ?? {}, kind) ?? [];
  const inputs = new Map();
  const had = (field) => recorded[field.name] ?? field.default; // of what the run was recorded without
  const fields = [
    ...own.map((field) => control(field, had(field), inputs)),
    ...OF_SAMPLING.map((field) => control(field, drawn[field.name], inputs)),
    control(ROUNDS, 10, inputs), ...forced(inputs),
  ];
  inputs.get('expert')?.addEventListener('change', ({target}) => { // the contrastive level has both experts propose
    if (target.value !== 'all' && inputs.has('contrastive')) inputs.get('contrastive').checked = false;
  });
  const button = h('button', {type: 'submit', class: 'primary'});
  const made = h('form', {class: 'whatif'}, ...fields, button, h('p', {class: 'none'}));
  made.addEventListener('submit', (event) => { event.preventDefault(); ask(request()); });
  return made;

  function request() {
    const value = (name) => read(inputs.get(name));
    const settings = Object.fromEntries(own.filter((field) => value(field.name) !== had(field)).map(({name}) => [name, value(name)]));
    const sampling = Object.fromEntries(OF_SAMPLING.map(({name}) => [name, value(name)]));
    return {...asked, round: Number(made.dataset.round), settings, ...sampling, rounds: value('rounds'), token: value('token'), text: value('text')};
  }
}

function control({name, help, kind, choices, low, high}, value, inputs) {
  let input = null;
  if (kind === 'bool') input = h('input', {type: 'checkbox', checked: value === true});
  else if (kind === 'text') input = h('input', {type: 'text', value});
  else if (kind === 'choice') input = h('select', {}, ...choices.map((one) => h('option', {selected: one === value}, one)));
  else input = h('input', {type: 'number', value, min: low, max: high, step: kind === 'int' ? 1 : 'any', required: true});
  inputs.set(name, input);
  return h('label', {'data-help': help}, `${name} `, input);
}

/** The token after the root: as the target chose it, or one of a round's candidates. */
function candidates(lane, round) {
  const {id, parent} = lane.nodes[round];
  const children = id.filter((_, node) => parent[node] === 0);
  return [h('option', {value: ''}, 'the target chooses'), ...children.map((one) => h('option', {value: one}, token(lane, one)))];
}

function forced(inputs) {
  const select = h('select', {name: 'token'}), text = h('input', {type: 'text', name: 'text', maxlength: 1000, autocomplete: 'off'});
  select.addEventListener('change', () => { text.value = ''; });
  text.addEventListener('input', () => { select.value = ''; });
  inputs.set('token', select).set('text', text);
  return [
    h('label', {'data-help': 'Force another token after the root of this round.'}, 'next token ', select),
    h('label', {'data-help': 'Or force a text there, its leading space included.'}, 'or text ', text),
  ];
}

function read(input) {
  if (input.type === 'checkbox') return input.checked;
  if (input.type === 'number') return input.valueAsNumber;
  if (input.type === 'text') return input.value;
  return input.value === '' ? null : /^\d+$/.test(input.value) && input.options[0].value === '' ? Number(input.value) : input.value;
}
