// Figures and charts follow what is delivered, while somebody looks at them.
const MILLISECONDS = 2000;

async function refresh() {
  if (document.hidden) return;
  const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
  if (!answer.ok) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const part of document.querySelectorAll("[data-live]")) {
    const now = page.querySelector(`[data-live="${part.dataset.live}"]`);
    if (now && now.innerHTML !== part.innerHTML) part.replaceChildren(...now.childNodes);
  }
}

async function follow() {
  await refresh().catch(() => {}); // the next time is soon
  setTimeout(follow, MILLISECONDS);
}

setTimeout(follow, MILLISECONDS);
