import { createHmac, createPublicKey, timingSafeEqual, verify, type KeyObject } from "node:crypto";
import type { HeaderGetter } from "./message.js";

/** The headers that `reseq-signature` covers, in this order (docs/reference/signatures.md). */
const COVERED = [
  "webhook-id",
  "webhook-timestamp",
  "reseq-attempt",
  "reseq-batch",
  "reseq-destination",
  "reseq-epoch",
  "reseq-id",
  "reseq-key",
  "reseq-last-sequence",
  "reseq-origin",
  "reseq-previous",
  "reseq-sequence",
];

export interface SignatureOptions {
  /**
   * Secrets that are shared with the sender (`whsec_…`) and public keys of the sender (`whpk_…`), as Standard Webhooks
   * has them. Requests that are not signed by one of them get 401.
   */
  secrets: string[];
  /** Requests with an older or newer timestamp are refused: somebody may have recorded them (300). */
  toleranceSeconds?: number | undefined;
}

type Secret = { version: "v1"; key: Buffer } | { version: "v1a"; key: KeyObject };

/**
 * Checks signatures as Standard Webhooks describes them, `v1` and `v1a`, and the signature of Reseq's own headers.
 * Returns a function that says what is wrong with a request, or undefined.
 */
export function signatureCheck(options: SignatureOptions): (header: HeaderGetter, raw: Buffer) => string | undefined {
  const { toleranceSeconds = 300 } = options;
  if (options.secrets.length === 0) throw new TypeError("secrets is empty: leave it out if requests are not signed");
  if (!(toleranceSeconds > 0)) throw new TypeError("toleranceSeconds must be more than 0");
  const secrets = options.secrets.map(parseSecret);
  return (header, raw) => {
    const [id, timestamp, given] = [header("webhook-id"), header("webhook-timestamp"), header("webhook-signature")];
    if (id === undefined || timestamp === undefined || given === undefined) return "the request is not signed";
    const seconds = /^\d{1,15}$/.test(timestamp) ? Number(timestamp) : NaN;
    if (!(Math.abs(Date.now() / 1000 - seconds) <= toleranceSeconds)) return "the timestamp of the signature is too old, or in the future";
    if (!matches(secrets, given, contentOf(id, timestamp, raw))) return "no signature is right";
    const own = header("reseq-signature");
    if (own === undefined) return "the headers of Reseq are not signed";
    return matches(secrets, own, headersContentOf(header, raw)) ? undefined : "no signature of the headers of Reseq is right";
  };
}

/** The value of `webhook-signature`, for tests and for services that send without Reseq. */
export function sign(secret: string, id: string, timestamp: number, raw: string | Buffer): string {
  const parsed = parseSecret(secret);
  if (parsed.version !== "v1") throw new TypeError("a public key cannot sign: use a secret that begins with whsec_");
  return `v1,${hmacOf(parsed.key, contentOf(id, String(timestamp), Buffer.from(raw))).toString("base64")}`;
}

function parseSecret(secret: string, at = 0): Secret {
  const [, prefix, text] = /^(whsec|whpk)_([A-Za-z0-9+/]+={0,2})$/.exec(secret) ?? [];
  // The message must not show the secret.
  if (prefix === undefined || text === undefined) throw new TypeError(`secrets[${at}] is wrong: it must be whsec_ or whpk_ and base64${secret.startsWith("whsk_") ? "; whsk_ is the private key, which only the sender has" : ""}`);
  const key = Buffer.from(text, "base64");
  if (prefix === "whsec") return { version: "v1", key };
  if (key.length !== 32) throw new TypeError(`secrets[${at}] is wrong: a public key has 32 bytes`);
  const jwk = { kty: "OKP", crv: "Ed25519", x: key.toString("base64url") };
  return { version: "v1a", key: createPublicKey({ key: jwk, format: "jwk" }) };
}

/** True if one of the signatures (`v1,<base64> v1a,<base64> …`) is right by one of the secrets. */
function matches(secrets: Secret[], given: string, content: Buffer): boolean {
  const signatures = given.split(" ").map((one) => one.split(","));
  return secrets.some((secret) => {
    const candidates = signatures.filter(([version]) => version === secret.version).map(([, text]) => Buffer.from(text ?? "", "base64"));
    if (secret.version === "v1a") return candidates.some((one) => verify(null, content, secret.key, one));
    const expected = hmacOf(secret.key, content);
    return candidates.some((one) => one.length === expected.length && timingSafeEqual(one, expected));
  });
}

const contentOf = (id: string, timestamp: string, raw: Buffer) => Buffer.concat([Buffer.from(`${id}.${timestamp}.`), raw]);

function headersContentOf(header: HeaderGetter, raw: Buffer): Buffer {
  const lines = COVERED.flatMap((name) => {
    const value = header(name);
    return value === undefined ? [] : [`${name}:${value}\n`];
  });
  return Buffer.concat([Buffer.from(`reseq-signature\n${lines.join("")}\n`), raw]);
}

const hmacOf = (key: Buffer, content: Buffer) => createHmac("sha256", key).update(content).digest();
