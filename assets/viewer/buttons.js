// What buttons and keys do.

import {bindKeys, fillHelp, settings, share, theme, toggleTheme} from './actions.js';
import {facing} from './compare.js';
import {store, stored} from './dom.js';
import {move} from './moves.js';
import {picture} from './pictures.js';
import {TABS, WHOLE} from './round.js';
import {address} from './state.js';
import {tour} from './tour.js';
import {rival} from './transport.js';

const ASKED = 'jakiro-asked';
const AWAITED = 'jakiro-awaited'; // in the session's storage: the prompt that was run last; the same until its race is there

/** Bind all of them. `view` has the race, the lane and the state that are shown now, and what changes them: `go(change)`,
 * `open(id, change)`, `choose(id)`, `presenting()` while a race runs, and `redrawNow()` for what is due in this frame.
 * The rest are parts of the viewer. Gives `act(name, argument)`, which does what a button does, `written()`, `lost()` and `forget()`. */
export function bindButtons({root, part, props, view, live, timeline, benchmarks, say}) {
  const viewer = root.closest('#viewer');
  const over = () => (view.race && !view.race.running ? {race: view.race, state: view.state} : null);
  const guide = tour(part, root, over, view.go, say);
  const openSettings = settings(root.querySelector('[data-do=settings]'));
  const run = root.querySelector('[data-do=run]');
  let due = AWAITED; // which prompt is written again
  let pointed = false; // whether what was done last was done with a pointer, not with a key

  fillHelp(part('help-text'));
  bindKeys(act);
  root.addEventListener('click', clicked);
  run.addEventListener('take', () => act('take')); // a button of Gradio's
  run.addEventListener('able', rewrite, {once: true}); // before, Gradio may still empty the prompt
  for (const name of ['pointerdown', 'keydown']) root.addEventListener(name, () => { pointed = name === 'pointerdown'; }, true);
  root.addEventListener('change', letGo);
  document.addEventListener('pointerdown', ({target}) => { if (!part('export').contains(target)) closeMenu(); });
  part('export').addEventListener('focusout', ({relatedTarget}) => { if (relatedTarget && !part('export').contains(relatedTarget)) closeMenu(); });
  return {act, written, lost, forget};

  /** A list in which something was chosen by mouse would take the keys that follow: as type-ahead, not as the page's; a
   * button that was pressed by mouse would take Space. */
  function letGo({target}) {
    if (target.matches('select') && pointed) target.blur();
  }

  function clicked(event) {
    if (event.target.closest('.menu a, .menu button')) closeMenu();
    const name = event.target.closest('[data-do]')?.dataset.do;
    if (event.detail > 1 && ['run', 'stop'].includes(name)) return; // the second of a double click: the one stands where the other was
    if (name) {
      act(name);
      if (pointed && document.activeElement === event.target.closest('button')) document.activeElement.blur();
      return;
    }
    const example = event.target.closest('.gallery-item')?.textContent.trim();
    const recorded = example && props.races.find((one) => one.title === example);
    if (!recorded) return;
    write(recorded.prompt); // as Gradio will, when it has asked its server: who runs it at once means this one
    if (view.race?.running) say('The example is in the prompt; its recorded race can be chosen when this one is over.');
    else view.choose(recorded.id); // an example that was recorded is shown at once
  }

  function write(prompt) {
    const box = viewer.querySelector('#prompt textarea');
    box.value = prompt;
    box.dispatchEvent(new Event('input', {bubbles: true}));
  }

  /** Where no prompt is written, that of the race shown is run, if it is as somebody wrote it; true where it has just
   * been written. Without one the server says what to do. */
  function written() {
    const box = viewer.querySelector('#prompt textarea'), {race} = view;
    if (box.value) [ASKED, AWAITED].forEach((name) => store('sessionStorage', name, box.value));
    if (box.value || !race?.prompt || race.written === false) return false;
    write(race.prompt);
    return true;
  }

  /** The race that was asked for is there: its prompt is part of it. */
  function forget() { store('sessionStorage', AWAITED, ''); }

  /** A race is not there any more: the prompt that it was asked with is. */
  function lost() {
    due = ASKED;
    rewrite();
  }

  function rewrite() {
    const asked = stored('sessionStorage', due);
    if (asked && viewer.querySelector('#prompt textarea')?.value === '') write(asked);
  }

  function act(name, argument) {
    const {race, state} = view;
    const always = {
      run: live.start, stop: live.stop, theme: toggleTheme, help,
      whole: async () => {
        const focused = part('back').matches(':focus-visible');
        await view.open(race.back.race, {...race.back, node: null, place: null, against: '', tab: 'whatif'});
        if (focused) part('title').focus();
      },
      file: () => part('file').click(),
      again: () => view.open(state.race),
      share: () => share(race, address(state), say),
      take: () => (over() ? live.take({race: race.id, lane: race.lanes.indexOf(view.lane)}) : say('Its settings can be taken when the race is over.')),
      tour: () => { part('help').close(); guide(); },
      escape: () => { if (part('export').open) { closeMenu(); part('export').querySelector('summary').focus(); } else if (viewer.classList.contains('presenting')) act('present'); },
      png: () => save('png'), svg: () => save('svg'),
      export: () => {
        if (!part('export').getClientRects().length) return; // in a talk, or while a race runs
        part('export').open = !part('export').open;
        part('export').querySelector('summary').focus();
      },
      settings: openSettings,
    };
    if (always[name]) return always[name]();
    if (name === 'present' && race?.running) return view.presenting();
    if (!race || race.running) return;
    if (view.lane?.method !== state.method) view.redrawNow(); // due in this frame: a key that is earlier still counts
    const {lane} = view;
    if (name === 'round') toRound();
    else if (name === 'play') timeline.toggle(race, lane, state);
    else if (name === 'replay') timeline.toggle(race, lane, state, null); // and then the round that a race opens with
    else move(name, argument, {race, lane, state}, view.go, say);
  }

  function closeMenu() { part('export').open = false; }

  function save(format) {
    const {race, lane, state} = view;
    const plots = root.querySelectorAll(`[data-view=${state.tab}] .plot[data-drawn=yes]`);
    const plot = [...plots].find((one) => one.offsetParent); // what another lane has and this one has not is hidden
    if (!plot) return say('This view has no figure to save: choose another.');
    const whole = state.tab in WHOLE, {after} = plot.closest('[data-after]')?.dataset ?? {};
    const round = after ? ` · after token ${after}` : whole ? '' : ` · round ${state.round + 1}`;
    const other = state.tab === 'compare' ? ` and ${race.lanes[facing(race, lane, rival(race, lane, state))].title}` : '';
    const name = [race.id, lane.method, after ? `token${after}` : whole ? '' : `round${state.round + 1}`, state.tab].filter(Boolean).join('-');
    const reading = state.tab === 'tree' ? [...part('reading').children].map((one) => one.textContent) : [];
    const {prompt, model, device, date} = lane.about;
    const shown = ['tree', 'compare'].includes(state.tab) ? '' : ` · ${TABS.find(({key}) => key === state.tab).title.toLowerCase()}`;
    picture(plot, format, name, race.themes[theme()], `${lane.title}${other}${round}${shown} · ${prompt}`, [...reading, model, device, date].filter(Boolean).join(' · '));
  }

  function toRound() {
    part('title').focus();
    part('title').scrollIntoView();
  }

  function help() {
    if (part('help').open) return part('help').close();
    part('help').showModal();
    benchmarks.experiments().then((found) => part('findings').replaceChildren(...found), (error) => { part('findings').textContent = error.message; });
  }
}
