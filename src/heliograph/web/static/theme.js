// Before anything is drawn, so that nothing flashes: the theme that was chosen last, else the system's.
try {
  const chosen = localStorage.getItem("heliograph.theme");
  if (chosen) document.documentElement.dataset.theme = chosen;
} catch {
  // Storage may be forbidden; the system's theme will do.
}
