// Goes from command to command without loading the page. Without this script, the same links load it.
const play = document.querySelector("#schedule");

async function show(address) {
  const answer = await fetch(address);
  if (!answer.ok) return location.assign(address);
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  play.replaceChildren(...page.querySelector("#schedule").childNodes);
  history.replaceState(null, "", address);
}

play?.addEventListener("click", (event) => {
  const link = event.target.closest("a[rel]");
  if (!link) return;
  event.preventDefault();
  show(link.href).then(() => play.querySelector(`a[rel=${link.rel}]`)?.focus());
});

addEventListener("keydown", (event) => {
  const rel = { ArrowLeft: "prev", ArrowRight: "next" }[event.key];
  const link = rel && !event.target.closest("pre, .sequence-box") && play?.querySelector(`a[rel=${rel}]`);
  if (link) show(link.href);
});

for (const button of document.querySelectorAll("[data-copy]")) {
  button.hidden = !navigator.clipboard;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
    button.textContent = "Copied";
  });
}
