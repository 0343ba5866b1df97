// Refresh the list: the server renders it as the member may see it now, and this script replaces the old one.
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
    // The member may have begun to write while the request was running.
    if (text !== shown && !isWriting()) list.innerHTML = text;
    shown = text;
  } catch {
    // The server cannot be reached; the next round tries again.
  }
}

if (list) {
  const next = async () => {
    await refresh();
    setTimeout(next, SECONDS * 1000);
  };
  setTimeout(next, SECONDS * 1000);
}

// Dropping a person onto a circle submits the form around the circles. The fields below do the same by keyboard.
const drops = document.querySelector("[data-drops]");

if (drops) {
  drops.querySelector("[data-hint]").hidden = false;
  for (const person of document.querySelectorAll("[data-person]")) {
    person.draggable = true;
    person.addEventListener("dragstart", (event) => {
      event.dataTransfer.setData("text/x-person", person.dataset.person);
      event.dataTransfer.effectAllowed = "copy";
      drops.classList.add("ready");
    });
    person.addEventListener("dragend", () => drops.classList.remove("ready"));
  }
  for (const circle of drops.querySelectorAll("[data-circle]")) {
    const mark = (on) => circle.classList.toggle("over", on);
    circle.addEventListener("dragover", (event) => {
      if (!event.dataTransfer.types.includes("text/x-person")) return;
      event.preventDefault();
      mark(true);
    });
    circle.addEventListener("dragleave", () => mark(false));
    circle.addEventListener("drop", (event) => {
      event.preventDefault();
      drops.elements.other.value = event.dataTransfer.getData("text/x-person");
      drops.elements.circle.value = circle.dataset.circle;
      drops.submit();
    });
  }
}
