// New posts arrive, and what one may no longer see goes: the server draws the list, this puts it in place of the old one.
const SECONDS = 2;
const list = document.querySelector("[data-live]");
let shown = null;

function isWriting() {
  const fields = [...list.querySelectorAll("input:not([type=hidden]), textarea")];
  return list.contains(document.activeElement) || fields.some((field) => field.value !== "");
}

async function refresh() {
  if (document.hidden || isWriting()) return;
  try {
    const response = await fetch(list.dataset.live, { cache: "no-store" });
    if (!response.ok) return;
    const text = await response.text();
    // Somebody may have begun to write while the answer was on its way.
    if (text !== shown && !isWriting()) list.innerHTML = text;
    shown = text;
  } catch {
    // The server is away for a moment; the next round tries again.
  }
}

if (list) {
  const next = async () => {
    await refresh();
    setTimeout(next, SECONDS * 1000);
  };
  setTimeout(next, SECONDS * 1000);
}
