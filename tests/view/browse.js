// Opens every page of asap view. Arguments: the browser, the address of the server, the address of a report.
const assert = require("node:assert");
const { chromium } = require("playwright-core");
const axe = require.resolve("axe-core");
const [executablePath, server, report] = process.argv.slice(2);

const LOOKS = [
  ["light", { colorScheme: "light", viewport: { width: 1280, height: 800 } }],
  ["dark", { colorScheme: "dark", viewport: { width: 1280, height: 800 } }],
  ["narrow", { colorScheme: "light", viewport: { width: 320, height: 640 } }],
  ["narrow and dark", { colorScheme: "dark", viewport: { width: 320, height: 640 } }],
];

// A page on which nothing may be requested from elsewhere, and no dialog and no error may appear.
async function open(browser, options) {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  const wrong = [];
  page.on("dialog", (dialog) => { wrong.push(`dialog ${dialog.message()}`); dialog.dismiss(); });
  page.on("pageerror", (error) => wrong.push(`error ${error}`));
  page.on("request", (request) => {
    if (!request.url().startsWith(server) && request.url() !== report) wrong.push(`request ${request.url()}`);
  });
  page.check = () => assert.deepStrictEqual(wrong, []);
  return page;
}

// Follows all links of the server. Returns their addresses by kind of page.
async function everyLink(browser, options) {
  const page = await open(browser, options);
  const [waiting, seen, kinds] = [[server], new Set([server]), new Map()];
  while (waiting.length) {
    const address = waiting.pop();
    const response = await page.goto(address);
    assert.strictEqual(response.status(), 200, address);
    assert.ok((await page.locator("h1").count()) === 1, address);
    const kind = new URL(address).pathname.split("/").pop();
    kinds.set(kind, address);
    for (const link of await page.locator("a").evaluateAll((links) => links.map((link) => link.href))) {
      if (!seen.has(link)) { seen.add(link); waiting.push(link); }
    }
  }
  page.check();
  await page.context().close();
  assert.deepStrictEqual([...kinds.keys()].sort(), ["", "chain", "chains", "reject", "rejects"]);
  return [...kinds.values()];
}

async function keys(browser) {
  const page = await open(browser);
  const at = () => new URL(page.url()).searchParams.get("at");
  await page.goto(`${server}chain?at=1`);
  await page.keyboard.press("j");
  await page.waitForURL(/at=2/);
  await page.keyboard.press("ArrowRight");
  await page.waitForURL(/at=3/);
  await page.keyboard.press("k");
  await page.waitForURL(/at=2/);
  await page.keyboard.press("ArrowLeft");
  await page.waitForURL(/at=1/);
  assert.strictEqual(at(), "1");
  const marked = () => page.locator("li.at").evaluateAll((steps) => steps.map((step) => step.value));
  await page.goto(`${server}chain?at=0&sort=-before`);
  // Of steps that are folded too.
  await page.keyboard.press("d");
  await page.keyboard.press("n");
  const [first] = await marked();
  await page.keyboard.press("n");
  const [second] = await marked();
  assert.ok(second > first, `${first} ${second}`);
  await page.keyboard.press("p");
  assert.deepStrictEqual(await marked(), [first]);
  await page.keyboard.press("s");
  assert.ok(await page.locator("details:not(.run *)").first().evaluate((box) => box.open));
  await page.keyboard.press("s");
  assert.ok(!(await page.locator("details:not(.run *)").first().evaluate((box) => box.open)));
  await page.goto(`${server}chains`);
  await page.keyboard.press("j");
  await page.keyboard.press("j");
  await page.keyboard.press("Enter");
  await page.waitForURL(/chain\?at=1$/);
  await page.goto(`${server}chains`);
  await page.keyboard.press("/");
  await page.keyboard.type("id = 'empty' OR pruned_tokens < 190");
  await page.keyboard.press("Enter");
  await page.waitForURL(/where=/);
  assert.ok((await page.locator("tbody tr").count()) > 0);
  await page.click("th:has-text('kept') a");
  await page.waitForURL(/sort=-kept/);
  assert.strictEqual(await page.locator("th[aria-sort=descending]").textContent(), "kept ↓");
  await page.fill("input[name=where]", "EXISTS (SELECT 1)");
  await page.click("button");
  assert.match(await page.locator("[role=alert]").textContent(), /cannot contain a query/);
  page.check();
  await page.goto(report);
  await page.keyboard.press("j");
  assert.ok(await page.evaluate(() => scrollY > 0));
  await page.keyboard.press("n");
  assert.strictEqual((await marked()).length, 1);
  page.check();
  await page.context().close();
}

// Each page names keys that do something on it: of two, at least one does.
async function named(browser, addresses) {
  const page = await open(browser);
  const state = () => [location.href, document.querySelectorAll("details[open]").length, document.querySelector("li.at")?.value,
    document.activeElement.tagName, scrollY].join();
  for (const address of addresses) {
    await page.goto(address);
    for (const keys of await page.locator("kbd").allInnerTexts()) {
      let works = false;
      for (const key of keys.split(" ")) {
        await page.goto(address);
        const before = await page.evaluate(state);
        await page.keyboard.press(key);
        const is = `(${state})() !== ${JSON.stringify(before)}`;
        works ||= await page.waitForFunction(is, null, { timeout: 2000 }).then(() => true, () => false);
      }
      assert.ok(works, `${keys} on ${address}`);
    }
  }
  page.check();
  await page.context().close();
}

// Words are searched; texts are rendered, and a switch shows them as they are written.
async function reading(browser) {
  const page = await open(browser);
  await page.goto(`${server}chains`);
  await page.fill("input[name=where]", "muffins BOXES");
  await page.keyboard.press("Enter");
  await page.waitForURL(/where=/);
  assert.match(await page.locator("div.facts").textContent(), /^1 chain, searched for these words/);
  assert.strictEqual(await page.locator("td.bars svg rect").count() > 0, true);
  await page.click("tbody a");
  await page.waitForURL(/chain\?/);
  const seen = async (selector) => page.locator(`${selector} >> visible=true`).count();
  assert.ok((await seen("math mfrac")) && (await seen(".md strong")) && (await seen(".md pre code")));
  const code = await page.locator(".steps .md pre code").allInnerTexts();
  assert.ok(code.some((text) => text.startsWith("    return 6 * a")), String(code));
  assert.ok(code.includes("for boxes in range(9):\n    print(muffins(boxes, 1))\n"), "code without fences");
  assert.ok(await seen(".boxed math"), "an answer in a box");
  const family = await page.locator(".md pre code").first().evaluate((box) => getComputedStyle(box).fontFamily);
  assert.match(family, /monospace/);
  assert.strictEqual(await seen(".raw"), 0);
  await page.locator("#raw").check();
  assert.ok((await seen(".raw")) && !(await seen("math")));
  assert.match(await page.locator(".raw >> visible=true").first().innerText(), /\*\*muffins\*\*/);
  // It stays on the next page.
  await page.goto(`${server}chain?at=0`);
  assert.ok(await page.isChecked("#raw"));
  await page.uncheck("#raw");
  await page.goto(`${server}rejects`);
  await page.click("tbody a");
  await page.waitForURL(/reject\?/);
  assert.ok((await page.locator("mark").count()) > 0);
  page.check();
  await page.goto(report);
  await page.click("nav a[href='#chains']");
  await page.click("#chains .list tbody tr:nth-child(3) a");
  assert.match(page.url(), /#chain-3$/);
  assert.ok((await page.locator("article details:not([open]) summary").count()) > 0);
  // One chain is on the first screen, next to the tokens.
  await page.evaluate(() => scrollTo(0, 0));
  const box = await page.locator(".preview").boundingBox();
  assert.ok(box.y + 60 < page.viewportSize().height, String(box.y));
  page.check();
  await page.context().close();
}

// Bars have the colors of their legend, and axes say what they count.
async function pictures(browser) {
  const page = await open(browser);
  await page.goto(server);
  for (const name of await page.locator("#words .legend li").evaluateAll((keys) => keys.map((key) => key.className))) {
    const [bar, key] = await page.evaluate((name) => [
      getComputedStyle(document.querySelector(`#words rect.${name}`)).fill,
      getComputedStyle(document.querySelector(`#words .legend .${name}`), "::before").color], name);
    assert.strictEqual(bar, key, name);
  }
  // Each output has its own colors, and a picture of its own that no dot of the other one hides.
  const dropped = (selector) => page.locator(selector).evaluateAll((found) => found.map((each) =>
    [...each.querySelectorAll("rect, li")].map((part) => part.getAttribute("class")).filter((name) => name !== "k")).flat());
  for (const part of ["#tokens", "#reasons"]) assert.deepStrictEqual([...new Set(await dropped(part))].sort(), ["o", "r"], part);
  assert.strictEqual(await page.locator("#scatter svg").count(), 2);
  assert.match(await page.locator("#scatter svg").first().textContent(), /tokens after.*tokens before/s);
  assert.match(await page.locator("#lengths h2").textContent(), /: .*without_anchor$/);
  await page.context().close();
}

// On a phone, no cell of a list is cut.
async function whole(browser, addresses) {
  const page = await open(browser, { viewport: { width: 320, height: 640 } });
  for (const address of addresses) {
    await page.goto(address);
    const cut = await page.locator(".list td").evaluateAll((cells) => cells.filter((cell) => cell.scrollWidth > cell.clientWidth + 1
      || cell.getBoundingClientRect().right > innerWidth).map((cell) => cell.textContent.slice(0, 80)));
    assert.deepStrictEqual(cut, [], address);
  }
  await page.context().close();
}

async function accessible(browser, addresses) {
  for (const [look, options] of LOOKS) {
    for (const address of addresses) {
      const page = await open(browser, { ...options, bypassCSP: true });
      await page.goto(address);
      // What is folded counts too.
      await page.locator("details").evaluateAll((boxes) => boxes.forEach((box) => { box.open = true; }));
      const wider = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(wider <= 0, `${look} ${address}: ${wider} pixels too wide`);
      page.check();
      await page.addScriptTag({ path: axe });
      const rules = { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"] };
      const { violations } = await page.evaluate((rules) => window.axe.run(document, rules), rules);
      const found = violations.map(({ id, nodes }) => `${id}: ${nodes.slice(0, 3).map((node) => node.html.slice(0, 160)).join(" | ")}`);
      assert.deepStrictEqual(found, [], `${look} ${address}`);
      await page.context().close();
    }
  }
}

(async () => {
  const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
  try {
    const addresses = await everyLink(browser, {});
    const plain = await open(browser, { javaScriptEnabled: false });
    for (const address of addresses) {
      await plain.goto(address);
      assert.ok((await plain.locator("main").textContent()).length > 20, address);
    }
    await keys(browser);
    await named(browser, [...addresses, report]);
    await reading(browser);
    await pictures(browser);
    await whole(browser, [...addresses, report]);
    await accessible(browser, [...addresses, report]);
    console.log(`tests/view: ${addresses.length} kinds of pages and a report in ${LOOKS.length} looks`);
  } finally {
    await browser.close();
  }
})().catch((error) => { console.error(error); process.exit(1); });
