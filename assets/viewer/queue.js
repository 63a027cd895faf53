// What is asked of Gradio: one thing at a time, of which it is through only when it says so.

const QUIET = 300; // ms without a word of Gradio after which it is through with a stop

/** `stop()` has Gradio stop what it has, `missed(own)` is told where it is through with that and nothing else waits; `run`
 * is the button that it tells. `hand(own, ask)` calls `ask()` for what has the number `own`, as soon as Gradio would take
 * it; `held()` is the number of what it has, or 0. */
export function gradioQueue({run, stop, missed}) {
  let has = 0, waiting = null, stopped = false, quiet = 0; // hands over the next; whether Gradio was told to stop what it has; the timer of its last word on that
  let joining = false, stopping = false; // whether its server has yet to say how it calls what Gradio has, and what is to be stopped then
  run.addEventListener('over', () => through(QUIET));
  run.addEventListener('failed', () => through(10 * QUIET));
  new PerformanceObserver((list) => list.getEntries().some(({name}) => new URL(name).pathname.endsWith('/queue/join')) && setTimeout(joined)).observe({type: 'resource'});
  return {hand, cancel, held: () => has, drop: () => { waiting = null; }};

  /** Where Gradio is not yet through with what was stopped, then: until then it would drop this. */
  function hand(own, ask) {
    waiting = () => {
      [has, waiting, joining, stopping] = [own, null, true, false];
      ask();
    };
    if (!has) waiting();
  }

  function joined() {
    joining = false;
    if (stopping) cancel();
  }

  /** Stop what Gradio has, which it can only when it knows how its server calls that. */
  function cancel() {
    stopping = joining;
    if (joining) return;
    stopped = has > 0;
    stop();
  }

  /** Gradio is through with what it has. After a stop it says so three times, last of all that it is over: what is handed over before would be taken for what was stopped. */
  function through(wait) {
    if (!stopped) return over();
    clearTimeout(quiet);
    quiet = setTimeout(over, wait);
  }

  function over() {
    const own = has;
    [has, joining, stopped] = [0, false, false];
    if (!own) return;
    if (waiting) setTimeout(() => has || waiting?.());
    else missed(own);
  }
}
