// Whether the server is there while it works for this page: of a connection that is cut nobody tells. And how long its queue is.

export const PATIENCE = 700; // ms after which the page says that it waits, or that no answer comes
const SILENCE = 4000; // ms without a word of it after which it is asked

const ask = (path) => fetch(path, {signal: AbortSignal.timeout(SILENCE)});

/** Whether it answers. */
const reachable = () => ask('models.json').then(() => true, () => false);

/** How much of all visitors waits in its queue; null where it does not answer. */
const queued = () => ask('gradio_api/queue/status').then((answer) => answer.json()).then((queue) => queue.queue_size, () => null);

/** `say(text, until)` tells what waits for its turn from `begin(text)` to `end()`, and before how many: of those in the
 * queue some may have come later, so it is told of fewer as time goes on, never of more. */
export function turnWatch(say) {
  let timer = null;
  return {begin, end};

  function begin(text, before = Infinity) {
    const own = timer = setTimeout(async () => {
      const size = await queued();
      if (own !== timer) return;
      const most = Math.min(before, size ?? before);
      if (most === Infinity) say('The server cannot be reached: is the network there?', 'next');
      else say(`${text}${['', ': at most one is before you'][most] ?? `: at most ${most} are before you`} …`, 'soon');
      begin(text, most);
    }, before === Infinity ? PATIENCE : SILENCE);
  }

  function end() {
    clearTimeout(timer);
    timer = null;
  }
}

/** `say(text, until)` tells where it is out of reach. `begin()` and `end()` say when it works, `heard()` when it said something. */
export function serverWatch(say) {
  let timer = null, last = 0, lost = false;
  return {begin, end, heard};

  function begin() {
    end();
    timer = setInterval(look, SILENCE);
  }

  function end() {
    clearInterval(timer);
    [timer, lost] = [null, false];
  }

  function heard() {
    last = performance.now();
    found(true);
  }

  async function look() {
    const own = timer;
    if (performance.now() - last < SILENCE) return;
    const there = await reachable();
    if (own === timer) found(there);
  }

  function found(there) {
    if (lost !== there) return;
    lost = !there;
    say(lost ? 'The server cannot be reached: what it worked on may be lost. Stop leads back to what was shown before.' : '', 'next');
  }
}
