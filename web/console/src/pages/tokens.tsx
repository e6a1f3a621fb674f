// Tokens: make and revoke them.
import { useState } from "preact/hooks";
import { api, ask, type Schema } from "../api.ts";
import { time } from "../format.ts";
import { LIMIT, Pager, usePages } from "../list.tsx";
import { Button, Dialog, Empty, ErrorNotice, Field, Head, Notice, Panel, Table, useAction } from "../ui.tsx";

const SCOPES: Schema["Scope"][] = ["ingest", "work", "read", "operate", "admin"];

export function TokensPage() {
  const pages = usePages((cursor) => ask(api.GET("/v1/tokens", { params: { query: { limit: LIMIT, cursor } } })), []);
  const [isNew, setNew] = useState(false);
  const [revoked, setRevoked] = useState<Schema["Token"] | null>(null);
  const { isBusy, error, run } = useAction();
  const revoke = () => run(async () => {
    await ask(api.DELETE("/v1/tokens/{id}", { params: { path: { id: revoked!.id } } }));
    setRevoked(null);
    pages.again();
  });
  return (
    <>
      <Head title="Tokens" sub="Who may call Reseq, and for what"><Button kind="main" onClick={() => setNew(true)}>New token</Button></Head>
      <Panel>
        {pages.items?.length === 0 ? <Empty>There is no token except that of the configuration.</Empty> : (
          <Table label="Tokens">
            <thead><tr><th>Name</th><th>Id</th><th>Scopes</th><th>Destinations</th><th>Created</th><th>Expires</th><th>Last used</th><th>Actions</th></tr></thead>
            <tbody>
              {pages.items?.map((token) => (
                <tr key={token.id}>
                  <td>{token.name}{token.expired && <span class="tag is-bad">expired</span>}</td>
                  <td><code>{token.id}</code></td>
                  <td>{token.scopes.join(", ")}</td>
                  <td class="cut">{token.destinations?.join(", ") ?? "all"}</td>
                  <td class="number nowrap">{time(token.created_at)}</td>
                  <td class="number nowrap">{token.expires_at ? time(token.expires_at) : "never"}</td>
                  <td class="number nowrap">{time(token.last_used_at)}</td>
                  <td><Button kind="danger" onClick={() => setRevoked(token as Schema["Token"])}>Revoke</Button></td>
                </tr>
              ))}
            </tbody>
          </Table>
        )}
        <Pager pages={pages} />
      </Panel>
      {isNew && <TokenDialog onClose={() => { setNew(false); pages.again(); }} />}
      {revoked && (
        <Dialog title={`Revoke ${revoked.name}?`} onClose={() => setRevoked(null)}>
          <p>All processes refuse it within a second.</p>
          <ErrorNotice error={error} />
          <div class="actions is-end"><Button onClick={() => setRevoked(null)}>Keep it</Button><Button kind="danger" disabled={isBusy} onClick={revoke}>Revoke {revoked.name}</Button></div>
        </Dialog>
      )}
    </>
  );
}

function TokenDialog({ onClose }: { onClose: () => void }) {
  const [name, setName] = useState("");
  const [scopes, setScopes] = useState<Schema["Scope"][]>(["read"]);
  const [names, setNames] = useState("");
  const [days, setDays] = useState("90");
  const [made, setMade] = useState("");
  const { isBusy, error, run } = useAction();
  const make = () => run(async () => {
    const destinations = names.split(/[\s,]+/).filter(Boolean);
    const body = { name, scopes, destinations: destinations.length ? destinations : undefined, expires_in_ms: days ? Number(days) * 86_400_000 : undefined };
    setMade((await ask(api.POST("/v1/tokens", { body: body as never }))).token);
  });
  if (made) {
    return (
      <Dialog title="The new token" onClose={onClose}>
        <Notice kind="good"><p>Copy it now. It is not shown again.</p><code class="token">{made}</code></Notice>
        <div class="actions is-end"><Button onClick={() => navigator.clipboard?.writeText(made)}>Copy</Button><Button kind="main" onClick={onClose}>Close</Button></div>
      </Dialog>
    );
  }
  return (
    <Dialog title="New token" onClose={onClose}>
      <form onSubmit={(event) => { event.preventDefault(); make(); }}>
        <Field label="Name"><input required value={name} onInput={(event) => setName(event.currentTarget.value)} /></Field>
        <fieldset>
          <legend>Scopes</legend>
          {SCOPES.map((scope) => (
            <label key={scope} class="check"><input type="checkbox" checked={scopes.includes(scope)} onChange={(event) => setScopes(event.currentTarget.checked ? [...scopes, scope] : scopes.filter((one) => one !== scope))} /> {scope}</label>
          ))}
        </fieldset>
        <Field label="Destinations" hint="One a line; empty: all."><textarea rows={3} value={names} onInput={(event) => setNames(event.currentTarget.value)} /></Field>
        <Field label="Expires after days" hint="Empty: never."><input inputMode="numeric" value={days} onInput={(event) => setDays(event.currentTarget.value)} /></Field>
        <ErrorNotice error={error} />
        <div class="actions is-end"><Button onClick={onClose}>Close</Button><Button kind="main" type="submit" disabled={isBusy || scopes.length === 0}>Make the token</Button></div>
      </form>
    </Dialog>
  );
}
