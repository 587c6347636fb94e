// While `<main data-poll="2">` is set, the page is read again every so many seconds, and its `data-live` elements
// become those of the answer. It rests while nobody looks, and is slower where the page is slow or no server answers.
import { AWAY, LOCKED, read } from "./answers.js";
import { isBusy, morph } from "./morph.js";
import { say } from "./said.js";

const SHARE = 4; // the page takes at most a quarter of the time
const LONGEST = 30; // seconds between two tries while no server answers
const QUIET = 30_000; // milliseconds between two words of the same state

let fails = 0;
let timer = 0;
let saidAt = 0;
let round = 0;

const main = () => document.querySelector("main");
const seconds = () => Number(main()?.dataset.poll) || 0;

/** Reads the page again at its time; another call puts that off. */
export function schedule(took = 0) {
  clearTimeout(timer);
  if (!seconds()) return;
  const pause = fails ? Math.min(seconds() * 2 ** fails, LONGEST) : Math.max(seconds(), (SHARE * took) / 1000);
  timer = setTimeout(look, pause * 1000);
}

/** Lets an answer that is under way count for nothing, since the page has changed meanwhile. */
export function overtake() {
  round += 1;
  schedule();
}

async function look() {
  if (document.hidden || !seconds()) return;
  const began = performance.now();
  const mine = ++round;
  try {
    const answer = await read(location.href);
    if (mine === round) take(answer);
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    fails += 1;
    if (fails > 1) say(AWAY, true); // the first time may be a start of the server
  }
  if (mine === round) schedule(performance.now() - began);
}

function take({ page, status }) {
  if (status === 403 || status === 404) {
    delete main().dataset.poll;
    say(status === 403 ? LOCKED : "This is no longer in the store.", true);
    return;
  }
  if (status !== 200 || !page.querySelector("main#main")) {
    fails += 1;
    say("The server reports an error; trying again.", true);
    return;
  }
  if (fails) say("The server answers again.");
  fails = 0;
  put(page);
}

function put(page) {
  const before = main().dataset.state;
  for (const old of document.querySelectorAll("[data-live][id]")) {
    if (!old.isConnected || old.parentElement.closest("[data-live]")) continue;
    const fresh = page.getElementById(old.id);
    if (fresh) morph(old, fresh, true);
    else if (!isBusy(old)) old.remove();
  }
  for (const name of ["poll", "state", "said"]) {
    const value = page.querySelector("main")?.dataset[name];
    if (value === undefined) delete main().dataset[name];
    else main().dataset[name] = value;
  }
  document.title = page.title;
  const words = main().dataset.said;
  if (words && (main().dataset.state !== before || performance.now() - saidAt > QUIET)) {
    saidAt = performance.now();
    say(words);
  }
  dispatchEvent(new Event("studio:changed"));
}

addEventListener("visibilitychange", () => {
  if (!document.hidden && seconds()) look();
});
saidAt = performance.now();
schedule();
