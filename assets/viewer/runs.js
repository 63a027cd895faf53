// Live races: when they can be run, how one is followed, stopped and handed over as a race to look at.

import {show as reveal, stillness} from './dom.js';
import {liveReader} from './live.js';
import {gradioQueue} from './queue.js';
import {comparison, fetched} from './race.js';
import {PATIENCE, serverWatch, turnWatch} from './reach.js';

const STATUS_EVERY = 1000; // ms between two questions whether the models are there
const LOADING = 'Loading …', RUN = 'Run live'; // what the button says before it can be pressed, and then

/**
 * `send(event)` reaches Python, `answered()` is all that came of it, `say(text, until)` shows a notice. Calls back:
 * shown(race, {replay}) for a race to show, which says where it is if it is not, grown() for more of it, restore() for
 * what was shown before, compared({race, lane, other, ..}) for a comparison, examined({method, findings}) for a doctor's
 * report, ready() when the model can be asked something or no longer; written() writes a prompt where there is none, and
 * says whether it did; forget() when the prompt that was run need not be kept any more.
 */
export function liveRuns({root, send, answered, say, shown, grown, restore, compared, examined, ready, written, forget}) {
  const run = root.querySelector('[data-do=run]'), stop = root.querySelector('[data-do=stop]');
  const reader = liveReader({
    ours: (event) => (event.nonce ?? 0) === nonce,
    started, grown, done: (id) => settle(id, !stillness(), ''), failed, progressed,
    compared: fetchCompared, examined: (event) => { rest(); say(''); examined(event); },
  });
  const server = serverWatch(say), turn = turnWatch(inform), queue = gradioQueue({run, stop: () => send('stop'), missed});
  let doing = '', asked = 0, unanswered = 0; // 'race' or 'question'; how often anything was; which of it has no answer yet
  let halted = false, leaving = false; // whether the race was stopped; whether Stop is hidden, and had the keyboard's focus
  let nonce = 0; // comes with the answer to a question
  let working = '', told = ''; // what the model does for the question that is asked, what was last said of how far that is
  let asker = null; // the button or field of a view that a question was asked with by key
  let model = null, heads = [], lacking = 'The models are loading.'; // why there is no model yet, or never
  run.addEventListener('asked', () => (run.disabled ? say(run.dataset.help) : start())); // Enter in the prompt
  askForModels();
  return {read, stop: halt, start, again, compare, examine, take, unable, loaded, heads: () => heads};

  function start() {
    if (doing) return say('The model is busy with what was asked: stop that first, or wait.');
    if (written()) return void setTimeout(start); // Gradio has read by then what was written
    busy('race');
    told = '';
    turn.begin('Waiting for the model, which is busy');
    hand('run');
  }

  function read(text) {
    server.heard();
    reader.read(text);
  }

  /** Said once: it is read out. */
  function inform(text, until = 'soon') {
    if (text !== told) say(told = text, until);
  }

  /** What is asked has its answer, or will have none. */
  function met() {
    unanswered = 0;
    turn.end();
  }

  /** Send what is asked, when Gradio would take it. */
  function hand(...given) {
    queue.hand(asked, () => {
      halted = false;
      send(...given);
    });
  }

  /** Where no answer comes of what Gradio is through with, it was refused on the way. */
  function missed(own) {
    setTimeout(() => {
      if (own === unanswered) reader.read(answered()); // should it not have been told of the last word
      if (own !== unanswered) return;
      rest();
      say('The server took nothing on: too many are waiting, or it is out of reach. Try again.');
    }, PATIENCE);
  }

  function started(race) {
    if (halted) return reader.forget(); // stopped before it began
    if (doing !== 'race') busy('race');
    met();
    say('');
    shown(race, {replay: false});
  }

  /** Decode rounds again: the answer comes as a live race's end does. */
  function again(request) { ask('branch', request, 'Decoding again'); }

  /** Compare two lanes; the answer says where to fetch what came of it. */
  function compare(request) { ask('compare', request, 'Drafting along the text, twice'); }

  /** Have the doctor look at a method's head. */
  function examine(method) {
    ask('doctor', {method}, 'Examining the head on the target’s answers to the examples');
  }

  /** Have the settings of a race that is over put into the panel; the answer stands there. */
  function take(request) { send('take', request); }

  function ask(name, request, text) {
    busy('question', document.activeElement.matches('[data-part=views] :is(button, input)') ? document.activeElement : null);
    nonce = Date.now();
    [working, told] = [text, ''];
    inform(`${text}, when the model is free …`);
    turn.begin(`${text}, when the model is free`);
    hand(name, {...request, nonce});
  }

  /** In steps that one can bear to hear: they are read out. */
  function progressed(share) {
    turn.end();
    if (share >= 0.1) inform(`${working}: ${10 * Math.floor(10 * share)} %`);
  }

  async function fetchCompared({race, lane, other}) {
    const own = asked;
    met();
    try {
      const found = await comparison(race, lane, other);
      if (!found) throw new Error('What came of it is not kept any more: compare the lanes again.');
      if (own !== asked) return;
      rest();
      say('');
      compared({race, lane, other, ...found});
    } catch (error) {
      if (own !== asked) return;
      rest();
      say(error.message);
    }
  }

  /** Why a run of a model cannot be decoded again, '' where it can. */
  function unable(run) {
    if (doing) return doing === 'race' ? 'A race is running.' : 'The model works on what was asked.';
    if (model === null) return lacking;
    return loaded(run) ? '' : `This race was recorded with ${run.model}, and the model loaded here is ${model}.`;
  }

  /** Whether a run is of the model that is loaded. */
  function loaded(run) { return run.model === model; }

  function halt() {
    if (!doing) return;
    if (doing === 'question') { // the answer, if it is still worked on, is not waited for
      if (queue.held() === asked) queue.cancel(); // else it was never sent
      rest();
      return say('Stopped: not waiting for the answer.');
    }
    halted = true;
    queue.drop();
    say('Stopping …');
    if ([0, asked].includes(queue.held())) queue.cancel(); // else it was never sent
    const id = reader.id();
    reader.forget();
    settle(id, false, id ? 'Stopped: the race is shown as far as it went.' : 'Stopped before the race began.');
  }

  async function failed(message) {
    rest();
    reader.forget();
    await restore(); // which has something to say of the race that it shows
    say(message);
  }

  /** The run is over: show its traces, or, where there are none, what was shown before. */
  async function settle(id, replay, text) {
    const own = asked;
    met();
    leaving = stop.matches(':focus-visible');
    reveal(stop, false);
    let gone = null; // of a race that was stopped so early that there is nothing of it
    const waits = setTimeout(() => own === asked && !text && say('The race is over; its trees are being prepared …', 'soon'), PATIENCE);
    const race = id && await fetched(id).catch((error) => {
      gone = error.gone ? id : null;
      text = gone ? (replay ? error.message : 'Stopped before its first token.') : `${error.message} The race is kept: choose it in the list.`;
    });
    clearTimeout(waits);
    if (own !== asked) return;
    rest();
    if (race) forget();
    const listed = race && shown(race, {replay: replay && !race.back});
    if (!race) await restore(gone);
    say(listed || (race?.note ?? text), race ? 'race' : 'move');
  }

  /** The model works for this page, or is to; `from` is the button or field of a view that asks. Gives the number of what is asked. */
  function busy(what, from = null) {
    const focused = leaving || [run, stop, from].some((button) => button?.matches(':focus-visible')); // by the keyboard's focus
    leaving = false;
    if (from) asker = from;
    doing = what;
    queue.drop();
    nonce = 0;
    if (doing) server.begin(); else server.end();
    reveal(run, !doing);
    reveal(stop, Boolean(doing));
    if (focused) (doing ? stop : run).focus();
    if (focused && !doing && asker) back(asker);
    if (!doing) asker = null;
    root.dataset.running = doing ? 'yes' : 'no';
    ready();
    met();
    asked += 1;
    if (doing) unanswered = asked;
    return asked;
  }

  function rest() { busy(''); }

  /** The focus goes back to where something was asked, once that can be asked again; or to the round where it is gone. */
  function back(button) {
    requestAnimationFrame(() => requestAnimationFrame(() => {
      if (document.activeElement !== run) return; // somebody moved on
      const there = button.getClientRects().length && !button.disabled;
      (there ? button : root.querySelector('[data-part=title]')).focus();
    }));
  }

  async function askForModels() {
    const status = await fetch('models.json').then((answer) => answer.json()).catch(() => ({state: 'loading', text: ''}));
    run.dataset.help = status.text;
    lacking = status.text || lacking;
    if (status.state === 'ready') {
      [model, heads] = [status.target, status.heads];
      run.addEventListener('able', able, {once: true}); // when the controls show what suits the models
      run.addEventListener('unable', () => setTimeout(() => send('ready'), STATUS_EVERY)); // races would have other trees
      [run.dataset.help, run.textContent] = ['The controls are being prepared.', LOADING];
      return send('ready');
    }
    root.dataset.models = status.state;
    run.textContent = status.state === 'loading' ? LOADING : RUN;
    if (status.state === 'loading') return setTimeout(askForModels, STATUS_EVERY);
    if (status.state === 'failed') say(status.text, 'next');
    ready();
  }

  function able() {
    run.disabled = false;
    run.dataset.help = ''; // what was to be waited for is there
    run.textContent = RUN;
    root.dataset.models = 'ready';
    ready();
  }
}
