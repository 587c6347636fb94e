// Charts whose bars are links (`data-roving`): the tab key reaches one bar, arrow keys, Home and End the others.
const STEPS = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };

addEventListener("keydown", (event) => {
  const chart = event.target.closest?.("[data-roving]");
  if (!chart || event.ctrlKey || event.metaKey || event.altKey) return;
  const bars = [...chart.querySelectorAll("a[href]")];
  const at = bars.indexOf(event.target.closest("a"));
  const ends = { Home: 0, End: bars.length - 1 };
  const next = bars[event.key in ends ? ends[event.key] : at + (STEPS[event.key] ?? NaN)];
  if (at < 0 || !next) return;
  event.preventDefault();
  for (const bar of bars) bar.setAttribute("tabindex", bar === next ? "0" : "-1");
  next.focus();
});
