// Traces from files: chosen, or dropped anywhere on the page. The server checks them and keeps them for a while.

import {reached} from './race.js';

const NAMED = 3; // files that are named; of more, how many there are

/** `free()`: whether a race may be opened now. `opened(id, name, late)` gets the race that files have become, and whether
 * others have been sent since, `say(text)` what is wrong with them. Several files become one race: every command that
 * records writes one file a method. */
export function openFiles(input, free, opened, say) {
  if (input.closest('.offline')) return; // there is no server that could read it
  let sent = 0; // how often: of two the later is shown, whichever is read first
  input.addEventListener('change', () => { send([...input.files]); input.value = ''; });
  window.addEventListener('dragover', (event) => { if (hasFile(event)) event.preventDefault(); });
  window.addEventListener('drop', (event) => {
    if (!hasFile(event)) return;
    event.preventDefault();
    send([...event.dataTransfer.files]);
  });

  async function send(files) {
    if (!files.length || !free()) return;
    const name = files.length > NAMED ? `${files.length} files` : files.map((file) => file.name).join(', ');
    say(`Reading ${name} …`, 'soon');
    const own = sent += 1;
    try {
      await Promise.all(files.map((file) => file.slice(0, 1).arrayBuffer())).catch(() => { throw new Error('it is a folder, or cannot be read: choose the files themselves.'); });
      const answer = await reached('races', {method: 'POST', body: new Blob(files.flatMap((file) => [file, '\n']))});
      const {id, error} = answer.ok ? await answer.json() : {error: `the server answered ${answer.status}`};
      if (!id) throw new Error(error);
      if (own === sent) say('');
      opened(id, name, own !== sent);
    } catch (error) {
      say(`${name} could not be opened: ${error.message}`);
    }
  }
}

const hasFile = (event) => [...event.dataTransfer?.types ?? []].includes('Files');
