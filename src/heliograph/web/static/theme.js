// Before anything is drawn, so that nothing flashes: the theme that was chosen last, else the system's as it is now.
const system = matchMedia("(prefers-color-scheme: dark)");

function chosen() {
  try {
    return localStorage.getItem("heliograph.theme");
  } catch {
    return null; // Storage may be forbidden; the system's theme will do.
  }
}

function dress() {
  document.documentElement.dataset.theme = chosen() ?? (system.matches ? "dark" : "light");
  dispatchEvent(new Event("themechange"));
}

system.addEventListener("change", dress);
dress();
