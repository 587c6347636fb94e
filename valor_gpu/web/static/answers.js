// Reads a page of this server as a document.
export const AWAY = "The server does not answer; trying again.";
export const LOCKED = "Studio was started again: open the address that it printed.";

/** The page at an address: its document, status and last address. Raises TypeError where no server answers. */
export async function read(address, options = {}) {
  const answer = await fetch(address, { credentials: "same-origin", cache: "no-store", ...options });
  const text = await answer.text();
  return { page: new DOMParser().parseFromString(text, "text/html"), status: answer.status, address: answer.url };
}

/** What a page says went wrong. */
export function problem(page) {
  const found = page.querySelector(".note, main .read, main p");
  return (found ?? page.body).textContent.replace(/\s+/g, " ").trim();
}
