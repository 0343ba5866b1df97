const root = document.documentElement.dataset.root;
const csrf = document.querySelector("meta[name=csrf]")?.content ?? "";

// The server renders the preview with the same code as the page.
for (const area of document.querySelectorAll("textarea[data-preview]")) {
  const target = document.getElementById(area.dataset.preview);
  let timer = 0;
  let latest = 0;
  const show = async () => {
    const request = ++latest;
    const body = new URLSearchParams({ text: area.value });
    const response = await fetch(`${root}/site/-/preview`, { method: "POST", body, headers: { "X-CSRF-Token": csrf } });
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
    const url = new URL(form.action);
    for (const [name, value] of new FormData(form)) {
      if (typeof value === "string" && name !== "csrf") url.searchParams.set(name, value);
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
      if (request.status < 300) location.assign(root + result.url);
      else fail(result.detail ?? "The upload failed.");
    });
    bar.hidden = false;
    alert.hidden = true;
    button.disabled = true;
    request.send(form.elements.file.files[0]);
  });
}

// A picture that is chosen, dropped or pasted is uploaded to the gallery, and stands in the text where the cursor was.
for (const area of document.querySelectorAll("textarea[data-gallery]:not([data-gallery=''])")) {
  const tools = area.closest("form").querySelector(".picture-tools");
  const status = tools.querySelector("[role=status]");
  const insert = async (files) => {
    for (const file of [...files].filter((one) => one.type.startsWith("image/"))) {
      status.textContent = `Uploading ${file.name} …`;
      const title = file.name.replace(/\.[^.]*$/, "") || "Picture";
      const where = new URLSearchParams({ parent: area.dataset.gallery, title, slug: `picture-${Date.now().toString(36)}` });
      const headers = { "X-CSRF-Token": csrf, "Content-Type": "application/octet-stream" };
      const response = await fetch(`${root}/site/-/upload?${where}`, { method: "POST", body: file, headers }).catch(() => null);
      const result = (await response?.json().catch(() => null)) ?? {};
      if (!response?.ok) {
        status.textContent = result.detail ?? "The upload failed.";
        continue;
      }
      area.setRangeText(`![${title.replace(/[[\]]/g, "")}](${result.asset})\n\n`, area.selectionStart, area.selectionEnd, "end");
      area.dispatchEvent(new Event("input"));
      status.textContent = `${file.name} is in the text.`;
    }
  };
  tools.hidden = false;
  tools.querySelector("input").addEventListener("change", (event) => insert(event.target.files));
  area.addEventListener("dragover", (event) => event.preventDefault());
  area.addEventListener("drop", (event) => {
    if (!event.dataTransfer.files.length) return;
    event.preventDefault();
    insert(event.dataTransfer.files);
  });
  area.addEventListener("paste", (event) => {
    if (event.clipboardData.files.length) {
      event.preventDefault();
      insert(event.clipboardData.files);
    }
  });
}
