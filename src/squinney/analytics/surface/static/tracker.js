// Reports the view of a page that a cache answers, so that the server does not see it. It sets no cookie and stores
// nothing. On each such page of the site: <script defer src="/static/analytics/tracker.js"></script>
{
  const base = new URL("../../analytics/view", document.currentScript.src);
  let last = "";
  const report = () => {
    const page = location.pathname + location.search;
    if (page === last || document.visibilityState === "prerender") return;
    base.search = new URLSearchParams({ page, referrer: last ? "" : document.referrer });
    last = page;
    fetch(base, { keepalive: true, credentials: "omit", cache: "no-store" }).catch(() => {});
  };
  // Pages that change without being loaded.
  const push = history.pushState;
  history.pushState = (...change) => { push.apply(history, change); report(); };
  addEventListener("popstate", report);
  report();
}
