// An ad is viewable once half of it was in sight for a second without a break, in a tab that is looked at.
const SHARE = 0.5;
const MILLISECONDS = 1000;

const waiting = new Map();
const inSight = new Set();

function begin(ad) {
  if (document.hidden || waiting.has(ad)) return;
  waiting.set(ad, setTimeout(() => tell(ad), MILLISECONDS));
}

function stop(ad) {
  clearTimeout(waiting.get(ad));
  waiting.delete(ad);
}

function tell(ad) {
  observer.unobserve(ad);
  inSight.delete(ad);
  fetch(ad.dataset.viewable, { keepalive: true }).catch(() => {});
}

const observer = new IntersectionObserver((entries) => {
  for (const { target, intersectionRatio } of entries) {
    if (intersectionRatio >= SHARE) {
      inSight.add(target);
      begin(target);
    } else {
      inSight.delete(target);
      stop(target);
    }
  }
}, { threshold: SHARE });

for (const ad of document.querySelectorAll("[data-viewable]")) observer.observe(ad);
document.addEventListener("visibilitychange", () => {
  for (const ad of inSight) document.hidden ? stop(ad) : begin(ad);
});
