// Traces from a file: chosen, or dropped anywhere on the page. The server checks them and keeps them for a while.

/** `free()`: whether a race may be opened now. `opened(id, name)` gets the race that a file has become, `say(text)` what is wrong with it. */
export function openFiles(input, free, opened, say) {
  if (input.closest('.offline')) return; // there is no server that could read it
  input.addEventListener('change', () => { send(input.files[0]); input.value = ''; });
  window.addEventListener('dragover', (event) => { if (hasFile(event)) event.preventDefault(); });
  window.addEventListener('drop', (event) => {
    if (!hasFile(event)) return;
    event.preventDefault();
    send(event.dataTransfer.files[0]);
  });

  async function send(file) {
    if (!file || !free()) return;
    say(`Reading ${file.name} …`);
    try {
      const answer = await fetch('races', {method: 'POST', body: file});
      const {id, error} = answer.ok ? await answer.json() : {error: `the server answered ${answer.status}`};
      if (!id) throw new Error(error);
      say('');
      opened(id, file.name);
    } catch (error) {
      say(`${file.name} could not be opened: ${error.message}`);
    }
  }
}

const hasFile = (event) => [...event.dataTransfer?.types ?? []].includes('Files');
