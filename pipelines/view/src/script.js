// Keys. Every page works without them.
(() => {
  const DROPPED = "article .steps li:is(.a, .r):not(.run)";
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
    const box = item.closest("details");
    if (box) box.open = true;
    all("li.at").forEach((old) => old.classList.remove("at"));
    item.classList.add("at");
    item.scrollIntoView({ block: "center" });
  };
  const row = (by) => {
    const rows = document.querySelector("article") ? [] : all(".list tbody td:first-child a");
    const next = rows[rows.indexOf(document.activeElement) + by];
    next?.focus();
    return next;
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
  const toggle = (selector) => {
    const boxes = all(selector);
    const open = !boxes.every((box) => box.open);
    boxes.forEach((box) => { box.open = open; });
  };
  const keys = {
    j: () => row(1) || chain(1), ArrowRight: () => chain(1), k: () => row(-1) || chain(-1), ArrowLeft: () => chain(-1),
    n: () => step(DROPPED, 1), p: () => step(DROPPED, -1), d: () => toggle(".run details"), s: () => toggle("details:not(.run *)"),
    "/": () => document.querySelector("input[name=where]")?.focus(),
  };
  // The switch stays as it is from page to page.
  const raw = document.querySelector("#raw");
  try {
    raw.checked = sessionStorage.getItem("asap-raw") === "1";
    raw.addEventListener("change", () => sessionStorage.setItem("asap-raw", raw.checked ? "1" : "0"));
  } catch { /* A browser may refuse to store. */ }
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input:not([type=checkbox])")) return;
    if (event.key.startsWith("Arrow") && event.target.closest(".scroll, pre")) return;
    const act = keys[event.key];
    if (act) { event.preventDefault(); act(); }
  });
})();
