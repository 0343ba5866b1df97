const csrf = document.querySelector("meta[name=csrf]")?.content ?? "";

// The preview is made by the server, by the same code that makes the page.
for (const area of document.querySelectorAll("textarea[data-preview]")) {
  const target = document.getElementById(area.dataset.preview);
  let timer = 0;
  let asked = 0;
  const show = async () => {
    const turn = ++asked;
    const body = new URLSearchParams({ text: area.value });
    const answer = await fetch("/site/-/preview", { method: "POST", body, headers: { "X-CSRF-Token": csrf } });
    const told = await answer.json().catch(() => ({}));
    if (turn !== asked) return;
    if (!answer.ok) {
      target.textContent = told.detail ?? "There is no preview now.";
      return;
    }
    // The server has sanitised it; the page's policy runs no script even if it had not.
    target.innerHTML = told.html;
  };
  area.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(show, 250);
  });
  if (area.value.trim()) show();
}

// A file goes up as the request's body, so that it is streamed; the bar shows how far it is.
for (const form of document.querySelectorAll("form[data-upload]")) {
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const bar = form.querySelector("progress");
    const alert = form.querySelector("[role=alert]");
    const button = form.querySelector("button");
    const url = new URL(form.dataset.upload, location.href);
    for (const [name, value] of new FormData(form)) {
      if (typeof value === "string") url.searchParams.set(name, value);
    }
    const request = new XMLHttpRequest();
    request.open("POST", url);
    request.setRequestHeader("X-CSRF-Token", csrf);
    request.setRequestHeader("Content-Type", "application/octet-stream");
    request.upload.addEventListener("progress", (now) => {
      if (now.lengthComputable) bar.value = now.loaded / now.total;
    });
    const fail = (message) => {
      alert.textContent = message;
      alert.hidden = false;
      bar.hidden = true;
      button.disabled = false;
    };
    request.addEventListener("error", () => fail("The connection was lost; nothing was changed."));
    request.addEventListener("load", () => {
      let answer = {};
      try {
        answer = JSON.parse(request.responseText);
      } catch {
        // An answer that is no JSON has no reason to show.
      }
      if (request.status < 300) location.assign(answer.url);
      else fail(answer.detail ?? "That did not work.");
    });
    bar.hidden = false;
    alert.hidden = true;
    button.disabled = true;
    request.send(form.elements.file.files[0]);
  });
}
