// What is available changes while one looks: ask every few seconds, for what this page shows.
const shown = [...document.querySelectorAll("[data-stock]")];

function show(levels) {
  for (const place of shown) {
    const left = levels[place.dataset.stock] ?? 0;
    place.textContent = left ? `${left.toLocaleString("en")} available` : (place.dataset.none ?? "Out of stock");
    place.classList.toggle("none", !left && !place.dataset.none);
  }
  for (const button of document.querySelectorAll("[data-needs]")) {
    button.disabled = !levels[button.dataset.needs];
  }
}

async function refresh() {
  if (document.hidden) return;
  const skus = [...new Set(shown.map((place) => place.dataset.stock))];
  const answer = await fetch(`/shop/stock?${skus.map((sku) => `sku=${encodeURIComponent(sku)}`).join("&")}`);
  if (answer.ok) show(await answer.json());
}

if (shown.length) setInterval(() => refresh().catch(() => {}), 3000);

// A category dragged onto another one is moved there by the same form that works without dragging.
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
