// What the page says to those who do not see it change: one polite live region, shown to all where there is trouble.
const WAIT = 100; // milliseconds; a text that is put into a region at once with other changes may go unheard

let timer = 0;

/** Says a text in the region `#said`; `trouble` shows it on the page as well. */
export function say(text, trouble = false) {
  const region = document.getElementById("said");
  if (!region) return;
  clearTimeout(timer);
  region.classList.toggle("vh", !trouble);
  if (region.textContent === text) region.textContent = ""; // the same text again is said again
  timer = setTimeout(() => {
    region.textContent = text;
  }, WAIT);
}
