// A race that runs: lines of JSON that only grow become a race that only grows.

import {addTokens, fromStart, summarised} from './race.js';

/** `read(text)` takes everything so far, of it what is `ours(event)`. Calls back: started(race), grown(), done(id), failed(message), progressed(share), compared(event), examined(event). */
export function liveReader({ours, started, grown, done, failed, progressed, compared, examined}) {
  let seen = '', race = null;

  return {read, forget: () => { race = null; }, id: () => race?.id ?? null};

  function read(text) {
    if (typeof text !== 'string' || !text || text === seen) return; // of a crowded server Gradio may lose the beginning: then it gives no text
    const fresh = text.startsWith(seen) ? text.slice(seen.length) : text;
    seen = text;
    let grew = false;
    for (const line of fresh.split('\n')) {
      if (line) grew = take(JSON.parse(line)) || grew;
    }
    if (grew && race) { summarised(race); grown(); }
  }

  /** True if tokens came. */
  function take(event) {
    if (!ours(event)) return false; // the answer to a question that is not waited for any more
    if (event.event === 'start') started(race = fromStart(event));
    else if (event.event === 'tokens' && race) { addTokens(race, event); return true; }
    else if (event.event === 'done') { race = null; done(event.race); }
    else if (event.event === 'progress') progressed(event.done);
    else if (event.event === 'compared') compared(event);
    else if (event.event === 'examined') examined(event);
    else if (event.event === 'error') failed(event.message);
    return false;
  }
}
