// Renders the formulas of a page. A heading "Exports" is window.exports, which KaTeX takes for that of a module system.
const typesetter = window.katex ?? window.exports?.katex;
document$.subscribe(({ body }) => {
  for (const element of body.querySelectorAll(".arithmatex")) {
    const text = element.textContent.trim();
    typesetter.render(text.slice(2, -2), element, { displayMode: text.startsWith("\\["), throwOnError: false });
  }
});
