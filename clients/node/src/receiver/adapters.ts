import type { IncomingMessage, ServerResponse } from "node:http";
import { ReseqError } from "../errors.js";
import type { HeaderGetter } from "./message.js";

export interface GuardRequest {
  header: HeaderGetter;
  headers: Record<string, string>;
  raw: Buffer;
}

export interface GuardAnswer {
  status: number;
  headers: Record<string, string>;
  body: string;
}

export type Answerer = (request: GuardRequest) => Promise<GuardAnswer>;

/** For `node:http` and Express. Only a `body` that a parser has left can come before the guard. */
export async function answerNode(request: IncomingMessage & { body?: unknown }, response: ServerResponse, bytesMax: number, answer: Answerer): Promise<void> {
  let answered: GuardAnswer;
  try {
    const headers = flat(request.headers);
    const raw = await rawOf(request, bytesMax);
    answered = await answer({ header: (name) => headers[name], headers, raw });
  } catch (error) {
    // The connection broke while the body came, or the body is too long.
    const status = error instanceof ReseqError ? (error.status ?? 500) : 400;
    answered = { status, headers: { connection: "close" }, body: error instanceof Error ? error.message : "" };
  }
  if (response.headersSent || response.destroyed) return;
  response.writeHead(answered.status, { "content-length": Buffer.byteLength(answered.body), ...answered.headers });
  response.end(answered.body);
}

async function rawOf(request: IncomingMessage & { body?: unknown; rawBody?: unknown }, bytesMax: number): Promise<Buffer> {
  for (const known of [request.rawBody, request.body]) if (Buffer.isBuffer(known)) return known;
  if (request.readableEnded || (request.body !== undefined && request.body !== null)) {
    if (typeof request.body === "string") return Buffer.from(request.body);
    if (request.body !== undefined) return Buffer.from(JSON.stringify(request.body));
    throw new ReseqError({ code: "invalid_body", status: 500, detail: "something before the guard has read the body and kept nothing of it" });
  }
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request) {
    bytes += (chunk as Buffer).length;
    if (bytes > bytesMax) throw tooLarge(bytesMax);
    chunks.push(chunk as Buffer);
  }
  if (!request.complete) throw new Error("the request broke off");
  return Buffer.concat(chunks);
}

/** For Hono, and all that knows `Request` and `Response`. */
export async function answerFetch(request: Request, bytesMax: number, answer: Answerer): Promise<Response> {
  const headers = Object.fromEntries(request.headers);
  const isDeclaredLong = Number(headers["content-length"] ?? 0) > bytesMax;
  const raw = isDeclaredLong ? Buffer.alloc(0) : Buffer.from(await request.arrayBuffer());
  const tooLong = isDeclaredLong || raw.length > bytesMax;
  const { status, headers: answered, body } = tooLong
    ? { status: 413, headers: {}, body: tooLarge(bytesMax).message }
    : await answer({ header: (name) => headers[name], headers, raw });
  return new Response(status === 204 ? null : body, { status, headers: answered });
}

/** What this needs of a Fastify instance. */
export interface FastifyLike {
  removeAllContentTypeParsers(): void;
  addContentTypeParser(type: string, options: { parseAs: "buffer"; bodyLimit: number }, parser: (request: unknown, body: any, done: (error: Error | null, body?: unknown) => void) => void): unknown;
  post(path: string, handler: (request: any, reply: any) => unknown): unknown;
}

/** A plugin: its content type parsers apply only to this route. */
export const fastifyPlugin = (path: string, bytesMax: number, answer: Answerer) => async (app: FastifyLike) => {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser("*", { parseAs: "buffer", bodyLimit: bytesMax }, (_, body, done) => done(null, body));
  app.post(path, async (request, reply) => {
    const headers = flat(request.headers as IncomingMessage["headers"]);
    const raw = Buffer.isBuffer(request.body) ? request.body : Buffer.alloc(0);
    const { status, headers: answered, body } = await answer({ header: (name) => headers[name], headers, raw });
    return reply.code(status).headers(answered).send(body);
  });
};

function flat(headers: IncomingMessage["headers"]): Record<string, string> {
  const flat: Record<string, string> = {};
  for (const [name, value] of Object.entries(headers)) if (value !== undefined) flat[name] = Array.isArray(value) ? value.join(", ") : value;
  return flat;
}

const tooLarge = (bytesMax: number) => new ReseqError({ code: "body_too_large", status: 413, detail: `the body is longer than ${bytesMax} bytes` });
