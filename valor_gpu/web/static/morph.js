// Makes an element equal to a fresh one by the fewest changes, so that focus, selection, scroll, open details and typed
// text stay. Children with ids are found by them, others by their places.
const SHOWN_BY_USER = new Set(["DETAILS", "DIALOG"]);
const OF_THE_ANSWER = new Set(["csrf", "back", "kept"]); // hidden fields that do not say what a form is about

/** Whether a person has changed a field since its page was read. */
export function isEdited(field) {
  if (field.tagName === "SELECT") return !isDefault(field);
  if (field.tagName === "TEXTAREA") return field.value !== field.defaultValue;
  if (field.tagName !== "INPUT" || field.type === "hidden") return false;
  return isTick(field) ? field.checked !== field.defaultChecked : field.value !== field.defaultValue;
}

function isTick(field) {
  return field.type === "checkbox" || field.type === "radio";
}

function isDefault(select) {
  const options = [...select.options];
  const none = !options.some((each) => each.defaultSelected);
  if (none && !select.multiple) return select.selectedIndex <= 0;
  return options.every((each) => each.selected === each.defaultSelected);
}

/** Whether the focus is within an element, or a field that a person has changed. */
export function isBusy(element) {
  if (element.nodeType !== Node.ELEMENT_NODE) return false;
  if (element !== document.body && element.contains(document.activeElement)) return true;
  return isEdited(element) || [...element.querySelectorAll("input, select, textarea")].some(isEdited);
}

/** Makes `old` equal to `fresh`. With `keepBusy`, children that it lacks stay while a person is at them. */
export function morph(old, fresh, keepBusy = false) {
  if (!isSame(old, fresh)) {
    old.replaceWith(document.adoptNode(fresh));
  } else if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.data !== fresh.data) old.data = fresh.data;
  } else if (keepBusy && keptBy(old) !== keptBy(fresh) && isBusy(old)) {
    return; // sent as it is, the form tells the server which words its writer has seen
  } else if (!old.isEqualNode(fresh)) {
    const chosen = isEdited(old) ? old.value : null;
    morphAttributes(old, fresh);
    morphChildren(old, fresh, keepBusy);
    settle(old, chosen);
  }
}

function isSame(old, fresh) {
  if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName) return false;
  return old.nodeName !== "FORM" || about(old) === about(fresh);
}

/** When what a form shows was kept; undefined for what is no such form. */
function keptBy(form) {
  return form.nodeName === "FORM" ? form.querySelector("input[name=kept]")?.defaultValue : undefined;
}

/** What a form is about: where it leads, and its hidden fields. Text typed into one never goes over to another. */
function about(form) {
  const hidden = [...form.querySelectorAll("input[type=hidden]")].filter((each) => !OF_THE_ANSWER.has(each.name));
  const fields = form.method === "post" ? hidden.map((each) => [each.name, each.defaultValue]) : [];
  return JSON.stringify([form.method, form.getAttribute("action"), fields]);
}

function morphAttributes(old, fresh) {
  const kept = (name) => name === "open" && SHOWN_BY_USER.has(old.tagName);
  const here = old.classList.contains("here"); // the row that the keys are at, see keys.js
  for (const { name, value } of fresh.attributes) {
    if (!kept(name) && old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  for (const { name } of [...old.attributes]) if (!kept(name) && !fresh.hasAttribute(name)) old.removeAttribute(name);
  if (here) old.classList.add("here");
}

/** Shows a field's new default, unless a person has chosen another value. */
function settle(field, chosen) {
  if (field.tagName === "SELECT") {
    if (chosen === null) resetChoice(field);
    else if (field.value !== chosen) field.value = chosen;
  } else if (chosen !== null) {
    return;
  } else if (field.tagName === "INPUT" && isTick(field)) {
    field.checked = field.defaultChecked;
  } else if ((field.tagName === "INPUT" && field.type !== "file") || field.tagName === "TEXTAREA") {
    if (field.value !== field.defaultValue) field.value = field.defaultValue;
  }
}

function resetChoice(select) {
  const options = [...select.options];
  for (const each of options) each.selected = each.defaultSelected;
  if (!select.multiple && !options.some((each) => each.defaultSelected)) select.selectedIndex = 0;
}

function morphChildren(old, fresh, keepBusy) {
  const wanted = [...fresh.childNodes];
  const ids = new Set(wanted.map((each) => each.id).filter(Boolean));
  for (const each of [...old.children]) if (each.id && !ids.has(each.id)) drop(each, keepBusy);
  const byId = new Map([...old.children].filter((each) => each.id).map((each) => [each.id, each]));
  let place = old.firstChild;
  for (const each of wanted) {
    const found = each.id ? byId.get(each.id) : reusable(place, each);
    if (!found) {
      old.insertBefore(document.adoptNode(each), place);
      continue;
    }
    if (found !== place) bring(old, found, place);
    place = found.nextSibling;
    morph(found, each, keepBusy);
  }
  while (place) {
    const gone = place;
    place = place.nextSibling;
    drop(gone, keepBusy);
  }
}

function drop(node, keepBusy) {
  if (!(keepBusy && isBusy(node))) node.remove();
}

/** A node without an id that can become `wanted`: a text in its place, or the next element of its kind. */
function reusable(place, wanted) {
  let node = place;
  while (node && wanted.nodeType === Node.ELEMENT_NODE && (node.id || node.nodeName !== wanted.nodeName)) {
    node = node.nextSibling;
  }
  return node && !node.id && node.nodeType === wanted.nodeType ? node : null;
}

/** Puts a child before another one. One with the focus stays where it is, and what is between goes behind it. */
function bring(parent, child, place) {
  if (!child.contains(document.activeElement)) {
    parent.insertBefore(child, place);
    return;
  }
  const behind = child.nextSibling;
  for (let node = place; node !== child; ) {
    const moved = node;
    node = node.nextSibling;
    parent.insertBefore(moved, behind);
  }
}
