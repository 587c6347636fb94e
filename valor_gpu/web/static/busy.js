// A button whose form the server works on says so, and is not pressed twice; an upload of 20 MB takes a while.
import { say } from "./said.js";

const WAIT = 1000; // milliseconds after which the work is said

addEventListener("submit", (event) => {
  const form = event.target;
  if (form.dataset.swap || event.defaultPrevented || form.method !== "post") return;
  if (form.ariaBusy === "true") {
    event.preventDefault();
    return;
  }
  form.ariaBusy = "true";
  if (event.submitter) event.submitter.ariaBusy = "true";
  const sends = form.querySelector("input[type=file]")?.files.length > 0;
  const words = sends ? "The file is uploaded and read." : "The server works on it.";
  setTimeout(() => say(words, true), WAIT);
});

addEventListener("pageshow", (event) => {
  if (!event.persisted) return;
  for (const each of document.querySelectorAll("[aria-busy=true]")) each.removeAttribute("aria-busy");
  say("");
});
