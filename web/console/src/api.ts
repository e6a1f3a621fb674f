// The HTTP API, with the types of /openapi.json. A session has two parts: a cookie, which the browser sends to each port
// of the host, and a secret, which only pages of this scheme, host and port can read.
import createClient from "openapi-fetch";
import type { components, paths } from "../../../clients/node/src/api.ts";

export type Schema = components["schemas"];
export type Problem = Schema["Problem"];
export type State = Schema["State"];
export type Operation = Schema["Operation"] & { shard?: string };
export type Failure = Schema["Failure"];
export type Pending = Schema["PendingMessage"];
export type Gone = Schema["GoneMessage"];
export type DeadLetter = Schema["DeadLetter"];
export type Message = Schema["Message"];
export type Destination = Schema["Destination"];

/** The name of the secret, here and as a header. */
const SECRET = "reseq-session";

/** `fetch` with both parts of the session. */
export function signed(input: RequestInfo | URL, init?: RequestInit): Promise<Response> {
  const request = new Request(input, { credentials: "same-origin", ...init });
  const secret = localStorage.getItem(SECRET);
  if (secret) request.headers.set(SECRET, secret);
  return fetch(request);
}

export const api = createClient<paths>({ baseUrl: location.origin, fetch: signed });

/** An error to show to people. */
export class Refused extends Error {
  readonly problem: Partial<Problem>;
  constructor(problem: Partial<Problem>) {
    super(problem.detail ?? problem.title ?? "the request failed");
    this.problem = problem;
  }
}

export let signedOut = () => {};
export const onSignedOut = (call: () => void) => {
  signedOut = call;
};

/** The data of an answer. Throws what was wrong. */
export async function ask<T>(request: Promise<{ data?: T; error?: unknown; response: Response }>): Promise<T> {
  let answer;
  try {
    answer = await request;
  } catch {
    throw new Refused({ detail: "Reseq does not answer. Is the process running?" });
  }
  if (answer.response.ok) return answer.data as T;
  const { status } = answer.response;
  if (status === 401) signedOut();
  const problem = typeof answer.error === "object" && answer.error ? answer.error : { status, detail: `the answer was ${status}` };
  throw new Refused(problem as Partial<Problem>);
}

/** Who is signed in. */
export interface Session {
  caller: string;
  scopes: Schema["Scope"][];
  destinations?: string[];
  needs_token: boolean;
  version: string;
  /** Only after signing in. */
  secret?: string;
}

async function session(method: string, body?: unknown): Promise<Session | null> {
  const answer = await signed("/console/session", {
    method,
    headers: body ? { "content-type": "application/json" } : {},
    body: body ? JSON.stringify(body) : undefined,
  });
  if (answer.status === 204) return null;
  const json = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Refused({ status: answer.status, ...json });
  return json;
}
/** Who is signed in. Asking prolongs the session. */
export const currentSession = () => session("GET");
export async function signIn(token: string) {
  const begun = await session("POST", { token });
  if (begun?.secret) localStorage.setItem(SECRET, begun.secret);
  return begun;
}
export const signOut = () => session("DELETE").finally(() => localStorage.removeItem(SECRET));

/** True if this session may do what needs this scope. */
export function may(session: Session, scope: Schema["Scope"]): boolean {
  return session.scopes.some(
    (held) => held === scope || held === "admin" || (held === "operate" && scope === "read"),
  );
}
