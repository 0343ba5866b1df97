// Keeps the number of people on the site up to date.
const now = document.querySelector("[data-now]");
const SECONDS = 10;

async function refresh() {
  if (!document.hidden) {
    try {
      const response = await fetch(now.dataset.now, { cache: "no-store" });
      if (response.ok) now.innerHTML = await response.text();
    } catch {
      // The server is unreachable; the next refresh tries again.
    }
  }
  setTimeout(refresh, SECONDS * 1000);
}

if (now) setTimeout(refresh, SECONDS * 1000);
