// The line that says what is the matter: until the next one, until another race comes, or until the next move.

/** `say(text, ofRace)`: a notice; one of the race goes when another comes (`ofRace()`). `mention(text)`: one that goes with
 * the next move (`moved(note)`), which brings the race's own `note` back. */
export function noticeView(place) {
  let race = false, passing = false;

  function say(text, ofRace = false) {
    [race, passing] = [ofRace, false];
    place.textContent = text;
  }

  return {
    say,
    ofRace: () => race,
    mention: (text) => { say(text, true); passing = true; },
    moved: (note) => { if (passing) say(note ?? '', true); },
  };
}
