import { Permanent } from "./errors.js";

/** What each library of schemas has that follows https://standardschema.dev, such as zod, valibot and arktype. */
export interface StandardSchema<Value = unknown> {
  readonly "~standard": {
    readonly validate: (value: unknown) => Validated<Value> | Promise<Validated<Value>>;
  };
}

type Validated<Value> = { readonly value: Value; readonly issues?: undefined } | { readonly issues: readonly Issue[] };

interface Issue {
  readonly message: string;
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}

const ISSUES_MAX = 5;

/**
 * The body of a message as the schema returns it: `const order = await checkedBody(message, Order)`. Throws `Permanent`
 * if the body does not fit: no further attempt could change it.
 */
export async function checkedBody<Body>(message: { body: unknown }, schema: StandardSchema<Body>): Promise<Body> {
  const found = await schema["~standard"].validate(message.body);
  if (!found.issues) return found.value;
  throw new Permanent(`the body does not fit the schema: ${found.issues.slice(0, ISSUES_MAX).map(sentence).join("; ")}`);
}

function sentence({ message, path }: Issue): string {
  const names = path?.map((part) => String(typeof part === "object" ? part.key : part));
  return names?.length ? `${names.join(".")}: ${message}` : message;
}
