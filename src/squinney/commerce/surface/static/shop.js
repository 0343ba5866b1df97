// Polls the available quantities of the products on this page every few seconds.
const root = document.documentElement.dataset.root;
const labels = [...document.querySelectorAll("[data-stock]")];

function show(levels) {
  for (const label of labels) {
    const available = levels[label.dataset.stock] ?? 0;
    label.textContent = available ? `${available.toLocaleString("en")} available` : (label.dataset.none ?? "Out of stock");
    label.classList.toggle("none", !available && !label.dataset.none);
  }
  for (const button of document.querySelectorAll("[data-needs]")) {
    button.disabled = !levels[button.dataset.needs];
  }
}

async function refresh() {
  if (document.hidden) return;
  const skus = [...new Set(labels.map((label) => label.dataset.stock))];
  const response = await fetch(`${root}/shop/stock?${skus.map((sku) => `sku=${encodeURIComponent(sku)}`).join("&")}`);
  if (response.ok) show(await response.json());
}

if (labels.length) setInterval(() => refresh().catch(() => {}), 3000);

// Dragging a category onto another one fills in and sends the form that moves categories.
const form = document.querySelector("#move");
for (const item of form ? document.querySelectorAll("[data-slug]") : []) {
  item.addEventListener("dragstart", (event) => {
    event.stopPropagation();
    event.dataTransfer.setData("text/plain", item.dataset.slug);
  });
  item.addEventListener("dragover", (event) => {
    event.preventDefault();
    event.stopPropagation();
    item.classList.add("over");
  });
  item.addEventListener("dragleave", () => item.classList.remove("over"));
  item.addEventListener("drop", (event) => {
    event.preventDefault();
    event.stopPropagation();
    const moved = event.dataTransfer.getData("text/plain");
    if (!moved || moved === item.dataset.slug) return;
    form.elements.slug.value = moved;
    form.elements.parent.value = item.dataset.slug;
    form.requestSubmit();
  });
}
