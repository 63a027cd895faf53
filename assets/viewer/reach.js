// Whether the server is there while it works for this page: of a connection that is cut nobody tells.

const SILENCE = 4000; // ms without a word of it after which it is asked

/** Whether it answers. */
export const reachable = () => fetch('models.json', {signal: AbortSignal.timeout(SILENCE)}).then(() => true, () => false);

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
