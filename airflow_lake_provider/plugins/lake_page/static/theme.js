// Airflow keeps the theme that its user has chosen; without one the system's holds.
(function () {
  "use strict";
  try {
    var chosen = window.localStorage.getItem("theme");
    if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
  } catch (error) {
    // No storage: the system's theme.
  }
})();
