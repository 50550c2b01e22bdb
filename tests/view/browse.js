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
    let kind = new URL(address).pathname.split("/").pop();
    if (kind === "chain" && !(await page.locator("article").count())) kind = "reject";
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
  const marked = () => page.locator("li.at").evaluateAll((steps) => steps.map((step) => [...step.parentNode.children].indexOf(step)));
  await page.goto(`${server}chain?at=0&sort=longest`);
  await page.keyboard.press("n");
  const [first] = await marked();
  await page.keyboard.press("n");
  const [second] = await marked();
  assert.ok(second > first, `${first} ${second}`);
  await page.keyboard.press("p");
  assert.deepStrictEqual(await marked(), [first]);
  await page.keyboard.press("s");
  assert.ok(await page.locator("details").first().evaluate((box) => box.open));
  await page.keyboard.press("s");
  assert.ok(!(await page.locator("details").first().evaluate((box) => box.open)));
  await page.goto(`${server}chains`);
  await page.keyboard.press("/");
  await page.keyboard.type("id = 'empty' OR pruned_tokens < 190");
  await page.keyboard.press("Enter");
  await page.waitForURL(/where=/);
  assert.ok((await page.locator("tbody tr").count()) > 0);
  await page.selectOption("select", "least");
  await page.click("button");
  await page.waitForURL(/sort=least/);
  await page.fill("input", "EXISTS (SELECT 1)");
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
    await accessible(browser, [...addresses, report]);
    console.log(`tests/view: ${addresses.length} kinds of pages and a report in ${LOOKS.length} looks`);
  } finally {
    await browser.close();
  }
})().catch((error) => { console.error(error); process.exit(1); });
