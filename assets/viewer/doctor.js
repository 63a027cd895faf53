// The drafter doctor: what it found on a head, and the button that asks it.

import {h, show as reveal} from './dom.js';

const WHAT = 'Checks of how the head is fed and how well it knows its target, on the target’s answers to the examples.';
const MARKS = {good: '✓', suspect: '?', wrong: '✗', unknown: '–'};

/** The view at the end of `panel`. `ask(method)` has the model's head of that method examined. */
export function doctorView(panel, ask) {
  const button = h('button', {type: 'button'});
  const list = h('table', {class: 'findings'}), reason = h('small', {});
  const found = h('div', {class: 'scroll table', tabindex: 0, role: 'region', 'aria-label': 'What the doctor found'}, list);
  const box = h('div', {class: 'doctor'}, h('p', {class: 'row'}, button, reason), found);
  panel.append(box);
  button.addEventListener('click', () => ask(button.dataset.method));
  return {at};

  /** For a lane; `heads`: the methods with a head that is loaded here; `why`: why none can be examined now, or ''; `findings`
   * are those on this lane's. */
  function at(lane, heads, why, findings) {
    const about = `${lane.kind} ${lane.title} ${findings.length} ${why}`;
    if (panel.lastChild !== box) panel.append(box); // below the figures, which come when they are drawn
    if (!reveal(box, heads.includes(lane.kind)) || box.dataset.shows === about) return;
    box.dataset.shows = about;
    button.dataset.method = lane.kind;
    button.textContent = `Examine the head of ${lane.title}`;
    button.disabled = Boolean(why);
    reason.textContent = why || WHAT;
    list.replaceChildren(...findings.map(({check, verdict, text}) => h('tr', {class: verdict},
      h('td', {}, `${MARKS[verdict]} ${verdict}`), h('th', {scope: 'row'}, check), h('td', {}, text))));
    reveal(found, findings.length > 0);
  }
}
