// The line that says what is the matter: until the next move, until another race comes, or until the next one.

const BRIEF = 8000; // ms

/** `say(text, until)`: a notice until the next 'move', which brings the race's own note back; until another 'race'; or
 * until the 'next', where the page lacks something, or 'soon', where it waits for something. `moved(note)` and
 * `opened(note)` tell of those. While a race is `running()` there are no moves: the notice then lasts BRIEF. What goes
 * with a move or by itself lies over the page: it would move what is below it twice. */
export function noticeView(place, running) {
  let lasts = 'move', timer = null;

  function say(text, until = 'move') {
    lasts = until === 'soon' ? 'next' : until;
    clearTimeout(timer);
    if (text && until === 'move') timer = setTimeout(() => running() && say(''), BRIEF);
    place.classList.toggle('brief', until === 'move' || until === 'soon');
    place.textContent = text;
  }

  return {
    say,
    moved: (note) => { if (lasts === 'move') say(note ?? '', 'race'); },
    opened: (note) => { if (note || lasts !== 'next') say(note ?? '', 'race'); },
  };
}
