// Shows what made the page in a drawer. Without this script, the same link opens a page.
const link = document.querySelector(".behind-open");
const cookie = "squinney-behind=";

async function open() {
  document.cookie = `${cookie}open; path=/; samesite=lax`; // from now on, forms are recorded too
  const answer = await fetch(link.href);
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const content = page.querySelector("#behind");
  if (!content) return;
  const style = document.createElement("link");
  style.rel = "stylesheet";
  style.href = `${document.documentElement.dataset.root ?? ""}/static/service/behind.css`;
  document.head.append(style);
  const drawer = document.createElement("aside");
  drawer.className = "behind-drawer";
  drawer.setAttribute("aria-label", "Behind this page");
  const close = document.createElement("button");
  close.textContent = "Close";
  close.className = "quiet small";
  close.addEventListener("click", shut);
  drawer.append(close, content);
  shut();
  document.cookie = `${cookie}open; path=/; samesite=lax`;
  document.body.append(drawer);
  close.focus({ preventScroll: true });
}

function shut() {
  document.cookie = `${cookie}; path=/; max-age=0; samesite=lax`;
  document.querySelector(".behind-drawer")?.remove();
}

link.addEventListener("click", (event) => {
  if (document.querySelector("#behind")) return; // this is the page itself
  event.preventDefault();
  open();
});
addEventListener("keydown", (event) => event.key === "Escape" && shut());
if (document.cookie.includes(cookie) && !document.querySelector("#behind")) open();
