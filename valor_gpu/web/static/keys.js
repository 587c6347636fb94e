// Keys: those of the page (`data-key` on links and buttons) and the same ones everywhere. Single letters count outside
// of fields alone, and can be switched off in the help (WCAG 2.1.4).
import { say } from "./said.js";

const OFF = "studio-keys-off";
const TICKS = "[type=checkbox], [type=radio], [type=button], [type=submit]";
const FIELDS = `input:not(${TICKS}), select, textarea, [contenteditable]`;

const rows = () => [...document.querySelectorAll("tr[data-row]")].filter((each) => each.checkVisibility());
const here = () => document.querySelector("tr[data-row].here");
const linkOf = (row) => row?.querySelector("a.row, th a, a[href]");
const search = () => document.querySelector("main input[type=search]");
const opinion = () => document.querySelector("form[data-feedback], form[action$='/feedback']");
const ofPage = () => [...document.querySelectorAll("[data-key]")].filter((each) => each.checkVisibility());
const named = (key) => ofPage().find((each) => each.dataset.key === key);
const isOff = () => localStorage.getItem(OFF) === "1";

const inFlight = () => document.querySelector("[data-swap][aria-busy=true]") !== null;

const ahead = []; // keys of the page that were pressed before the answer to an earlier one had come
let annotateNext = false;

function stand(row) {
  for (const each of document.querySelectorAll("tr.here")) if (each !== row) each.classList.remove("here");
  row.classList.add("here");
}

function go(step) {
  const all = rows();
  const at = all.indexOf(here());
  const next = all[at < 0 ? (step > 0 ? 0 : all.length - 1) : at + step];
  if (!next) {
    say(step > 0 ? "This is the last row of the page." : "This is the first row of the page.");
    return;
  }
  stand(next);
  linkOf(next)?.focus({ preventScroll: true });
  next.scrollIntoView({ block: "nearest", behavior: "instant" });
}

function open() {
  linkOf(here())?.click();
}

function annotate() {
  const form = opinion();
  const chosen = form?.querySelector("[type=radio]:checked:not([value=''])");
  const field = chosen ?? form?.querySelector("select, input:not([type=hidden]), textarea");
  if (field) {
    field.focus();
    field.scrollIntoView({ block: "nearest", behavior: "instant" });
  } else if (here()) {
    annotateNext = true;
    open();
  }
}

/** Leaves a field, then the open row. */
function leave(target) {
  if (target.matches?.(FIELDS)) {
    const row = target.closest("tr.detail")?.previousElementSibling ?? here();
    target.blur();
    linkOf(row)?.focus({ preventScroll: true });
    return;
  }
  const link = document.querySelector("tr.open[data-row] a[aria-expanded=true]");
  if (link) {
    stand(link.closest("tr"));
    link.focus({ preventScroll: true });
    link.click();
  }
}

const FIXED = [
  { keys: ["/"], words: "Search", here: () => search(), press: () => search().focus() },
  { keys: ["j"], words: "Next row", here: () => rows().length, press: () => go(1) },
  { keys: ["k"], words: "Row before", here: () => rows().length, press: () => go(-1) },
  { keys: ["o", "Enter"], words: "Open or close the row", here: () => rows().length, press: open },
  { keys: ["e"], words: "Say what you think of the open row", here: () => opinion() || rows().length, press: annotate },
];

function known() {
  const own = ofPage().filter((each) => each.id !== "help");
  const wordsOf = (each) => each.dataset.keyWords || each.ariaLabel || each.textContent.trim();
  const pressed = new Map(own.map((each) => [each.dataset.key, wordsOf(each)]));
  const fixed = FIXED.filter((each) => each.here() && !pressed.has(each.keys[0]));
  const general = fixed.map((each) => [each.keys.join(" or "), each.words]);
  return [...general, ...pressed, ["Esc", "Leave a field, a menu or the open row"], ["?", "This help"]];
}

function help() {
  document.getElementById("keys")?.remove();
  const dialog = document.createElement("dialog");
  dialog.id = "keys";
  dialog.setAttribute("aria-labelledby", "keys-title");
  const title = Object.assign(document.createElement("h2"), { id: "keys-title", textContent: "Keys of this page" });
  const list = document.createElement("dl");
  for (const [key, words] of known()) {
    const term = document.createElement("dt");
    term.append(Object.assign(document.createElement("kbd"), { textContent: key }));
    list.append(term, Object.assign(document.createElement("dd"), { textContent: words }));
  }
  const close = Object.assign(document.createElement("button"), { textContent: "Close", autofocus: true });
  close.addEventListener("click", () => dialog.close());
  dialog.append(title, list, toggle(), close);
  const before = document.activeElement;
  dialog.addEventListener("close", () => {
    dialog.remove();
    before?.focus({ preventScroll: true });
  });
  document.body.append(dialog);
  dialog.showModal();
}

function toggle() {
  const label = document.createElement("label");
  const box = Object.assign(document.createElement("input"), { type: "checkbox", checked: !isOff() });
  box.addEventListener("change", () => localStorage.setItem(OFF, box.checked ? "0" : "1"));
  label.append(box, " Single-key shortcuts are on");
  return label;
}

addEventListener("keydown", (event) => {
  const { key, target } = event;
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || event.defaultPrevented) return;
  if (document.querySelector("dialog[open]")) return;
  if (key === "Escape") {
    leave(target);
    return;
  }
  if (target.matches?.(FIELDS)) return;
  const inRow = target.closest?.("tr[data-row]");
  if (inRow && (key === "ArrowDown" || key === "ArrowUp") && !target.matches("input")) {
    event.preventDefault();
    go(key === "ArrowDown" ? 1 : -1);
    return;
  }
  if (key.length !== 1 || isOff()) return;
  const pressed = named(key);
  const fixed = FIXED.find((each) => each.keys[0] === key && each.here());
  const later = inFlight() && (pressed || (!fixed && /\w/.test(key))); // the page to come may know the key
  if (!pressed && !fixed && !later) return;
  event.preventDefault();
  if (later) ahead.push(key);
  else if (pressed) pressed.click();
  else fixed.press();
});

addEventListener("studio:settled", ({ detail: done }) => {
  if (!done) ahead.length = 0; // they were meant for a row that did not come
  while (ahead.length && !inFlight()) named(ahead.shift())?.click();
});

addEventListener("focusin", (event) => {
  const row = event.target.closest?.("tr[data-row]");
  if (row) stand(row);
});

addEventListener("studio:changed", () => {
  if (!annotateNext || !opinion()) return;
  annotateNext = false;
  annotate();
});

addEventListener("click", (event) => {
  if (event.target.closest?.("#help")) help();
});
