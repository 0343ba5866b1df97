// Shows a running proof as it goes on. Without this script, the page reloads itself.
const root = document.documentElement.dataset.root;
const part = document.querySelector("#proof");
const actions = document.querySelector(".proof-actions");
let stream = null;

function show(state) {
  if (actions) actions.dataset.state = state;
}

function watch() {
  stream?.close();
  stream = new EventSource(`${root}/prove/events?view=${part.dataset.view}`);
  stream.onmessage = (event) => {
    const { html, state } = JSON.parse(event.data);
    part.innerHTML = html; // rendered and escaped by the server
    show(state);
  };
  stream.addEventListener("over", () => stream.close());
}

for (const form of document.querySelectorAll("form[data-live]")) {
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const button = form.querySelector("button");
    button.disabled = true;
    try {
      await fetch(form.action, { method: "POST", body: new URLSearchParams(new FormData(form)) });
      if (form.action.endsWith("/prove")) {
        show("running");
        part.scrollIntoView({ block: "nearest" });
        watch();
      }
    } finally {
      button.disabled = false;
      delete form.dataset.sent;
    }
  });
}
if (actions?.dataset.state === "running") watch();
