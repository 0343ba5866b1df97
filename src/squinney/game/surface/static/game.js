// Sends actions in the background and replaces the screen with the response. A socket reports what others do. Without
// this script every action is a plain form.
const root = document.documentElement.dataset.root;
const screen = document.getElementById("screen");
const character = screen.dataset.character;
const base = `${root}/game/play/${encodeURIComponent(character)}`;
const csrf = document.querySelector("meta[name=csrf]").content;

let drawing = 0;

function draw(html) {
  const open = new Set([...screen.querySelectorAll("details[open]")].map((one) => one.dataset.id));
  const map = screen.querySelector(".map");
  const scrolled = map ? [map.scrollLeft, map.scrollTop] : null;
  const was = screen.querySelector("#room-name").textContent;
  const focused = document.activeElement && screen.contains(document.activeElement) ? label(document.activeElement) : null;
  const typed = texts().map((one) => [one.value, one === document.activeElement, one.selectionStart]);
  screen.innerHTML = html;
  texts().forEach((one, number) => {
    const [value, hadFocus, caret] = typed[number];
    one.value = value;
    if (!hadFocus) return;
    one.focus();
    one.setSelectionRange(caret, caret);
  });
  for (const one of screen.querySelectorAll("details")) if (open.has(one.dataset.id)) one.open = true;
  const stayed = screen.querySelector("#room-name").textContent === was;
  if (stayed && scrolled) screen.querySelector(".map").scrollTo(...scrolled);
  else showHere();
  if (focused) [...screen.querySelectorAll("button, summary")].find((one) => label(one) === focused)?.focus();
  const events = document.getElementById("events");
  events.scrollTop = events.scrollHeight;
}

// The inputs for a command and for words to say. What is typed there outlives a new screen.
function texts() {
  return ["type", "say"].map((id) => document.querySelector(`#${id} input[maxlength]`));
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
  const sent = texts().find((one) => one.form === form)?.value;
  const answer = await fetch(form.action, {
    method: "POST",
    body: new URLSearchParams(new FormData(form)),
    headers: { "x-game": "1", "x-csrf-token": csrf, accept: "text/html" },
  });
  const html = await answer.text();
  const text = texts().find((one) => one.form.id === form.id);
  if (answer.ok && text && text.value === sent) text.value = ""; // keep what was typed meanwhile
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

// Arrow keys walk, unless they move the caret or scroll.
const WAYS = { ArrowUp: "n", ArrowRight: "e", ArrowDown: "s", ArrowLeft: "w" };
document.addEventListener("keydown", (event) => {
  const way = WAYS[event.key];
  if (!way || event.ctrlKey || event.altKey || event.metaKey || event.shiftKey) return;
  if (event.target.closest("input, select, textarea, [tabindex]")) return;
  const exit = screen.querySelector(`.exits input[name=direction][value=${way}]`);
  if (!exit) return;
  event.preventDefault();
  exit.form.requestSubmit();
});

let waiting = null;
function soon() {
  clearTimeout(waiting);
  waiting = setTimeout(read, 60);
}

let pause = 500;
function connect() {
  const address = new URL(`${root}/game/ws?character=${encodeURIComponent(character)}`, location.href);
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
