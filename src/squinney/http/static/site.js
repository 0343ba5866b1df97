// On a phone the systems scroll: show the one that this page belongs to.
const here = document.querySelector(".site-header nav [aria-current]");
if (here) here.parentElement.scrollLeft = here.offsetLeft - here.parentElement.offsetLeft - 24;

// What ends something for good asks once more.
for (const form of document.querySelectorAll("form[data-sure]")) {
  form.addEventListener("submit", (event) => {
    if (form.dataset.answered) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    ask(form.dataset.sure, event.submitter?.textContent ?? "Go on", () => {
      form.dataset.answered = "yes";
      form.requestSubmit();
    });
  });
}

function ask(question, action, then) {
  const dialog = document.createElement("dialog");
  const text = document.createElement("p");
  text.textContent = question;
  const keep = document.createElement("button");
  keep.textContent = "Keep it";
  keep.className = "quiet";
  keep.autofocus = true;
  const go = document.createElement("button");
  go.textContent = `Yes: ${action.trim().toLowerCase()}`;
  keep.addEventListener("click", () => dialog.close());
  go.addEventListener("click", () => {
    dialog.close();
    then();
  });
  dialog.addEventListener("close", () => dialog.remove());
  dialog.setAttribute("aria-label", question);
  dialog.append(text, keep, " ", go);
  document.body.append(dialog);
  dialog.showModal();
}

// Send each form once: ignore further clicks until the response arrives.
for (const form of document.querySelectorAll("form[method=post]")) {
  form.addEventListener("submit", (event) => {
    if (form.dataset.sent) event.preventDefault();
    form.dataset.sent = "yes";
  });
}
// A page that a refused form has shown stands at the address of the form's target: reload the form's own page instead.
const page = document.querySelector("meta[name=form-page]")?.content;
if (page) history.replaceState(history.state, "", page);
// Forms of a page that is restored from the browser's history can be sent again.
addEventListener("pageshow", () => {
  for (const form of document.querySelectorAll("form[data-sent]")) delete form.dataset.sent;
});
