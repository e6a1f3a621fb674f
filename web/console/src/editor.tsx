// The form for a definition: its fields, their descriptions and their limits come from /openapi.json.
import { Validator, type Schema as JsonSchema } from "@cfworker/json-schema";
import { useEffect, useState } from "preact/hooks";
import { api, ask, Refused, type Destination } from "./api.ts";
import { setting } from "./format.ts";
import { Button, Dialog, ErrorNotice, Field, Table, useAction } from "./ui.tsx";

interface Schema {
  $ref?: string;
  type?: string | string[];
  oneOf?: Schema[];
  enum?: string[];
  properties?: Record<string, Schema>;
  additionalProperties?: unknown;
  items?: Schema;
  description?: string;
  default?: unknown;
}
interface Document {
  components: { schemas: Record<string, Schema> };
}

let loaded: Promise<Document> | undefined;
const openapi = () => (loaded ??= fetch("/openapi.json").then((answer) => answer.json()));

type Kind = "text" | "whole" | "yes_no" | "choice" | "lines" | "pairs" | "source" | "group";
export interface Part {
  path: string[];
  kind: Kind;
  hint: string;
  choices: string[];
  parts: Part[];
  standard: unknown;
}

/** The schema that a reference, or the part of a choice that is not null, stands for. */
function resolved(schema: Schema, all: Record<string, Schema>): Schema {
  if (schema.$ref) return { ...resolved(all[schema.$ref.split("/").pop()!] ?? {}, all), ...(schema.description ? { description: schema.description } : {}) };
  const other = schema.oneOf?.filter((one) => one.type !== "null");
  if (other?.length === 1) return { ...resolved(other[0]!, all), ...("default" in schema ? { default: schema.default } : {}) };
  return schema;
}

function partOf(name: string, schema: Schema, path: string[], all: Record<string, Schema>): Part {
  const found = resolved(schema, all);
  const type = Array.isArray(found.type) ? found.type.find((one) => one !== "null") : found.type;
  const here = [...path, name];
  const part = (kind: Kind, more: Partial<Part> = {}): Part => ({
    path: here, kind, hint: found.description ?? "", choices: found.enum ?? [], parts: [], standard: schema.default ?? found.default ?? (path.length === 0 ? DEFAULTS[name] : undefined), ...more,
  });
  if (found.enum) return part("choice");
  if (found.oneOf) return part("source");
  if (type === "boolean") return part("yes_no");
  if (type === "integer" || type === "number") return part("whole");
  if (type === "array") return part("lines");
  if (found.properties) return part("group", { parts: Object.entries(found.properties).map(([inner, one]) => partOf(inner, one, here, all)) });
  if (type === "object") return part("pairs");
  return part("text");
}

/** What the form shows for a value. */
function shown(kind: Kind, value: unknown): string {
  if (value == null) return "";
  switch (kind) {
    case "lines": return (value as string[]).join("\n");
    case "pairs":
    case "source": return Object.entries(value as Record<string, string>).map(([name, one]) => `${name}: ${one}`).join("\n");
    default: return String(value);
  }
}

/** The value of what the form shows; undefined if it is empty. */
function read(kind: Kind, text: string): unknown {
  const trimmed = text.trim();
  if (trimmed === "") return undefined;
  const lines = trimmed.split("\n").map((line) => line.trim()).filter(Boolean);
  const pair = (line: string): [string, string] => {
    const at = line.indexOf(":");
    return at < 0 ? [line, ""] : [line.slice(0, at).trim(), line.slice(at + 1).trim()];
  };
  switch (kind) {
    case "whole": return /^-?\d+$/.test(trimmed) ? Number(trimmed) : trimmed;
    case "yes_no": return trimmed === "true";
    case "lines": return lines;
    case "pairs":
    case "source": return Object.fromEntries(lines.map(pair));
    default: return trimmed;
  }
}

const flat = (parts: Part[]): Part[] => parts.flatMap((part) => (part.kind === "group" ? flat(part.parts) : [part]));
const at = (value: unknown, path: string[]): unknown => path.reduce<unknown>((now, name) => (now as Record<string, unknown> | undefined)?.[name], value);

function build(parts: Part[], texts: Record<string, string>): Record<string, unknown> {
  const value: Record<string, unknown> = {};
  for (const part of parts) {
    const name = part.path.at(-1)!;
    const inner = part.kind === "group" ? build(part.parts, texts) : read(part.kind, texts[part.path.join("/")] ?? "");
    if (inner !== undefined && !(part.kind === "group" && Object.keys(inner as object).length === 0)) value[name] = inner;
  }
  return value;
}

/** The fields of a definition; none until they are read. */
export function useParts(): { parts: Part[]; schema?: Schema; all: Record<string, Schema>; error: unknown } {
  const [found, set] = useState<{ document: Document | null; error: unknown }>({ document: null, error: null });
  useEffect(() => {
    openapi().then((document) => set({ document, error: null }), (error) => set({ document: null, error }));
  }, []);
  const all = found.document?.components.schemas ?? {};
  const schema = all.DestinationDefinition;
  return { parts: Object.entries(schema?.properties ?? {}).map(([name, one]) => partOf(name, one, [], all)), schema, all, error: found.error };
}

/** Defaults that /openapi.json does not tell. A test compares them with a destination that has only a URL. */
const DEFAULTS: Record<string, unknown> = {
  forward_headers: ["x-*", "ce-*", "traceparent", "tracestate", "webhook-*"], ordering: "destination", shards: 1, processing: "parallel", on_exhausted: "halt", durability: "memory", weight: 1,
  backlog_max: 1_000_000, backlog_bytes_max: 0, ingest_rate_per_second_max: 0, idempotency_window_ms: 86_400_000, idempotency_keys_max: 10_000_000, idempotency_compare: "body", sources_max: 1024, log_max: 10_000, log_bodies: false,
  dead_letters_max: 100_000, dead_letters_age_max_ms: 7_776_000_000, previous_keys_max: 10_000, ids_max: 1000,
};

const isNothing = (value: unknown) => value == null || (typeof value === "object" && Object.keys(value).length === 0);
/** True if two values of a field mean the same; nothing and an empty list do. */
export const isSame = (one: unknown, other: unknown) => (isNothing(one) && isNothing(other)) || JSON.stringify(one) === JSON.stringify(other);

/** The fields of a definition with their values, without groups. */
export const valuesOf = (parts: Part[], definition: object) =>
  flat(parts).map((part) => ({ name: part.path.join("."), value: at(definition, part.path), standard: part.standard, hint: part.hint }));

const MAIN = ["name", "url", "ordering", "processing", "on_exhausted", "durability"];

export function DestinationEditor({ destination, onClose }: { destination?: Destination; onClose: (name?: string) => void }) {
  const [texts, setTexts] = useState<Record<string, string>>({});
  const [errors, setErrors] = useState<Record<string, string>>({});
  const [isReview, setReview] = useState(false);
  const { isBusy, error, run } = useAction();
  const { parts, schema, all, error: unread } = useParts();
  useEffect(() => {
    if (!schema || !destination) return;
    setTexts(Object.fromEntries(flat(parts).map((part) => [part.path.join("/"), shown(part.kind, at(destination, part.path))])));
  }, [schema]);

  const definition = build(parts, texts);
  const changes = destination ? changesOf(parts, destination, definition) : [];
  const check = (): boolean => {
    const found: Record<string, string> = {};
    if (!texts.name) found.name = "a destination needs a name";
    const rules = { ...schema, components: { schemas: all } } as unknown as JsonSchema;
    const result = new Validator(rules, "2020-12", false).validate(definition);
    for (const one of result.errors) {
      const path = one.instanceLocation.replace(/^#\/?/, "");
      const missing = /required property "(\w+)"/.exec(one.error)?.[1];
      if (missing) found[missing] ??= "this field is required";
      else if (path && one.keyword !== "properties" && one.keyword !== "$ref") found[path] ??= one.error;
    }
    setErrors(found);
    return Object.keys(found).length === 0;
  };
  const save = () => {
    if (!check()) return;
    // What changes is shown first.
    if (destination && !isReview) return setReview(true);
    run(async () => {
      const name = texts.name!.trim();
      const header = destination ? { "if-match": `"${destination.version}"` } : { "if-none-match": "*" };
      try {
        await ask(api.PUT("/v1/destinations/{destination}", { params: { path: { destination: name } }, headers: header, body: definition as never }));
        onClose(name);
      } catch (caught) {
        setReview(false);
        if (caught instanceof Refused) {
          const told = (caught.problem.errors ?? []).filter((one) => one.pointer);
          setErrors(Object.fromEntries(told.map((one) => [one.pointer!.replace(/^#\//, ""), one.detail])));
        }
        throw caught;
      }
    });
  };
  const field = (part: Part) => (
    <Input key={part.path.join("/")} part={part} text={texts[part.path.join("/")] ?? ""} error={errors[part.path.join("/")]}
      isFixed={destination !== undefined && ["name", "shards"].includes(part.path[0]!)}
      onText={(text) => setTexts((now) => ({ ...now, [part.path.join("/")]: text }))} />
  );
  const wrong = (part: Part) => Object.keys(errors).some((path) => path.startsWith(`${part.path[0]}/`));
  const others = parts.filter((part) => part.kind !== "group" && !MAIN.includes(part.path[0]!));
  return (
    <Dialog title={destination ? `Change ${destination.name}` : "New destination"} wide onClose={() => onClose()}>
      <form onSubmit={(event) => { event.preventDefault(); save(); }} noValidate>
        {isReview ? <Changes changes={changes} /> : <>
        <p class="muted">A field that is empty gets its default.</p>
        <div class="form-grid">{MAIN.flatMap((name) => parts.filter((part) => part.path[0] === name)).map(field)}</div>
        {parts.filter((part) => part.kind === "group").map((part) => (
          <details key={part.path[0]} open={part.path[0] === "transform" || wrong(part)}>
            <summary>{part.path[0]}<span class="muted"> {part.hint}</span></summary>
            <div class="form-grid">{part.parts.map(field)}</div>
          </details>
        ))}
        <details open={others.some((part) => errors[part.path[0]!])}>
          <summary>more<span class="muted"> Headers, keys, limits and history.</span></summary>
          <div class="form-grid">{others.map(field)}</div>
        </details>
        </>}
        <ErrorNotice error={error ?? unread} />
        {Object.keys(errors).length > 0 && !error && <p class="field-error" role="alert">{Object.keys(errors).length === 1 ? "One field is" : `${Object.keys(errors).length} fields are`} not valid: {Object.keys(errors).join(", ")}.</p>}
        <div class="actions is-end">
          {isReview && <Button onClick={() => setReview(false)}>Back</Button>}
          <Button onClick={() => onClose()}>Close without saving</Button>
          <Button kind="main" type="submit" disabled={isBusy || !schema || (isReview && changes.length === 0)}>{!destination ? "Create" : isReview ? "Save" : "Review the changes"}</Button>
        </div>
      </form>
    </Dialog>
  );
}

interface Change { name: string; before: unknown; after: unknown; standard: unknown }

/** The fields that would have another value. */
function changesOf(parts: Part[], destination: Destination, definition: object): Change[] {
  const before = valuesOf(parts, destination);
  return valuesOf(parts, definition)
    .map(({ name, value, standard }, index) => ({ name, before: before[index]!.value, after: value, standard }))
    .filter((one) => !isSame(one.after ?? one.standard, one.before ?? one.standard));
}

function Changes({ changes }: { changes: Change[] }) {
  if (changes.length === 0) return <p>Nothing is changed.</p>;
  return (
    <Table label="Changes">
      <thead><tr><th>Field</th><th>Now</th><th>After saving</th></tr></thead>
      <tbody>
        {changes.map((one) => (
          <tr key={one.name}>
            <td><code>{one.name}</code></td>
            <td class="error-cell"><del>{setting(one.name, one.before)}</del></td>
            <td class="error-cell"><ins>{setting(one.name, one.after ?? one.standard)}</ins>{one.after === undefined && <span class="muted"> the default</span>}</td>
          </tr>
        ))}
      </tbody>
    </Table>
  );
}

function Input({ part, text, error, isFixed, onText }: {
  part: Part; text: string; error?: string; isFixed: boolean; onText: (text: string) => void;
}) {
  const name = part.path.at(-1)!;
  const more = { lines: " One a line.", pairs: " One a line: name: value. *** stands for the stored value.", source: " header: name, or jq: expression." };
  const hint = part.hint.replaceAll("`", "") + (more[part.kind as keyof typeof more] ?? "");
  const standard = part.standard == null || typeof part.standard === "object" ? "default" : String(part.standard);
  const common = { value: text, name: part.path.join("/"), "aria-invalid": error ? true : undefined, disabled: isFixed };
  return (
    <Field label={name} hint={hint} error={error}>
      {part.kind === "choice" || part.kind === "yes_no" ? (
        <select {...common} onChange={(event) => onText(event.currentTarget.value)}>
          <option value="">{standard === "default" ? "default" : `default (${standard})`}</option>
          {(part.kind === "yes_no" ? ["true", "false"] : part.choices).map((one) => <option key={one} value={one}>{one}</option>)}
        </select>
      ) : part.kind === "lines" || part.kind === "pairs" ? (
        <textarea {...common} rows={2} spellcheck={false} onInput={(event) => onText(event.currentTarget.value)} />
      ) : (
        <input {...common} inputMode={part.kind === "whole" ? "numeric" : undefined} autocomplete="off" spellcheck={false}
          placeholder={standard === "default" ? "" : standard} onInput={(event) => onText(event.currentTarget.value)} />
      )}
    </Field>
  );
}
