// The console in a real Chromium, over a running Reseq.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { after, before, test } from "node:test";
import { prepare, fill } from "./scenario.mjs";
import { launch, Receiver, Service, signedIn, until } from "./support.mjs";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const EVIL = `"><script>window.hacked = 1</script><img src=x onerror="window.hacked = 2">`;
const PAGES = [
  "overview", "destinations", ...["overview", "lane?key=acct-7", "messages", "definition"].map((tab) => `destinations/crm/${tab}`), "destinations/erp/lane",
  ...["dead-letters", "dead-letters/3", "history", "operations"].map((tab) => `destinations/mail/${tab}`), "deliveries", "search?q=crm", "topics", "pods", "doctor", "tokens", "audit",
];

const service = new Service();
const receiver = new Receiver();
let browser;
let page;

before(async () => {
  await receiver.start();
  await service.start();
  await prepare(service, receiver);
  browser = await launch();
  page = await signedIn(browser, service);
});
after(async () => {
  await browser?.close();
  await service.stop();
  await receiver.stop();
});

const button = (name, within = page) => within.getByRole("button", { name, exact: true });
const dialog = (of = page) => of.getByRole("dialog");
const cellOf = (sequence, of = page) => of.locator(`.cell[data-sequence="${sequence}"]`);

async function settled(of) {
  await of.locator("main h1").first().waitFor();
  await of.waitForFunction(() => !/(Reading|Counting|reading) …/.test(document.body.innerText) && !document.querySelector(".sub")?.textContent?.match(/^…$/));
}

test("a wrong token is refused, and the session ends with sign-out", async () => {
  const context = await browser.newContext();
  const other = await context.newPage();
  await other.goto(`${service.url}/console`);
  await other.getByLabel("Token").fill("rsq_wrong");
  await button("Sign in", other).click();
  await other.getByRole("alert").getByText("this token is not valid").waitFor();
  await other.getByLabel("Token").fill("an-admin-token-for-the-tests-of-the-console");
  await button("Sign in", other).click();
  await other.getByRole("heading", { name: "Overview" }).waitFor();
  const [cookie] = await context.cookies();
  assert.deepEqual([cookie.httpOnly, cookie.sameSite], [true, "Strict"]);
  const [readable, secret] = await other.evaluate(() => [document.cookie, localStorage.getItem("reseq-session")]);
  assert.equal(readable, "");
  // Who has only one of the two parts has nothing. The cookie goes to each port of the host.
  const token = "an-admin-token-for-the-tests-of-the-console";
  assert.ok(![cookie.value, atob(cookie.value), secret].some((part) => part.includes(token)));
  const asked = async (headers) => (await fetch(`${service.url}/v1/stats`, { headers })).status;
  const both = { cookie: `${cookie.name}=${cookie.value}`, "reseq-session": secret };
  assert.deepEqual([await asked({ cookie: both.cookie }), await asked({ "reseq-session": secret }), await asked(both)], [401, 401, 200]);
  // A link in a new tab works.
  const tab = await context.newPage();
  await tab.goto(`${service.url}/console#/destinations`);
  await tab.getByRole("heading", { name: "Destinations" }).waitFor();
  await tab.getByText("live", { exact: true }).waitFor();
  await button("Sign out", other).click();
  await other.getByLabel("Token").waitFor();
  assert.equal(await other.evaluate(() => localStorage.getItem("reseq-session")), null);
  assert.equal(await asked(both), 401);
  // The other tab notices it, too: its stream has ended.
  await tab.getByLabel("Token").waitFor();
  assert.deepEqual(await context.cookies(), []);
  await context.close();
});

test("no page breaks a rule of axe, in light and dark, on a wide screen and on a phone, and none is wider than its screen", async () => {
  const phone = { viewport: { width: 390, height: 800 } };
  const kinds = [{}, { colorScheme: "dark" }, phone, { ...phone, colorScheme: "dark" }];
  for (const options of kinds) {
    const shown = await signedIn(browser, service, { ...options, bypassCSP: true });
    await shown.evaluate(AXE);
    for (const path of PAGES) {
      await shown.show(path);
      await settled(shown);
      const result = await shown.evaluate(() => globalThis.axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] }));
      const found = result.violations.map((one) => `${one.id}: ${one.nodes.map((node) => node.html).join("\n  ")}`);
      assert.deepEqual(found, [], `${path} ${JSON.stringify(options)}`);
      assert.ok(result.passes.length > 10, path);
      assert.ok(await shown.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${path} is too wide`);
    }
    // The search asks each destination for the id.
    assert.deepEqual(shown.problems.filter((one) => !/status of 404/.test(one)), []);
    await shown.context().close();
  }
});

test("dialogs break no rule of axe either, and Escape returns the focus", async () => {
  const shown = await signedIn(browser, service, { bypassCSP: true });
  await shown.evaluate(AXE);
  const each = [["destinations", "New destination"], ["destinations/crm/definition", "Change"], ["destinations/erp", "Send a message"], ["destinations/mail/dead-letters", "Redrive all"], ["destinations/mail/history", "Replay"], ["destinations/crm/lane?key=acct-7", "Repair the body and retry"], ["tokens", "New token"]];
  for (const [path, name] of each) {
    await shown.show(path);
    await button(name, shown).click();
    await dialog(shown).waitFor();
    const result = await shown.evaluate(() => globalThis.axe.run(document.querySelector("dialog")));
    assert.deepEqual(result.violations.map((one) => `${one.id}: ${one.nodes.map((node) => node.html).join("\n  ")}`), [], name);
    await shown.keyboard.press("Escape");
    await dialog(shown).waitFor({ state: "detached" });
    assert.equal(await shown.evaluate(() => document.activeElement?.textContent), name);
  }
  await shown.context().close();
});

test("the overview shows what waits, what needs attention, and that messages move", async () => {
  await page.show("overview");
  const tile = (name) => page.locator(".tile", { hasText: name });
  await tile("Halted").getByText("1", { exact: true }).waitFor();
  await tile("Dead letters").getByText("4", { exact: true }).waitFor();
  const row = page.getByRole("region", { name: "Needs attention" }).locator("tbody tr", { hasText: "crm" });
  await row.getByText("halted", { exact: true }).waitFor();
  await row.getByText("422 the account is closed").waitFor();
  assert.equal(await row.getByRole("link", { name: "acct-7" }).getAttribute("href"), "#/destinations/crm/lane?key=acct-7");
  // It is the first panel of the page.
  assert.equal(await page.locator("main h2").first().textContent(), "Needs attention");
  await page.getByText("with the role sender").waitFor();
  const before = await tile("In per second").locator(".tile-value").textContent();
  assert.equal(before, "0.0");
  await fill(service, 4);
  await page.waitForFunction(() => Number(document.querySelector(".tile-value").textContent) > 0);
});

test("messages finish out of order and leave in order, and the strip shows it while it happens", async () => {
  await service.define("flow", { url: `${receiver.url}/flow`, transform: { kind: "worker" } });
  await page.show("destinations/flow/lane");
  await page.getByText("Nothing is pending in this lane.").waitFor();
  for (let at = 0; at < 6; at += 1) await service.send("flow", { at });
  await cellOf(6).and(page.locator(".is-waiting")).waitFor();
  const leases = await service.claim("flow", 5, 5);
  await cellOf(5).and(page.locator(".is-processing")).waitFor();
  const x = async (sequence) => (await cellOf(sequence).boundingBox()).x;
  const [gate, before] = [(await page.locator(".gate").boundingBox()).x, await x(1)];
  assert.ok(before > gate);
  for (const sequence of [4, 2, 3]) {
    await service.complete(leases[sequence - 1]);
    await cellOf(sequence).and(page.locator(".is-ready")).waitFor();
  }
  // Three are ready, and none has left: the first is still in work.
  assert.equal(await page.locator(".cell.has-left").count(), 0);
  assert.deepEqual(receiver.sequences("/flow"), []);
  await page.getByText("5 messages, 3 of them ready").waitFor();
  await service.complete(leases[0]);
  await cellOf(4).and(page.locator(".has-left")).waitFor();
  assert.deepEqual(receiver.sequences("/flow"), [1, 2, 3, 4]);
  await until("it has passed the gate", async () => (await x(1)) < gate && (await x(4)) < gate && (await x(5)) > gate);
  assert.ok((await x(1)) < (await x(2)) && (await x(3)) < (await x(4)));
});

test("old addresses lead to the tabs of a destination, and each message has an address", async () => {
  const moved = { "lanes/crm?key=acct-7": "destinations/crm/lane?key=acct-7", "messages/crm?sequence=4": "destinations/crm/messages/4", "dead-letters/mail": "destinations/mail/dead-letters",
    "history/mail": "destinations/mail/history", "operations/mail": "destinations/mail/operations", lanes: "destinations" };
  for (const [old, now] of Object.entries(moved)) {
    await page.show(old);
    await page.waitForURL((url) => url.hash === `#/${now}`);
  }
  await page.show("destinations/mail");
  const tabs = page.getByRole("navigation", { name: "Pages of mail" });
  await tabs.getByText("Dead letters 4").waitFor();
  assert.deepEqual(await tabs.getByRole("link").allTextContents(), ["Overview", "Lane", "Messages", "Dead letters 4", "History", "Operations", "Definition"]);
  await tabs.getByRole("link", { name: "Dead letters" }).click();
  await page.getByRole("region", { name: "Dead letters" }).getByRole("link", { name: "6", exact: true }).click();
  await page.waitForURL((url) => url.hash === "#/destinations/mail/dead-letters/6");
  await dialog().locator(".errors").getByText("550 mailbox unavailable: no such user here").waitFor();
  await page.reload();
  await dialog().getByText("mail-5", { exact: true }).waitFor();
  assert.match(await page.title(), /^Message 6 · mail · Dead letters/);
  await page.keyboard.press("Escape");
  await page.waitForURL((url) => url.hash === "#/destinations/mail/dead-letters");
  // Without a key, the lane with the oldest head is shown.
  await page.show("destinations/crm/lane");
  await page.waitForURL((url) => url.hash === "#/destinations/crm/lane?key=acct-7");
  await page.getByText("Ordering key: acct-7").waitFor();
});

test("the overview of a destination is live: its numbers, its oldest heads, what needs attention", async () => {
  await page.show("destinations/crm");
  await page.locator(".panel.is-bad").getByText("halted").waitFor();
  await page.getByRole("region", { name: "Oldest heads" }).getByText("422 the account is closed").waitFor();
  const pending = page.locator(".tile", { hasText: "Pending" }).locator(".tile-value");
  const before = Number(await pending.textContent());
  await service.send("crm", { account: "acct-9" }, { key: "acct-9" });
  await until("the new message is counted", async () => Number(await pending.textContent()) === before + 1);
  await page.locator(".panel.is-bad").getByRole("link", { name: "Show the lane" }).click();
  await page.getByText("Ordering key: acct-7").waitFor();
});

test("the search finds a message by its id, a lane by its key, and a destination by its name", async () => {
  await service.define("orders-eu", { url: `${receiver.url}/orders`, ordering: "key", ids_max: 100 });
  await service.send("orders-eu", {}, { id: "order-4711", key: "customer-9" });
  await until("it is delivered", async () => (await service.ask("GET", "/v1/destinations/orders-eu/stats")).delivered_total === 1);
  const search = async (text) => {
    await page.locator("body").press("/");
    await page.keyboard.type(text);
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: `Search: ${text}` }).waitFor();
  };
  const row = page.getByRole("region", { name: "Messages and lanes" }).locator("tbody tr", { hasText: "orders-eu" });
  await page.show("overview");
  await search("order-4711");
  await row.getByText("delivered").waitFor();
  // What happened to it is two clicks away from any page.
  await row.getByRole("link", { name: "1", exact: true }).click();
  await dialog().locator(".step-name", { hasText: "delivered" }).waitFor();
  assert.match(page.url(), /#\/destinations\/orders-eu\/messages\/1$/);
  await page.keyboard.press("Escape");
  await search("acct-8");
  const crm = page.getByRole("region", { name: "Messages and lanes" }).locator("tbody tr", { hasText: "crm" });
  await crm.getByRole("link", { name: "lane" }).click();
  await page.getByText("Ordering key: acct-8").waitFor();
  await search("orders");
  await page.getByRole("link", { name: "orders-eu" }).click();
  await page.getByRole("heading", { name: "orders-eu" }).waitFor();
  // In a destination, a number is a sequence.
  await search("1");
  await row.filter({ hasText: "sequence" }).getByText("order-4711").waitFor();
  // Nothing found is not the same as nothing searched.
  const problem = { status: 503, title: "Redis does not answer", detail: "Redis does not answer", code: "redis_unavailable" };
  await page.route("**/v1/destinations/crm/messages**", (route) => route.fulfill({ status: 503, contentType: "application/problem+json", json: problem }));
  await page.show("search?q=nothing-has-this");
  await page.getByText(/^1 of \d+ destinations could not be searched: Redis does not answer$/).waitFor();
  await page.getByText("No message has this id or key in the destinations that were searched.").waitFor();
  await page.unroute("**/v1/destinations/crm/messages**");
});

test("a halted head is repaired in the editor, and leaves in its place", async () => {
  await page.show("destinations/crm/lane?key=acct-7");
  await page.getByText("you: retry it, repair it, set it aside or cancel it").waitFor();
  await page.locator(".errors").getByText("422 the account is closed").waitFor();
  await button("Repair the body and retry").click();
  const body = dialog().getByLabel("Body");
  assert.deepEqual(JSON.parse(await body.inputValue()), { account: "acct-7", change: 0 });
  await body.fill("{ not json");
  assert.equal(await button("Replace the body and retry").isDisabled(), true);
  await body.fill(`{"account": "acct-70", "change": 0}`);
  await button("Replace the body and retry").click();
  await page.getByText("Message 1 has its new body, and is tried again.").waitFor();
  const [repaired] = await service.claim("crm", 1);
  assert.deepEqual([repaired.sequence, repaired.body], [1, { account: "acct-70", change: 0 }]);
  await service.complete(repaired);
  await cellOf(1).and(page.locator(".has-left")).waitFor();
  assert.deepEqual(receiver.received.find((one) => one.path === "/crm" && one.sequence === 1).body, `{"account":"acct-70","change":0}`);
  assert.ok(receiver.sequences("/crm").indexOf(1) < Math.max(0, receiver.sequences("/crm").indexOf(3)) || !receiver.sequences("/crm").includes(3));
});

test("a stuck lane says why, since when, and what to do, two clicks from the overview", async () => {
  await service.define("stuck", { url: `${receiver.url}/stuck`, ordering: "key", transform: { kind: "worker" } });
  for (const at of [1, 2, 3]) await service.send("stuck", { at }, { key: "acct-3" });
  await service.fail((await service.claim("stuck", 1))[0], "422 the account has no address");
  await page.show("overview");
  await page.getByRole("region", { name: "Needs attention" }).getByRole("link", { name: "acct-3" }).click();
  const why = page.getByRole("region", { name: "Why is it stuck?" });
  const told = await service.ask("GET", "/v1/destinations/stuck/why?key=acct-3");
  await why.getByText(told.explanation).waitFor();
  await why.getByText("halted", { exact: true }).waitFor();
  await why.getByText("2 messages wait behind it").waitFor();
  for (const action of told.actions) await why.getByText(action.command, { exact: true }).waitFor();
  assert.ok(told.actions.length > 0);
  await button("Set aside").click();
  await why.waitFor({ state: "detached" });
});

test("a receiver that refuses everything for longer than a minute is red everywhere, one click from its lane", async () => {
  const own = await new Service({ withClock: true }).start();
  const refusing = await new Receiver().start();
  refusing.answer = () => ({ status: 503, text: "maintenance until 18:00" });
  try {
    await own.define("billing", { url: `${refusing.url}/billing`, delivery: { backoff_ms: 600_000, backoff_max_ms: 600_000 } });
    await own.define("quiet", { url: `${refusing.url}/quiet` });
    for (let at = 0; at < 5; at += 1) await own.send("billing", { at });
    const head = async () => (await own.ask("GET", "/v1/destinations/billing/stats")).head;
    await until("the first attempt has failed", async () => (await head())?.attempts > 0);
    const shown = await signedIn(browser, own);
    const panel = shown.locator(".panel", { hasText: "Needs attention" });
    await panel.getByText("Nothing needs attention.").waitFor();
    await shown.show("destinations");
    const row = shown.locator("tbody tr", { hasText: "billing" });
    await row.getByText("retrying").waitFor();
    own.step(90_000);
    await row.and(shown.locator(".is-bad")).getByText("failing").waitFor();
    await row.getByText("status 503").waitFor();
    assert.equal(await shown.locator("tbody tr", { hasText: "quiet" }).getAttribute("class"), "");
    await shown.show("overview");
    await panel.and(shown.locator(".is-bad")).getByText("1 destination", { exact: true }).waitFor();
    await panel.locator("tr", { hasText: "status 503" }).getByRole("link", { name: "all messages" }).click();
    await cellOf(1, shown).and(shown.locator(".is-failing")).waitFor();
    await shown.getByText("4 messages, 4 of them ready").waitFor();
    await shown.context().close();
  } finally {
    await own.stop();
    await refusing.stop();
  }
});

test("nothing is live while Redis does not answer, and times name their zone", async () => {
  const own = await new Service().start();
  await own.define("erp", { url: `${receiver.url}/erp` });
  try {
    const shown = await signedIn(browser, own, { timezoneId: "Asia/Kolkata" });
    await shown.getByText(/Times are in Asia\/(Calcutta|Kolkata), UTC\+05:30\./).waitFor();
    const tabs = [];
    const context = shown.context();
    await shown.close();
    // A browser has six connections to a server.
    for (const path of ["overview", "destinations/erp", "pods", "deliveries"]) {
      const tab = await context.newPage();
      await tab.goto(`${own.url}/console#/${path}`);
      await tab.locator(".live.is-on").waitFor();
      tabs.push(tab);
    }
    own.freezeRedis(true);
    for (const tab of tabs) {
      await tab.getByText("not current").waitFor();
      assert.equal(await tab.locator(".live.is-on").count(), 0, tab.url());
    }
    await context.close();
  } finally {
    own.freezeRedis(false);
    await own.stop();
  }
});

test("a head that waits for its next attempt says when it begins", async () => {
  await service.define("later", { url: `${receiver.url}/later` });
  receiver.answer = ({ path }) => (path === "/later" ? { status: 503, headers: { "retry-after": "600" } } : { status: 200 });
  await service.send("later", {});
  await page.show("destinations/later/lane");
  const told = page.locator(".why").getByText(/^Next attempt: /);
  await told.waitFor();
  assert.match(await told.textContent(), /Next attempt: \d{4}-\d\d-\d\d \d\d:\d\d:\d\d, in \d+ min/);
  receiver.answer = () => ({ status: 200 });
});

test("on a phone a row of a table has its name in one line, and its numbers in the next", async () => {
  const phone = await signedIn(browser, service, { viewport: { width: 390, height: 800 } });
  await phone.show("destinations");
  const row = phone.locator("tbody tr", { hasText: "crm" });
  await row.locator("td[data-label=Pending]").waitFor();
  const [name, pending, age] = await Promise.all(["td >> nth=0", "td[data-label=Pending]", "td[data-label='Head age']"].map(async (one) => row.locator(one).boundingBox()));
  assert.ok(pending.y > name.y && pending.y === age.y && age.x + age.width <= 390, JSON.stringify([name, pending, age]));
  await phone.context().close();
});

test("the lanes with the most waiting are found among all keys", async () => {
  await service.define("keys", { url: `${receiver.url}/keys`, ordering: "key", transform: { kind: "worker" } });
  for (let key = 0; key < 12; key += 1) for (let at = 0; at <= key; at += 1) await service.send("keys", { at }, { key: `key-${key}` });
  await page.show("destinations/keys/lane");
  await button("Find them").click();
  await button("Read again").waitFor();
  const rows = page.getByRole("region", { name: "Lanes with the most waiting" }).locator("tbody tr");
  assert.deepEqual(await rows.locator("td:first-child").allTextContents(), Array.from({ length: 10 }, (_, at) => `key-${11 - at}`));
  assert.deepEqual(await rows.locator("td:nth-child(2)").allTextContents(), Array.from({ length: 10 }, (_, at) => String(12 - at)));
  await rows.first().getByRole("link").click();
  await page.getByText("Ordering key: key-11").waitFor();
});

test("deliveries are shown as they happen, those that are asked for", async () => {
  await service.define("seen", { url: `${receiver.url}/seen`, ordering: "key" });
  await service.define("unseen", { url: `${receiver.url}/unseen` });
  await page.show("deliveries/seen");
  await page.getByText("Nothing has been delivered since you opened the page.").waitFor();
  await service.send("unseen", { at: 0 });
  await until("it is delivered", () => receiver.sequences("/unseen").length === 1);
  receiver.answer = ({ path, sequence }) => (path === "/seen" && sequence === 2 ? { status: 422, text: "no such account" } : { status: 200 });
  for (const key of ["a", "b"]) await service.send("seen", {}, { key });
  const rows = page.getByRole("region", { name: "Deliveries" }).locator("tbody tr");
  await rows.filter({ hasText: "accepted" }).getByRole("link", { name: "a", exact: true }).waitFor();
  await rows.filter({ hasText: "refused" }).getByText("no such account").waitFor();
  assert.equal(await rows.count(), 2);
  await page.getByLabel("Outcome").selectOption("accepted");
  const asked = page.waitForRequest((request) => request.url().includes("outcome=accepted"));
  await button("Filter").click();
  await asked;
  await page.getByText("Nothing has been delivered since you opened the page.").waitFor();
  const ended = page.waitForEvent("requestfailed", (request) => request.url().includes("/v1/deliveries"));
  await button("Pause the page").click();
  await ended;
  receiver.answer = () => ({ status: 200 });
});

test("the doctor says what is wrong, and what to do", async () => {
  await page.show("doctor");
  const report = await service.ask("GET", "/v1/doctor");
  const rows = page.getByRole("region", { name: "Findings" }).locator("tbody tr");
  const halted = report.findings.find((one) => one.check === "stuck_lanes" && one.subject === "seen");
  assert.ok(halted, JSON.stringify(report.findings));
  await rows.filter({ hasText: halted.summary }).getByText(halted.action).waitFor();
  for (const check of report.checks) await page.locator(".checks code", { hasText: check }).first().waitFor();
  // A check that could not be made is not one that has passed. This Redis can be asked everything, so the answer is changed.
  const [first, second] = report.checks;
  await page.route("**/v1/doctor", async (route) => {
    const answer = await route.fetch();
    await route.fulfill({ response: answer, json: { ...(await answer.json()), findings: [], not_checked: [{ check: first, reason: "the primary 10.0.0.7:6379 does not answer" }] } });
  });
  await button("Check again").click();
  const check = (name) => page.locator(".checks li").filter({ has: page.locator("code", { hasText: new RegExp(`^${name}$`) }) });
  await check(first).getByText("not checked: the primary 10.0.0.7:6379 does not answer").waitFor();
  assert.equal(await check(first).getByText("passed").count(), 0);
  await check(second).getByText("passed").waitFor();
  await page.getByText(`${report.checks.length - 1} checks have passed, and 1 could not be made.`).waitFor();
  await page.unroute("**/v1/doctor");
  const asked = page.waitForResponse((answer) => answer.url().endsWith("/v1/doctor"));
  await button("Check again").click();
  assert.equal((await asked).status(), 200);
});

test("a head is retried, set aside and cancelled, and all failed heads are retried", async () => {
  await service.define("heads", { url: `${receiver.url}/heads`, ordering: "key", transform: { kind: "worker" } });
  for (const key of ["a", "b"]) for (const at of [1, 2]) await service.send("heads", { at }, { key });
  for (const lease of await service.claim("heads", 4, 4)) await service.fail(lease, "broken");
  await page.show("destinations/heads/lane?key=a");
  await button("Retry now").click();
  await page.getByText("Message 1 is tried again.").waitFor();
  await cellOf(1).and(page.locator(".is-waiting")).waitFor();
  await button("Set aside").click();
  await page.getByText("Message 1 is now a dead letter.").waitFor();
  await cellOf(1).and(page.locator(".has-left")).waitFor();
  await cellOf(2).click();
  await page.locator(".message").getByText("failed in transform").waitFor();
  await page.locator(".head-number", { hasText: "2" }).waitFor();
  await button("Cancel the message", page.locator(".panel", { hasText: "Head of the lane" })).click();
  await button("Cancel message 2", dialog()).click();
  await page.getByText("Nothing is pending in this lane.").waitFor();
  // One head is halted, another waits for a backoff: both are retried.
  await service.define("heads", { url: `${receiver.url}/heads`, ordering: "key", transform: { kind: "worker" } });
  await service.send("heads", { at: 5 }, { key: "c" });
  await service.fail((await service.claim("heads", 1))[0], "busy", { retry_ms: 600_000 });
  await page.show("destinations/heads/lane?key=b");
  await button("Retry all failed heads").click();
  await dialog().getByText("halted, and all that wait for a backoff").waitFor();
  await button("Retry", dialog()).click();
  await dialog().getByText("succeeded: 2 of 2 done").waitFor();
  await button("Close", dialog().locator(".is-end")).click();
  await cellOf(3).and(page.locator(".is-waiting")).waitFor();
});

test("the strip is reachable by keyboard", async () => {
  await page.show("destinations/crm/lane?key=acct-8");
  await cellOf(7).waitFor();
  assert.equal(await page.locator('.cell[tabindex="0"]').count(), 1);
  await page.locator('.cell[tabindex="0"]').focus();
  await page.keyboard.press("End");
  await page.keyboard.press("ArrowLeft");
  const focused = await page.evaluate(() => document.activeElement.dataset.sequence);
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: `Message ${focused}` }).waitFor();
});

test("a destination is created with the rules of the schema, changed, paused, and removed", async () => {
  await page.show("destinations");
  await button("New destination").click();
  await button("Create").click();
  await dialog().getByText("a destination needs a name").waitFor();
  await dialog().getByLabel("name", { exact: false }).first().fill("made-here");
  await dialog().locator('input[name="url"]').fill("ftp://nowhere");
  await dialog().locator('select[name="ordering"]').selectOption("key");
  await dialog().locator('select[name="transform/kind"]').selectOption("worker");
  await dialog().locator('input[name="transform/timeout_ms"]').fill("soon");
  await button("Create").click();
  await dialog().locator(".has-error", { hasText: "timeout_ms" }).waitFor();
  await dialog().locator('input[name="transform/timeout_ms"]').fill("1500");
  await button("Create").click();
  // What the schema cannot say, the API does.
  await dialog().getByRole("alert").getByText(/url/).first().waitFor();
  await dialog().locator('input[name="url"]').fill(`${receiver.url}/made`);
  await button("Create").click();
  await page.getByRole("heading", { name: "made-here" }).waitFor();
  const made = await service.ask("GET", "/v1/destinations/made-here");
  assert.deepEqual([made.ordering, made.transform.kind, made.transform.timeout_ms, made.weight], ["key", "worker", 1500, 1]);
  await page.getByRole("link", { name: "Definition" }).click();
  await button("Change").click();
  await dialog().getByText("more Headers").click();
  await dialog().locator('input[name="weight"]').fill("7");
  await dialog().locator('textarea[name="headers"]').fill("x-secret: 42");
  await dialog().locator('input[name="transform/timeout_ms"]').fill("90000");
  // What changes is shown first, with its unit.
  await button("Review the changes").click();
  const changes = dialog().getByRole("region", { name: "Changes" }).locator("tbody tr");
  assert.deepEqual((await changes.allTextContents()).sort(), ["headers–x-secret: 42", "transform.timeout_ms1,500 ms90 s", "weight17"]);
  assert.equal((await service.ask("GET", "/v1/destinations/made-here")).weight, 1);
  await button("Back").click();
  await dialog().locator('input[name="transform/timeout_ms"]').fill("1500");
  await button("Review the changes").click();
  await button("Save").click();
  await until("it is saved", async () => (await service.ask("GET", "/v1/destinations/made-here")).weight === 7);
  const changed = await service.ask("GET", "/v1/destinations/made-here");
  assert.deepEqual([changed.headers, changed.transform.timeout_ms], [{ "x-secret": "***" }, 1500]);
  // The definition shows what differs from the default.
  const differs = page.getByRole("region", { name: "Differs from the default" });
  await differs.locator("tr", { hasText: "weight" }).getByText("7", { exact: true }).waitFor();
  assert.deepEqual(await differs.locator("tr", { hasText: "timeout_ms" }).locator("td").allTextContents().then((all) => all.slice(0, 2)), ["transform.timeout_ms", "1,500 ms"]);
  assert.deepEqual((await differs.locator("td:first-child").allTextContents()).sort(), ["headers", "name", "ordering", "transform.kind", "transform.timeout_ms", "url", "weight"]);
  await page.locator("nav.tabs").getByRole("link", { name: "Overview" }).click();
  await button("Pause delivery").click();
  await page.getByText("delivery paused").waitFor();
  await button("Resume delivery").click();
  await button("Pause delivery").waitFor();
  await button("Send a message").click();
  await dialog().getByLabel("Ordering key").fill("k");
  await button("Send", dialog()).click();
  await dialog().getByText("made-here has it as message 1").waitFor();
  await button("Close", dialog().locator(".is-end")).click();
  await button("Purge pending messages").click();
  await button("Purge 1", dialog()).click();
  await dialog().getByText("succeeded").waitFor();
  await button("Close", dialog().locator(".is-end")).click();
  for (const part of ["ingest", "processing", "delivery"]) {
    await button(`Pause ${part}`).click();
    await button(`Resume ${part}`).waitFor();
  }
  await button("Repair inconsistent data").click();
  await dialog().getByText("0 messages selected").waitFor();
  await page.keyboard.press("Escape");
  await page.getByRole("link", { name: "Definition" }).click();
  await button("Remove the destination").click();
  await dialog().getByLabel("Type made-here to confirm").fill("made-here");
  await button("Remove made-here").click();
  await page.getByRole("heading", { name: "Destinations" }).waitFor();
});

test("messages are filtered by Reseq, and one shows its timeline and its body", async () => {
  await page.show("destinations/crm/messages");
  const rows = page.getByRole("region", { name: "Messages" }).locator("tbody tr");
  await until("all are listed", async () => (await rows.count()) > 10);
  await page.getByLabel("State").selectOption("processing");
  const asked = page.waitForRequest((request) => request.url().includes("state=processing"));
  await button("Filter").click();
  await asked;
  await until("only those are listed", async () => (await rows.locator(".chip:not(.is-processing)").count()) === 0 && (await rows.count()) > 0);
  await page.getByLabel("What to find").fill("4");
  await button("Show").click();
  await dialog().getByText("arrived", { exact: true }).waitFor();
  await page.keyboard.press("Escape");
  await page.show("destinations/erp/messages");
  await page.getByLabel("Find by").selectOption("id");
  const id = (await service.ask("GET", "/v1/destinations/erp/messages?limit=1")).items[0].id;
  await page.getByLabel("What to find").fill(id);
  await button("Show").click();
  await dialog().getByText(id).waitFor();
  await button(/Show the body/, dialog()).click().catch(() => dialog().getByRole("button", { name: /Show the body/ }).click());
  await dialog().getByText("acct-1042").waitFor();
  const download = page.waitForEvent("download");
  await button("Download", dialog()).click();
  assert.match(readFileSync(await (await download).path(), "utf8"), /acct-1042/);
});

test("failures are grouped by error, and a whole group is retried", async () => {
  const long = `550 mailbox unavailable: ${"the reason is far to the right. ".repeat(20)}`;
  await service.define("groups", { url: `${receiver.url}/groups`, ordering: "key", transform: { kind: "worker" }, on_exhausted: "dead_letter" });
  for (let at = 0; at < 5; at += 1) await service.send("groups", { at }, { key: `k-${at}` });
  for (const lease of await service.claim("groups", 5, 5)) await service.fail(lease, lease.sequence < 4 ? `no account ${7000 + lease.sequence}` : long);
  await page.show("destinations/groups/dead-letters");
  const groups = page.getByRole("region", { name: "By error" }).locator("tbody tr");
  await groups.first().getByText("no account 7001").waitFor();
  assert.deepEqual(await groups.locator("td:nth-child(2)").allTextContents(), ["3", "2"]);
  // A long error is whole when it is opened.
  const letter = page.getByRole("region", { name: "Dead letters" }).locator("tbody tr", { hasText: "k-4" });
  await letter.locator("td").last().locator("summary").click();
  await letter.getByText(long.trim()).last().waitFor();
  await button("Redrive these 3").click();
  await dialog().getByText("3 messages selected").waitFor();
  await button("Redrive 3").click();
  await dialog().getByText("succeeded").waitFor();
  await button("Close", dialog().locator(".is-end")).click();
  await until("one group is left", async () => (await groups.count()) === 1);
  // Pending: three lanes whose heads wait for a backoff, and one that is halted for another reason.
  await service.define("groups", { url: `${receiver.url}/groups`, ordering: "key", transform: { kind: "worker" } });
  for (const lease of await service.claim("groups", 3, 3)) await service.fail(lease, `busy, try after ${lease.sequence} s`, { retry_ms: 600_000 });
  await service.send("groups", {}, { key: "other" });
  await service.fail((await service.claim("groups", 1))[0], "no such account");
  await page.show("destinations/groups");
  const lanes = page.getByRole("region", { name: "Failing lanes by error" }).locator("tbody tr");
  await lanes.first().getByText("busy, try after").waitFor();
  assert.deepEqual(await lanes.locator("td:nth-child(2)").allTextContents(), ["3", "1"]);
  await button("Retry these 3").click();
  await button("Retry 3", dialog()).click();
  await dialog().getByText("succeeded: 3 of 3 done").waitFor();
  await button("Close", dialog().locator(".is-end")).click();
  assert.equal((await service.claim("groups", 3, 3)).length, 3);
  assert.equal((await service.ask("GET", "/v1/destinations/groups/stats")).halted, 1);
});

test("a dead letter is redriven, and others are discarded, each with the count first", async () => {
  await page.show("destinations/mail/dead-letters");
  await page.getByLabel("Mark 3", { exact: true }).check();
  await button("Redrive").click();
  await dialog().getByText("1 message selected").waitFor();
  assert.equal((await service.ask("GET", "/v1/destinations/mail/stats")).pending, 0, "the count changes nothing");
  await button("Redrive 1").click();
  await dialog().getByText("succeeded").waitFor();
  await button("Close", dialog().locator(".is-end")).click();
  const [again] = await service.claim("mail", 1);
  assert.deepEqual([again.sequence, again.id, again.body], [13, "mail-2", { to: "user2@example.com" }]);
  await service.complete(again);
  await until("it is delivered", () => receiver.sequences("/mail").includes(13));
  await page.getByLabel("Error contains").fill("no such user");
  await button("Filter").click();
  await page.getByLabel("Sequence from").fill("6");
  await button("Filter").click();
  await button("Discard all that match").click();
  await dialog().getByText("3 messages selected").waitFor();
  await button("Discard 3").click();
  await dialog().getByText("succeeded").waitFor();
  await button("Close", dialog().locator(".is-end")).click();
  await page.getByText("No dead letter matches.").waitFor();
});

test("the history shows how long each step took, and delivered messages are replayed", async () => {
  await page.show("destinations/mail/history");
  const table = page.getByRole("region", { name: "History" });
  await table.getByText("dead-lettered").first().waitFor();
  await table.getByRole("link", { name: "1", exact: true }).click();
  for (const step of ["arrived", "claimed", "ready", "delivery began", "delivered"]) await dialog().locator(".step-name", { hasText: step }).first().waitFor();
  await page.keyboard.press("Escape");
  await button("Replay").click();
  await dialog().getByLabel("From sequence").fill("1");
  await dialog().getByLabel("To sequence").fill("2");
  await button("Count them").click();
  await dialog().getByText("2 messages selected").waitFor();
  await button("Replay 2").click();
  await dialog().getByText("succeeded").waitFor();
  await button("Close", dialog().locator(".is-end")).click();
  assert.equal((await service.ask("GET", "/v1/destinations/mail/stats")).pending, 2);
  await page.show("destinations/mail/operations");
  const rows = page.getByRole("region", { name: "Operations" });
  for (const kind of ["replay", "redrive", "discard"]) await rows.getByText(kind).first().waitFor();
});

test("topics, tokens and pods", async () => {
  await page.show("topics");
  await button("New topic").click();
  await dialog().getByLabel("Name").fill("all");
  await dialog().getByLabel("Destinations").fill("erp\nmail");
  await button("Save").click();
  await page.getByText("erp, mail").waitFor();
  await page.show("tokens");
  await button("New token").click();
  await dialog().getByLabel("Name").fill("for a test");
  await button("Make the token").click();
  const token = await dialog().locator(".token").textContent();
  assert.match(token, /^rsq_/);
  assert.equal((await service.ask("GET", "/v1/topics/all", undefined, { token })).name, "all");
  await button("Close", dialog().locator(".is-end")).click();
  await page.locator("tr", { hasText: "for a test" }).getByRole("button", { name: "Revoke" }).click();
  await button("Revoke for a test").click();
  await page.locator("tr", { hasText: "for a test" }).waitFor({ state: "detached" });
  await page.show("pods");
  await page.getByText("this one").waitFor();
  await page.getByText("ingest, processor, sender").waitFor();
  await page.getByRole("region", { name: "Pods" }).getByText("0–7", { exact: true }).waitFor();
  await page.getByRole("region", { name: "Partitions" }).getByText("0–7 (8)").waitFor();
});

test("the audit log shows what was done here, and filters it", async () => {
  await page.show("audit");
  const rows = page.getByRole("region", { name: "Audit" }).locator("tbody tr");
  await rows.filter({ hasText: "revoke_token" }).first().getByText("admin_token").waitFor();
  await rows.filter({ hasText: "make_token" }).first().getByText("succeeded").waitFor();
  await page.getByLabel("Action").fill("redrive");
  const asked = page.waitForRequest((request) => request.url().includes("action=redrive"));
  await button("Filter").click();
  await asked;
  await until("only those are listed", async () => (await rows.count()) > 0 && (await rows.filter({ hasNotText: "redrive" }).count()) === 0);
  await rows.first().getByRole("link", { name: "mail" }).waitFor();
});

test("who may only read sees everything of the listed destinations, and no button that changes something", async () => {
  const reader = await signedIn(browser, service, { token: await service.token(["read"], ["crm"]) });
  await reader.getByText("1 destinations").or(reader.getByText("1 destination")).first().waitFor();
  await reader.show("destinations");
  await reader.getByRole("link", { name: "crm", exact: true }).waitFor();
  assert.equal(await reader.getByRole("link", { name: "erp", exact: true }).count(), 0);
  for (const path of ["overview", "lane?key=acct-8", "dead-letters", "history", "messages", "definition"].map((tab) => `destinations/crm/${tab}`)) {
    await reader.show(path);
    await settled(reader);
    for (const name of ["New destination", "Change", "Pause delivery", "Retry now", "Set aside", "Cancel the message", "Redrive all", "Discard all", "Replay"])
      assert.equal(await button(name, reader).count(), 0, `${path}: ${name}`);
  }
  await reader.show("destinations/erp/lane");
  await reader.waitForResponse((answer) => answer.url().includes("destinations/erp") && answer.status() === 403);
  await reader.context().close();
});

test("script tags in bodies, headers, keys, ids and errors stay text", async () => {
  await service.define("evil", { url: `${receiver.url}/evil`, ordering: "key", transform: { kind: "worker" }, ids_max: 10, log_bodies: true });
  const more = { key: EVIL, id: `${EVIL} id\u202etxt.exe`, headers: { "x-evil": EVIL } };
  await service.send("evil", { text: EVIL }, more);
  await service.send("evil", { text: EVIL }, { key: EVIL, id: "second" });
  receiver.answer = ({ path }) => (path === "/evil" ? { status: 400, text: EVIL } : { status: 200 });
  const leases = await service.claim("evil", 2, 2);
  await service.complete(leases[0]);
  await service.fail(leases[1], EVIL);
  await until("the head is refused", async () => (await service.ask("GET", "/v1/destinations/evil/stats")).head?.last_error?.stage === "delivery");
  const at = encodeURIComponent(EVIL);
  page.problems.length = 0;
  for (const path of ["overview", "destinations/evil", ...["lane", "messages", "dead-letters", "history"].map((tab) => `destinations/evil/${tab}?key=${at}`), `destinations/${at}`, `destinations/${at}/lane`]) {
    await page.show(path);
    await settled(page);
    assert.doesNotMatch(await page.evaluate(() => document.body.innerText), /[\u200b-\u200f\u2028-\u202e\u2066-\u2069]/);
    if (!path.startsWith("destinations/evil/lane")) continue;
    await page.locator(".errors pre", { hasText: "<script>window.hacked" }).first().waitFor();
    await cellOf(1).click();
    await page.locator(".message").getByText(`${EVIL} id`).waitFor();
    await page.locator(".message").getByText("\\u{202e}txt.exe").first().waitFor();
    await page.locator(".message").getByText("x-evil").waitFor();
    await page.locator(".message").getByRole("button", { name: /Show the body/ }).click();
    await page.locator(".message pre.code", { hasText: "<script>" }).waitFor();
  }
  assert.equal(await page.evaluate(() => globalThis.hacked), undefined);
  assert.equal(await page.locator("main script, main img").count(), 0);
  assert.deepEqual(page.problems.filter((one) => !/status of 40[0-9]/.test(one)), []);
});

/** Sends two messages for each key to a destination with shards. Returns the first one of each key. */
async function sendKeys(keys, destination) {
  const firsts = [];
  for (let at = 0; at < 2 * keys; at += 1) {
    const key = `k${at % keys}`;
    const { deliveries: [stored] } = await service.ask("POST", "/v1/messages", { destinations: [destination], body: { key, at }, key, id: `${destination}-${at}` });
    if (at < keys) firsts.push({ key, id: `${destination}-${at}`, sequence: stored.sequence, shard: stored.destination.includes("~") ? stored.destination : `${stored.destination}~0` });
  }
  return firsts;
}

test("what is done with a message of a destination with shards goes to its shard", async () => {
  await service.define("spread", { url: `${receiver.url}/spread`, ordering: "key", shards: 4, transform: { kind: "worker" } });
  const firsts = await sendKeys(12, "spread");
  page.problems.length = 0;
  const failing = new Set();
  for (const lease of await service.claim("spread", 24, 24)) {
    if (!failing.has(lease.key) && failing.add(lease.key)) await service.fail(lease, "423 locked");
  }
  // The same sequence in two shards, of which neither is the first.
  const [one, other] = ["spread~1", "spread~2", "spread~3"].map((shard) => firsts.find((first) => first.shard === shard && first.sequence === 1)).filter(Boolean);
  assert.ok(one && other, JSON.stringify(firsts));
  await page.show("destinations/spread");
  const tile = (name) => page.locator(".tile", { hasText: name });
  await tile("Halted").getByText("12", { exact: true }).waitFor();
  await tile("Pending").getByText("24", { exact: true }).waitFor();
  await page.getByText("4 shards").waitFor();
  const head = page.getByRole("region", { name: "Oldest heads" }).locator("tbody tr").filter({ has: page.getByRole("link", { name: one.key, exact: true }) });
  assert.equal(await head.getByRole("link", { name: "1", exact: true }).getAttribute("href"), `#/destinations/${one.shard}/messages/1`);
  // Lists show the shard, and a message opens over its list, also if only those of a key are listed.
  await page.show("destinations/spread/messages");
  assert.equal(await page.getByLabel("Sequence from").count(), 0);
  await page.locator(".filters select", { has: page.locator("option", { hasText: "any" }) }).selectOption("yes");
  await page.getByLabel("Key (empty: without a key)").fill(one.key);
  await button("Filter").click();
  const rows = page.getByRole("region", { name: "Messages" }).locator("tbody tr");
  await until("those of the key are listed", async () => (await rows.count()) === 2);
  await rows.first().getByText(one.shard).first().waitFor();
  await rows.first().getByRole("link", { name: "1", exact: true }).click();
  await dialog().getByText(one.id, { exact: true }).waitFor();
  await dialog().getByRole("heading", { name: `Message 1 of ${one.shard}` }).waitFor();
  await page.keyboard.press("Escape");
  await page.getByLabel("What to find").fill(other.id);
  await button("Show").click();
  await dialog().getByRole("heading", { name: `Message 1 of ${other.shard}` }).waitFor();
  // The page of a lane is that of its shard. What is for the whole destination is not there.
  for (const { shard, key } of [one, other]) {
    await page.show(`destinations/spread/lane?key=${key}`);
    await page.getByRole("heading", { name: shard }).waitFor();
    await button("Set aside").click();
    await page.getByText("Message 1 is now a dead letter.").waitFor();
  }
  await page.locator("nav.tabs").getByRole("link", { name: "Overview" }).click();
  await button("Purge pending messages").waitFor();
  assert.deepEqual(await Promise.all(["Pause delivery", "Send a message"].map((name) => button(name).count())), [0, 0]);
  await page.getByRole("link", { name: "Definition" }).click();
  await page.getByText("Change it there.").waitFor();
  assert.equal(await button("Change").count(), 0);
  await page.locator(".head").getByRole("link", { name: "spread", exact: true }).click();
  await page.getByRole("heading", { name: "spread", exact: true }).waitFor();
  // Lanes by error are retried in all shards; the dead letters are not among them.
  await button("Retry these 10").click();
  await button("Retry 10", dialog()).click();
  await dialog().getByText("succeeded: 10 of 10 done").waitFor();
  await button("Close", dialog().locator(".is-end")).click();
  // Marked dead letters of two shards are redriven, each in its own. A page of a list is of one shard.
  await page.show("destinations/spread/dead-letters");
  await page.getByLabel(`Mark 1 ${one.shard}`, { exact: true }).check();
  await button("Next").click();
  await page.getByLabel(`Mark 1 ${other.shard}`, { exact: true }).check();
  await button("Redrive").click();
  await dialog().getByText("2 messages selected").waitFor();
  await button("Redrive 2").click();
  await until("both have succeeded", async () => (await dialog().getByText("succeeded: 1 of 1 stored again").count()) === 2);
  assert.deepEqual(await dialog().locator("h3").allTextContents(), [one.shard, other.shard].sort());
  await button("Close", dialog().locator(".is-end")).click();
  assert.equal((await service.ask("GET", "/v1/destinations/spread/stats")).dead_letters, 0);
  await page.show("destinations/spread/operations");
  await page.getByRole("region", { name: "Operations" }).locator("tr", { hasText: "redrive" }).getByText(one.shard).first().waitFor();
  await button("Next").click();
  await page.getByRole("region", { name: "Operations" }).locator("tr", { hasText: "redrive" }).getByText(other.shard).first().waitFor();
  assert.deepEqual(page.problems, [], "nothing was refused");
});

test("the number of shards is shown, and cannot be changed", async () => {
  await service.define("fixed", { url: `${receiver.url}/fixed`, ordering: "none", shards: 3 });
  for (const [name, shards] of [["fixed", "3"], ["crm", "1"]]) {
    await page.show(`destinations/${name}/definition`);
    await button("Change").click();
    const field = dialog().locator('input[name="shards"]');
    await until("its value is read", async () => (await field.inputValue()) === shards);
    assert.equal(await field.isDisabled(), true);
    await page.keyboard.press("Escape");
  }
  // Without ordering too, a lane is in a shard.
  await page.show("destinations/fixed/lane");
  await page.getByRole("heading", { name: /^fixed~\d$/ }).waitFor();
  await page.getByText("Nothing is pending in this lane.").waitFor();
});

test("a hidden page and a closed page ask nothing", async () => {
  const watched = await signedIn(browser, service);
  await watched.show("destinations/flow/lane");
  await cellOf(5, watched).waitFor();
  const opened = [];
  watched.on("request", (request) => request.url().includes("/console/events") && opened.push(request.url()));
  const closed = watched.waitForEvent("requestfailed", (request) => request.url().includes("view=lane"));
  await watched.evaluate(() => {
    Object.defineProperty(document, "hidden", { value: true, configurable: true });
    document.dispatchEvent(new Event("visibilitychange"));
  });
  await closed;
  assert.deepEqual(opened, []);
  await watched.evaluate(() => {
    Object.defineProperty(document, "hidden", { value: false, configurable: true });
    document.dispatchEvent(new Event("visibilitychange"));
  });
  await until("it is opened again", () => opened.length === 1);
  await watched.context().close();
});
