// Draws the pictures of the documentation (docs/images/console), from a running Reseq: `make console-screenshots`. With
// `--lane`, only the animated one.
import { mkdirSync, writeFileSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import gifenc from "gifenc";
import { PNG } from "pngjs";
import { fill, flow, prepare } from "../test/scenario.mjs";
import { launch, Receiver, Service, signedIn } from "../test/support.mjs";

const { GIFEncoder, applyPalette, quantize } = gifenc;
const folder = fileURLToPath(new URL("../../../docs/images/console/", import.meta.url));
const PAGES = {
  overview: "overview", destinations: "destinations", lane: "destinations/erp/lane", "halted-lane": "destinations/crm/lane?key=acct-7", messages: "destinations/crm/messages", destination: "destinations/crm", definition: "destinations/crm/definition",
  "dead-letters": "destinations/mail/dead-letters", history: "destinations/mail/history", operations: "destinations/mail/operations", topics: "topics", pods: "pods", tokens: "tokens", audit: "audit",
  deliveries: "deliveries", doctor: "doctor",
};
/** Frames of the animated picture, and the time between them. */
const FRAMES = 36;
const FRAME_MS = 200;
const COLOURS = 63;

mkdirSync(folder, { recursive: true });
const service = await new Service().start();
const receiver = await new Receiver().start();
const browser = await launch();
try {
  await prepare(service, receiver);
  await service.ask("POST", "/v1/destinations/mail/dead-letters/redrive", { all: true, dry_run: true });
  await service.token(["read", "operate"], ["erp", "crm"]);
  await fill(service, 10);
  // Always the same sequence of pseudo-random numbers.
  let seed = 7;
  const random = () => (seed = (seed * 16807) % 2147483647) / 2147483647;
  const stop = flow(service, { random });
  const kinds = process.argv.includes("--lane") ? [] : [["", {}], ["-dark", { colorScheme: "dark" }], ["-phone", { viewport: { width: 390, height: 780 } }]];
  for (const [kind, options] of kinds) {
    const page = await signedIn(browser, service, { viewport: { width: 1180, height: 780 }, ...options });
    for (const [name, path] of Object.entries(PAGES)) {
      if (kind && !["overview", "lane"].includes(name)) continue;
      await page.show(path);
      await pause(name === "overview" ? 8000 : 2000);
      // Why it is stuck is below the head.
      await page.setViewportSize({ width: page.viewportSize().width, height: name === "halted-lane" ? 1240 : 780 });
      await page.screenshot({ path: `${folder}${name}${kind}.png` });
    }
    await page.context().close();
  }
  const page = await signedIn(browser, service, { viewport: { width: 1000, height: 780 } });
  await page.show("destinations/erp/lane");
  await page.locator(".cell.has-left").first().waitFor();
  await pause(1500);
  const gif = GIFEncoder();
  let palette;
  let last;
  for (let at = 0; at < FRAMES; at += 1) {
    const { data, width, height } = PNG.sync.read(await page.locator(".strip-panel").screenshot());
    palette ??= quantize(data, COLOURS);
    const colours = applyPalette(data, palette);
    // What has not changed is transparent, so that the picture stays small.
    const changed = last ? colours.map((colour, place) => (colour === last[place] ? COLOURS : colour)) : colours;
    last = colours;
    const options = at ? { transparent: true, transparentIndex: COLOURS } : { palette: [...palette, ...Array(COLOURS + 1 - palette.length).fill([0, 0, 0])] };
    gif.writeFrame(changed, width, height, { ...options, delay: FRAME_MS, dispose: 1 });
    await pause(FRAME_MS - 60);
  }
  gif.finish();
  writeFileSync(`${folder}lane.gif`, gif.bytes());
  await stop();
} finally {
  await browser.close();
  await service.stop();
  await receiver.stop();
}
