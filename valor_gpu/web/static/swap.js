// `data-swap="ID [ID ...]"` on a link or a form: its page is read in place, and these elements become those of the
// answer. Links and forms that only read set the address; what is refused stays as it was typed, with the reason.
import { AWAY, problem, read } from "./answers.js";
import { overtake } from "./live.js";
import { morph } from "./morph.js";
import { say } from "./said.js";

const swapped = new Set(); // all ids of this page that were ever swapped, for the way back
let newest = 0;

addEventListener("click", (event) => {
  const link = event.target.closest?.("a[data-swap]");
  const special = event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey;
  if (!link || special || event.defaultPrevented || link.origin !== location.origin) return;
  event.preventDefault();
  swap(link.href, link.dataset.swap, { trigger: link });
});

addEventListener("submit", (event) => {
  const form = event.target;
  if (!form.dataset.swap || event.defaultPrevented) return;
  event.preventDefault();
  send(form, event.submitter);
});

addEventListener("popstate", (event) => {
  if (event.state?.swapped) swap(location.href, outermost().join(" "), { push: false });
});

/** Ids of the swapped parts of the page that lie in no other one. */
function outermost() {
  const parts = [...swapped].map((id) => document.getElementById(id)).filter(Boolean);
  return parts.filter((each) => !parts.some((other) => other !== each && other.contains(each))).map((each) => each.id);
}

/** Reads an address and swaps elements; leads to it as any link where it lacks one of them. */
export async function swap(address, ids, { trigger = null, push = true } = {}) {
  const mine = ++newest;
  const sent = typed(trigger);
  let done = false;
  mark(trigger, true);
  if (sent !== null) refuse(trigger, "");
  try {
    const answer = await read(address);
    if (mine !== newest) return;
    if (answer.status >= 400 && sent !== null) refuse(trigger, problem(answer.page));
    else if (answer.status !== 200 || !put(answer.page, ids, trigger, sent)) lead(address);
    else {
      done = true;
      if (push) remember(address, answer.address);
    }
    if (answer.status === 200) settle(address);
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    say(AWAY.split(";")[0] + ".", true);
  } finally {
    settled(trigger, done);
  }
}

async function send(form, submitter) {
  const data = new FormData(form, submitter);
  const action = new URL(submitter?.getAttribute("formaction") ?? form.getAttribute("action") ?? "", location.href);
  if (form.method === "get") {
    action.search = new URLSearchParams([...data].filter(([, value]) => value !== "")).toString();
    await swap(action.href, form.dataset.swap, { trigger: form });
    return;
  }
  if (form.ariaBusy === "true") return;
  const mine = ++newest;
  const sent = typed(form);
  let done = false;
  mark(form, true);
  refuse(form, "");
  try {
    const body = form.enctype === "multipart/form-data" ? data : new URLSearchParams(data);
    const answer = await read(action.href, { method: "POST", body });
    if (answer.status >= 400) refuse(form, problem(answer.page));
    else if (mine !== newest || put(answer.page, form.dataset.swap, form, sent)) done = true;
    else location.assign(answer.address);
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    refuse(form, "The server does not answer. What you typed is still here; try again.");
  } finally {
    settled(form, done);
  }
}

/** Leads to an address as any link does; a page that has it already is read again. */
function lead(address) {
  const isHere = new URL(address, location.href).href.split("#")[0] === location.href.split("#")[0];
  location.assign(address);
  if (isHere) location.reload(); // an address that differs in its part behind the # alone asks no server
}

/** What the fields of a form say; null for a link. */
function typed(form) {
  return form?.tagName === "FORM" ? JSON.stringify([...new FormData(form)]) : null;
}

/**
 * Puts the elements of an answer in their places; false where one is missing, and then nothing is changed.
 * `sent` is what the trigger said when it was sent: what was typed since then stays.
 */
function put(page, ids, trigger, sent) {
  const wanted = ids.split(/\s+/).filter(Boolean);
  const pairs = wanted.map((id) => [id, document.getElementById(id), page.getElementById(id)]);
  if (pairs.length === 0 || pairs.some(([, old, fresh]) => !old || !fresh)) return false;
  if (sent !== null && typed(trigger) === sent) trigger.reset(); // what was typed has been taken
  const focus = trail(document.activeElement);
  const anchor = trigger?.closest("[id]");
  const top = anchor?.getBoundingClientRect().top;
  const words = page.getElementById("said")?.textContent.trim() || pairs.map(([, , f]) => f.dataset.said).find(Boolean);
  for (const [id, old, fresh] of pairs) {
    swapped.add(id);
    morph(old, fresh);
  }
  document.title = page.title;
  if (focus && !document.activeElement?.closest(`#${CSS.escape(pairs[0][0])}`)) restore(focus, pairs[0][0]);
  if (anchor?.isConnected) scrollBy({ top: anchor.getBoundingClientRect().top - top, behavior: "instant" });
  say(words || "The page shows what you asked for.");
  overtake();
  dispatchEvent(new Event("studio:changed"));
  return true;
}

/** Where an element is: the nearest element with an id, and its number among what can have the focus there. */
function trail(element) {
  if (!element || element === document.body) return null;
  if (element.id) return { id: element.id, number: -1 };
  const around = element.closest("[id]");
  return around && { id: around.id, number: focusable(around).indexOf(element) };
}

function focusable(element) {
  return [...element.querySelectorAll("a[href], button, input:not([type=hidden]), select, textarea, summary")];
}

/** Gives the focus back to what an element has become; to the part that was swapped where that is gone. */
function restore({ id, number }, swappedId) {
  const around = document.getElementById(id);
  const same = number < 0 ? around : around && focusable(around)[number];
  const found = same ?? document.querySelector(`#${CSS.escape(swappedId)} [autofocus]`);
  if (found) {
    found.focus({ preventScroll: true });
  } else {
    const part = document.getElementById(swappedId);
    part.tabIndex = -1;
    part.focus({ preventScroll: true });
  }
}

function remember(asked, came) {
  const address = came + new URL(asked, location.href).hash;
  history.replaceState({ swapped: true }, "");
  history.pushState({ swapped: true }, "", address);
}

/** Shows the part that an address names, where its beginning is out of sight. */
function settle(address) {
  const id = decodeURIComponent(new URL(address, location.href).hash.slice(1));
  const target = id && document.getElementById(id);
  if (!target) return;
  const { top } = target.getBoundingClientRect();
  if (top < 0 || top > innerHeight) target.scrollIntoView({ block: "start", behavior: "instant" });
}

/** Shows at a form why it was refused; an empty text takes that away. */
function refuse(form, text) {
  let place = form.querySelector("[data-refused]");
  if (!text) {
    place?.remove();
    return;
  }
  if (!place) {
    place = document.createElement("p");
    place.className = "small bad";
    place.dataset.refused = "";
    place.setAttribute("role", "alert");
    form.append(place);
  }
  place.textContent = text;
}

/** Ends the wait for an answer; `done` where the answer is in its place, or was taken. */
function settled(trigger, done) {
  mark(trigger, false);
  dispatchEvent(new CustomEvent("studio:settled", { detail: done }));
}

function mark(element, busy) {
  if (!element) return;
  if (busy) element.setAttribute("aria-busy", "true");
  else element.removeAttribute("aria-busy");
}
