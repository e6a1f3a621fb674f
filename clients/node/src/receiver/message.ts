import { ReseqError } from "../errors.js";
import { elementsOf, spanOf } from "../span.js";

/** A message that Reseq delivers. */
export interface Delivery<Body = any> {
  destination: string;
  id: string;
  /** The ordering key. */
  key: string | null;
  /** The position: compare the epoch first, then the sequence. */
  epoch: number;
  sequence: number;
  /** The sequence of the message before this one in its lane; 0: there is none; null: Reseq does not know. */
  previous: number | null;
  /** The number of this attempt to deliver, from 1. */
  attempt: number;
  /** `<destination>/<epoch>/<sequence>` of the message that was redriven or replayed. */
  origin: string | null;
  contentType: string;
  headers: Record<string, string>;
  /** The bytes of the body. */
  raw: Buffer;
  /** The JSON value if the content type says JSON; otherwise the bytes. */
  readonly body: Body;
}

export type HeaderGetter = (name: string) => string | undefined;

interface Envelope {
  id: string;
  sequence: number;
  previous?: number;
  epoch: number;
  key: string | null;
  attempt: number;
  headers: Record<string, string>;
  content_type: string;
  body?: unknown;
  body_base64?: string;
  origin?: string;
}

/** The messages of a request: one, or those of a batch. */
export function deliveriesOf(header: HeaderGetter, all: Record<string, string>, raw: Buffer): Delivery[] {
  const destination = header("reseq-destination");
  if (destination === undefined) throw invalid("this request is not from Reseq: it has no Reseq-Destination");
  if (header("reseq-batch") !== undefined) return batchOf(destination, header, raw);
  const previous = header("reseq-previous");
  return [
    withBody({
      destination,
      id: decoded(header("reseq-id")) ?? "",
      key: decoded(header("reseq-key")),
      epoch: wholeNumber(header("reseq-epoch"), "Reseq-Epoch"),
      sequence: wholeNumber(header("reseq-sequence"), "Reseq-Sequence"),
      previous: previous === undefined ? null : wholeNumber(previous, "Reseq-Previous"),
      attempt: Number(header("reseq-attempt") ?? 1),
      origin: header("reseq-origin") ?? null,
      contentType: header("content-type") ?? "application/octet-stream",
      headers: all,
      raw,
    }),
  ];
}

function batchOf(destination: string, header: HeaderGetter, raw: Buffer): Delivery[] {
  const text = raw.toString();
  const isLines = header("content-type")?.includes("ndjson");
  const texts = isLines ? text.split("\n").filter((line) => line.trim() !== "") : elementsOf(text, []);
  const envelopes = texts.map((one) => JSON.parse(one) as Envelope);
  if (envelopes.length !== wholeNumber(header("reseq-batch"), "Reseq-Batch")) throw invalid("the batch is not complete");
  return envelopes.map((envelope, at) => {
    const fields = {
      destination,
      id: envelope.id,
      key: envelope.key,
      epoch: wholeNumber(envelope.epoch, "epoch"),
      sequence: wholeNumber(envelope.sequence, "sequence"),
      previous: envelope.previous ?? null,
      attempt: envelope.attempt,
      origin: envelope.origin ?? null,
      contentType: envelope.content_type,
      headers: envelope.headers,
    };
    if (envelope.body_base64 !== undefined) return withBody({ ...fields, raw: Buffer.from(envelope.body_base64, "base64") });
    // The text that was sent: a number that JavaScript cannot hold is only there.
    return { ...fields, body: envelope.body, get raw() { return Buffer.from(spanOf(texts[at]!, ["body"])); } };
  });
}

/** The body is parsed when somebody asks for it. */
function withBody(fields: Omit<Delivery, "body">): Delivery {
  let body: unknown;
  return Object.defineProperty(fields as Delivery, "body", {
    enumerable: true,
    get: () => (body ??= /^application\/([^;]*\+)?json/i.test(fields.contentType) ? JSON.parse(fields.raw.toString()) : fields.raw),
  });
}

const decoded = (text: string | undefined) => (text === undefined ? null : decodeURIComponent(text));

function wholeNumber(text: string | number | undefined, name: string): number {
  const number = text === undefined || text === "" ? NaN : Number(text);
  if (!Number.isSafeInteger(number) || number < 0) throw invalid(`${name} is not a whole number: ${text}`);
  return number;
}

const invalid = (detail: string) => new ReseqError({ code: "invalid_request", detail, status: 400 });
