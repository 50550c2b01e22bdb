// Keys. Every page works without them.
(() => {
  const all = (selector) => [...document.querySelectorAll(selector)];
  const step = (selector, by) => {
    const found = all(selector);
    const focused = found.indexOf(document.querySelector("li.at"));
    let next = focused + by;
    if (focused < 0) {
      // From where the page is scrolled to.
      const below = found.findIndex((item) => item.getBoundingClientRect().top > 4);
      next = by > 0 ? (below < 0 ? 0 : below) : (below < 0 ? found.length : below) - 1;
    }
    const item = found[next];
    if (!item) return;
    all("li.at").forEach((old) => old.classList.remove("at"));
    item.classList.add("at");
    item.scrollIntoView({ block: "center" });
  };
  const chain = (by) => {
    const link = document.querySelector(by > 0 ? "a[rel=next]" : "a[rel=prev]");
    if (link) { link.click(); return; }
    const heads = all("article h3");
    const next = by > 0
      ? heads.find((head) => head.getBoundingClientRect().top > 40)
      : heads.reverse().find((head) => head.getBoundingClientRect().top < -4);
    if (next) { all("li.at").forEach((old) => old.classList.remove("at")); next.scrollIntoView(); }
  };
  const keys = {
    j: () => chain(1), ArrowRight: () => chain(1), k: () => chain(-1), ArrowLeft: () => chain(-1),
    n: () => step(".steps li.a, .steps li.r", 1), p: () => step(".steps li.a, .steps li.r", -1),
    s: () => {
      const boxes = all("details");
      const open = !boxes.every((box) => box.open);
      boxes.forEach((box) => { box.open = open; });
    },
    "/": () => document.querySelector("input[name=where]")?.focus(),
  };
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea")) return;
    if (event.key.startsWith("Arrow") && event.target.closest(".scroll, pre")) return;
    const act = keys[event.key];
    if (act) { event.preventDefault(); act(); }
  });
})();
