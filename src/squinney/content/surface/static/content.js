const csrf = document.querySelector("meta[name=csrf]")?.content ?? "";

// The server renders the preview with the same code as the page.
for (const area of document.querySelectorAll("textarea[data-preview]")) {
  const target = document.getElementById(area.dataset.preview);
  let timer = 0;
  let latest = 0;
  const show = async () => {
    const request = ++latest;
    const body = new URLSearchParams({ text: area.value });
    const response = await fetch("/site/-/preview", { method: "POST", body, headers: { "X-CSRF-Token": csrf } });
    const result = await response.json().catch(() => ({}));
    if (request !== latest) return;
    if (!response.ok) {
      target.textContent = result.detail ?? "The preview is not available now.";
      return;
    }
    // The server has sanitised the HTML, and the page's content security policy blocks scripts in any case.
    target.innerHTML = result.html;
  };
  area.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(show, 250);
  });
  if (area.value.trim()) show();
}

// The file is the request's body, so that it is streamed; the progress bar shows how much is sent.
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
    request.upload.addEventListener("progress", (event) => {
      if (event.lengthComputable) bar.value = event.loaded / event.total;
    });
    const fail = (message) => {
      alert.textContent = message;
      alert.hidden = false;
      bar.hidden = true;
      button.disabled = false;
    };
    request.addEventListener("error", () => fail("The connection was lost; nothing was changed."));
    request.addEventListener("load", () => {
      let result = {};
      try {
        result = JSON.parse(request.responseText);
      } catch {
        // A response that is not JSON has no message to show.
      }
      if (request.status < 300) location.assign(result.url);
      else fail(result.detail ?? "The upload failed.");
    });
    bar.hidden = false;
    alert.hidden = true;
    button.disabled = true;
    request.send(form.elements.file.files[0]);
  });
}
