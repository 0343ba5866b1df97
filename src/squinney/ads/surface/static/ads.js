// An ad counts as viewable when half of it was visible for one second without a break, in the active tab.
const SHARE = 0.5;
const MILLISECONDS = 1000;

const timers = new Map();
const visible = new Set();

function startTimer(ad) {
  if (document.hidden || timers.has(ad)) return;
  timers.set(ad, setTimeout(() => report(ad), MILLISECONDS));
}

function stopTimer(ad) {
  clearTimeout(timers.get(ad));
  timers.delete(ad);
}

function report(ad) {
  observer.unobserve(ad);
  visible.delete(ad);
  fetch(ad.dataset.viewable, { keepalive: true }).catch(() => {});
}

const observer = new IntersectionObserver((entries) => {
  for (const { target, intersectionRatio } of entries) {
    if (intersectionRatio >= SHARE) {
      visible.add(target);
      startTimer(target);
    } else {
      visible.delete(target);
      stopTimer(target);
    }
  }
}, { threshold: SHARE });

for (const ad of document.querySelectorAll("[data-viewable]")) observer.observe(ad);
document.addEventListener("visibilitychange", () => {
  for (const ad of visible) document.hidden ? stopTimer(ad) : startTimer(ad);
});
