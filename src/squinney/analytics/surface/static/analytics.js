// Updates the charts: replaces each chart with a new one that the server has drawn.
const SECONDS = { minute: 2, hour: 10, day: 60, month: 300, top: 5 };
const board = document.querySelector("[data-live]");

async function refresh(element, url) {
  if (document.hidden) return;
  try {
    const response = await fetch(url, { cache: "no-store" });
    if (response.ok) element.innerHTML = await response.text();
  } catch {
    // The server is unreachable; the next refresh tries again.
  }
}

function keepFresh(element, name, url) {
  const next = async () => {
    await refresh(element, url);
    setTimeout(next, SECONDS[name] * 1000);
  };
  setTimeout(next, SECONDS[name] * 1000);
}

if (board) {
  const { live, query } = board.dataset;
  for (const figure of board.querySelectorAll("[data-chart]")) {
    const unit = figure.dataset.chart;
    keepFresh(figure, unit, `${live}/charts/${unit}?${query}`);
  }
  keepFresh(board.querySelector("[data-top]"), "top", `${live}/top?${query}`);
}
