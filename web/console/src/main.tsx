// The console of Reseq.
import { type ComponentChildren, options, render } from "preact";
import { App } from "./app.tsx";
import { visible } from "./format.ts";
import "./style.css";

// All text that is shown passes here. Attributes do not: a link or a field needs the text as it is.
const shown = (children: ComponentChildren): ComponentChildren =>
  typeof children === "string" ? visible(children) : Array.isArray(children) ? children.map(shown) : children;
options.vnode = (vnode) => {
  const props = vnode.props as { children?: ComponentChildren };
  if (props.children != null && vnode.type !== "textarea") props.children = shown(props.children);
};

render(<App />, document.getElementById("root")!);
