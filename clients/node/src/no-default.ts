const refuse = (): never => {
  throw new TypeError('reseq has no default export: write import { Reseq } from "reseq", or const { Reseq } = require("reseq")');
};

/** @internal What `import Reseq from "reseq"` gets: it says what to write, however it is used. */
export const noDefault = new Proxy(class {}, {
  apply: refuse,
  construct: refuse,
  get: (target, name) => (typeof name === "symbol" || name in target || name === "then" || name === "__esModule" ? Reflect.get(target, name) : refuse()),
});
