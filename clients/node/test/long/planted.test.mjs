// Each planted bug breaks one promise of the client. The property test must find each.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const folder = fileURLToPath(new URL("../..", import.meta.url));

const planted = {
  "the guard takes a repeat for a new message": ["receiver/guard.js", "comparePositions)(delivery, end) <= 0", "comparePositions)(delivery, end) < 0"],
  "the guard does not store the position": ["receiver/guard.js", "await record(end)", "await undefined"],
  "the guard accepts what the handler refused": ["receiver/guard.js", "return answerOf(error);", 'return { status: 204, headers: {}, body: "" };'],
  "a message that is sent again has no idempotency key": ["producer/lines.js", "idempotency_key: idempotencyKey", "idempotency_key: undefined"],
  "what is sent again goes behind what came later": ["producer/batcher.js", "entries.concat(this.#queue).sort((one, other) => one.order - other.order)", "entries.reverse().concat(this.#queue)"],
  "a message without an answer counts as sent": ["producer/batcher.js", "const entries = batch.filter((entry) => this.#hasTime(entry) || void this.#reject(entry, error));\n        return { entries, retryAfterMs: 0 };", "for (const entry of batch) entry.resolve({ id: '', deliveries: [{}] }, false);\n        return { entries: [], retryAfterMs: 0 };"],
  "a failed handler completes its message": ["worker/worker.js", "failure = { thrown, isFinal: (0, errors_js_1.isPermanent)(thrown) };", 'fields = `"drop":true`;'],
  "a report without an answer is not repeated": ["worker/reports.js", "this.#waiting = items.concat(this.#waiting);\n                const retryAfterMs", "for (const item of items) if (this.path.endsWith('complete')) this.#waiting.push({ ...item, json: item.json.replace(/\"body\".*}$/, '\"drop\":true}') }); else this.#waiting.push(item);\n                const retryAfterMs"],
};

for (const [what, [file, right, wrong]] of Object.entries(planted)) {
  test(what, () => {
    const copy = mkdtempSync(join(tmpdir(), "reseq-planted-"));
    for (const name of ["package.json", "dist", "test"]) cpSync(join(folder, name), join(copy, name), { recursive: true });
    symlinkSync(join(folder, "../../node_modules"), join(copy, "node_modules"));
    const path = join(copy, "dist/cjs", file);
    const code = readFileSync(path, "utf8");
    assert.equal(code.split(right).length, 2, `${file} has this text once: ${right}`);
    writeFileSync(path, code.replace(right, () => wrong));
    const env = { ...process.env, PROPERTY_SHRINK: "0", PROPERTY_RUNS: "100" };
    // With it, the tests of a test would not run.
    delete env.NODE_TEST_CONTEXT;
    const args = ["--test", "--test-timeout=60000", join(copy, "test/property.test.mjs")];
    const { status, stdout } = spawnSync(process.execPath, args, { env, encoding: "utf8" });
    rmSync(copy, { recursive: true, force: true });
    assert.notEqual(status, 0, "it was not found");
    assert.match(stdout, /not ok \d+ - (nothing is lost|a receiver that forgets)/);
  });
}
