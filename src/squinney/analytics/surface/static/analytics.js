// Keeps the charts moving: the server draws, this puts the new drawing in place of the old.
const SECONDS = { minute: 2, hour: 10, day: 60, month: 300, top: 5 };
const board = document.querySelector("[data-live]");

async function refresh(place, address) {
  if (document.hidden) return;
  try {
    const response = await fetch(address, { cache: "no-store" });
    if (response.ok) place.innerHTML = await response.text();
  } catch {
    // The server is away for a moment; the next round tries again.
  }
}

function keepMoving(place, what, address) {
  const next = async () => {
    await refresh(place, address);
    setTimeout(next, SECONDS[what] * 1000);
  };
  setTimeout(next, SECONDS[what] * 1000);
}

if (board) {
  const { live, query } = board.dataset;
  for (const figure of board.querySelectorAll("[data-chart]")) {
    const unit = figure.dataset.chart;
    keepMoving(figure, unit, `${live}/charts/${unit}?${query}`);
  }
  keepMoving(board.querySelector("[data-top]"), "top", `${live}/top?${query}`);
}
