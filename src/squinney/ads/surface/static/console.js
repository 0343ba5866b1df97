// Refresh the figures and charts while the tab is visible.
const MILLISECONDS = 2000;

async function refresh() {
  if (document.hidden) return;
  const response = await fetch(location.href, { headers: { Accept: "text/html" } });
  if (!response.ok) return;
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  for (const part of document.querySelectorAll("[data-live]")) {
    const now = page.querySelector(`[data-live="${part.dataset.live}"]`);
    if (now && now.innerHTML !== part.innerHTML) part.replaceChildren(...now.childNodes);
  }
}

async function follow() {
  await refresh().catch(() => {}); // the next refresh comes soon
  setTimeout(follow, MILLISECONDS);
}

setTimeout(follow, MILLISECONDS);
