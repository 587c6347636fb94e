// `data-copy="ID"` on a button copies the text of an element.
import { say } from "./said.js";

addEventListener("click", async (event) => {
  const button = event.target.closest?.("[data-copy]");
  const source = button && document.getElementById(button.dataset.copy);
  if (!source) return;
  event.preventDefault();
  try {
    await navigator.clipboard.writeText(source.value ?? source.textContent);
    say("Copied.");
    button.classList.add("copied");
    setTimeout(() => button.classList.remove("copied"), 2000);
  } catch {
    getSelection().selectAllChildren(source);
    say("The browser does not let this page copy. The text is selected: press Ctrl+C.", true);
  }
});
