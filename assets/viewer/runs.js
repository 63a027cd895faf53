// Live races: when they can be run, how one is followed, stopped and handed over as a race to look at.

import {show as reveal, stillness} from './dom.js';
import {liveReader} from './live.js';

const STATUS_EVERY = 1000; // ms between two questions whether the models are there

/**
 * `send(event)` reaches Python, `fetched(id)` gives a finished race, `say(text)` shows a notice.
 * Calls back: shown(race, {replay}) for a race to show, grown() for more of it, restore() for what was shown before, compared({lane, other, ..}) for a comparison, examined({method, findings}) for a doctor's report, ready() when the models are there.
 */
export function liveRuns({root, send, fetched, say, shown, grown, restore, compared, examined, ready}) {
  const run = root.querySelector('[data-do=run]'), stop = root.querySelector('[data-do=stop]');
  const reader = liveReader({started, grown, done: (id) => settle(id, !stillness(), ''), failed, compared: fetchCompared, examined: (event) => { busy(false); say(''); examined(event); }});
  let running = false, model = null, heads = [];
  askForModels();
  return {read: reader.read, stop: halt, start: () => send('run'), running: () => running, again, compare, examine, unable, heads: () => heads};

  function started(race) {
    busy(true);
    say('The lanes share one machine and take turns; the replay afterwards runs at true speed.');
    shown(race, {replay: false});
  }

  /** Decode rounds again: the answer comes as a live race's end does. */
  function again(request) {
    busy(true);
    say('Decoding again …');
    send('branch', {...request, nonce: Date.now()});
  }

  /** Compare two lanes; the answer says where to fetch what came of it. */
  function compare(request) {
    busy(true);
    say('Drafting along the text, twice …');
    send('compare', {...request, nonce: Date.now()});
  }

  /** Have the doctor look at a method's head. */
  function examine(method) {
    busy(true);
    say('Examining the head on the target’s answers to the examples …');
    send('doctor', {method, nonce: Date.now()});
  }

  async function fetchCompared({race, lane, other}) {
    try {
      const answer = await fetch(`races/${encodeURIComponent(race)}/compare/${lane}/${other}.json`);
      if (!answer.ok) throw new Error(await answer.text());
      compared({lane, other, ...await answer.json()});
      say('');
    } catch (error) {
      say(error.message);
    }
    busy(false);
  }

  /** Why a race cannot be decoded again, '' where it can. */
  function unable(race) {
    if (running) return 'The model is busy.';
    if (model === null) return 'No model is loaded here.';
    return race.model === model ? '' : `This race was recorded with ${race.model}, and the model loaded here is ${model}.`;
  }

  function halt() {
    send('stop');
    const id = reader.id();
    reader.forget();
    settle(id, false, 'Stopped: the race is shown as far as it went.');
  }

  function failed(message) {
    busy(false);
    reader.forget();
    restore();
    say(message);
  }

  /** The run is over: show its traces, or, where there are none, what was shown before. */
  async function settle(id, replay, text) {
    const race = id && await fetched(id).catch((error) => { text = error.message; });
    busy(false);
    if (race) shown(race, {replay: replay && !race.back}); else restore();
    say(race?.note ?? text);
  }

  function busy(now) {
    running = now;
    reveal(run, !running);
    reveal(stop, running);
    root.dataset.running = running ? 'yes' : 'no';
  }

  async function askForModels() {
    const status = await fetch('models.json').then((answer) => answer.json()).catch(() => ({state: 'loading', text: ''}));
    run.dataset.help = status.text;
    if (status.state === 'ready') {
      [model, heads] = [status.target, status.heads];
      run.addEventListener('able', () => able(status.state), {once: true}); // when the controls show what suits the models
      return send('ready');
    }
    root.dataset.models = status.state;
    if (status.state === 'failed') say(status.text);
    else if (status.state !== 'offline') setTimeout(askForModels, STATUS_EVERY);
  }

  function able(state) {
    run.disabled = false;
    root.dataset.models = state;
    ready();
  }
}
