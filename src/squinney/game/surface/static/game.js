// Sends actions in the background and replaces the screen with the response. A socket reports what others do. Without
// this script every action is a plain form.
const screen = document.getElementById("screen");
const character = screen.dataset.character;
const base = `/game/play/${encodeURIComponent(character)}`;
const csrf = document.querySelector("meta[name=csrf]").content;

let drawing = 0;

function draw(html) {
  const open = new Set([...screen.querySelectorAll("details[open]")].map((one) => one.dataset.id));
  const map = screen.querySelector(".map");
  const scrolled = map ? [map.scrollLeft, map.scrollTop] : null;
  const was = screen.querySelector("#room-name").textContent;
  const focused = document.activeElement && screen.contains(document.activeElement) ? label(document.activeElement) : null;
  const words = document.getElementById("say").elements.text;
  const typed = [words.value, words === document.activeElement, words.selectionStart];
  screen.innerHTML = html;
  const again = document.getElementById("say").elements.text;
  again.value = typed[0];
  if (typed[1]) {
    again.focus();
    again.setSelectionRange(typed[2], typed[2]);
  }
  for (const one of screen.querySelectorAll("details")) if (open.has(one.dataset.id)) one.open = true;
  const stayed = screen.querySelector("#room-name").textContent === was;
  if (stayed && scrolled) screen.querySelector(".map").scrollTo(...scrolled);
  else showHere();
  if (focused) [...screen.querySelectorAll("button, summary")].find((one) => label(one) === focused)?.focus();
  const events = document.getElementById("events");
  events.scrollTop = events.scrollHeight;
}

// Identifies a button or summary, so that it can be found again after the screen was replaced.
function label(element) {
  const form = element.closest("form");
  const item = form?.elements.item?.value ?? form?.elements.direction?.value ?? element.parentElement?.dataset?.id ?? "";
  return `${element.textContent.trim()} ${item}`;
}

function showHere() {
  const map = screen.querySelector(".map");
  const here = map?.querySelector("rect.here");
  if (!here) return;
  map.scrollLeft = here.x.baseVal.value + 54 - map.clientWidth / 2;
  map.scrollTop = here.y.baseVal.value + 18 - map.clientHeight / 2;
}

async function read() {
  const turn = ++drawing;
  const answer = await fetch(`${base}/screen`, { headers: { accept: "text/html" } });
  if (answer.ok && turn === drawing) draw(await answer.text());
}

async function send(form) {
  const turn = ++drawing;
  const said = form.elements.text?.value;
  const answer = await fetch(form.action, {
    method: "POST",
    body: new URLSearchParams(new FormData(form)),
    headers: { "x-game": "1", "x-csrf-token": csrf, accept: "text/html" },
  });
  const html = await answer.text();
  const words = document.getElementById("say").elements.text;
  if (answer.ok && form.id === "say" && words.value === said) words.value = ""; // keep what was typed meanwhile
  if (!html.includes("room-name")) location.reload();
  else if (turn === drawing) draw(html);
  else read();
}

document.addEventListener("submit", async (event) => {
  const form = event.target;
  if (!form.action.includes("/game/play/")) return;
  event.preventDefault();
  if (form.dataset.busy) return;
  form.dataset.busy = "yes";
  try {
    await send(form);
  } catch {
    location.reload();
  } finally {
    delete form.dataset.busy;
  }
});

let waiting = null;
function soon() {
  clearTimeout(waiting);
  waiting = setTimeout(read, 60);
}

let pause = 500;
function connect() {
  const address = new URL(`/game/ws?character=${encodeURIComponent(character)}`, location.href);
  address.protocol = address.protocol.replace("http", "ws");
  const socket = new WebSocket(address);
  let beat = null;
  socket.addEventListener("open", () => {
    beat = setInterval(() => socket.send("ping"), 25_000);
  });
  socket.addEventListener("message", (message) => {
    const event = JSON.parse(message.data);
    if (event.kind === "hello") {
      pause = 500;
      document.getElementById("live").hidden = false;
    }
    if (event.character_id !== character || event.kind === "gap") soon();
  });
  socket.addEventListener("close", () => {
    clearInterval(beat);
    document.getElementById("live").hidden = true;
    pause = Math.min(pause * 2, 30_000);
    setTimeout(connect, pause * (0.5 + Math.random()));
  });
}

showHere();
document.getElementById("events").scrollTop = 1e6;
connect();
