// Topics: names for several destinations.
import { useState } from "preact/hooks";
import { api, ask, may, type Session } from "../api.ts";
import { LIMIT, Pager, usePages } from "../list.tsx";
import { SendDialog } from "../send.tsx";
import { Button, Dialog, Empty, ErrorNotice, Field, Head, Panel, Table, useAction } from "../ui.tsx";

export function TopicsPage({ session }: { session: Session }) {
  const pages = usePages((cursor) => ask(api.GET("/v1/topics", { params: { query: { limit: LIMIT, cursor } } })), []);
  const [open, setOpen] = useState<{ name: string; destinations: string[] } | null>(null);
  const [send, setSend] = useState<string | null>(null);
  const { isBusy, error, run } = useAction();
  const canDefine = may(session, "admin");
  const remove = (topic: string) => run(async () => {
    await ask(api.DELETE("/v1/topics/{topic}", { params: { path: { topic } } }));
    pages.again();
  });
  return (
    <>
      <Head title="Topics" sub="A message that is published to a topic goes to all of its destinations">
        {canDefine && <Button kind="main" onClick={() => setOpen({ name: "", destinations: [] })}>New topic</Button>}
      </Head>
      <ErrorNotice error={error} />
      <Panel>
        {pages.items?.length === 0 ? <Empty>There is no topic.</Empty> : (
          <Table label="Topics">
            <thead><tr><th>Topic</th><th>Destinations</th><th>Actions</th></tr></thead>
            <tbody>
              {pages.items?.map((topic) => (
                <tr key={topic.name}>
                  <td>{topic.name}{topic.defined_in_file && <span class="tag">in the file</span>}</td>
                  <td>{topic.destinations.join(", ")}</td>
                  <td>
                    <div class="actions">
                      {may(session, "ingest") && <Button onClick={() => setSend(topic.name)}>Publish</Button>}
                      {canDefine && !topic.defined_in_file && <Button onClick={() => setOpen(topic)}>Change</Button>}
                      {canDefine && !topic.defined_in_file && <Button kind="danger" disabled={isBusy} onClick={() => remove(topic.name)}>Remove</Button>}
                    </div>
                  </td>
                </tr>
              ))}
            </tbody>
          </Table>
        )}
        <Pager pages={pages} />
      </Panel>
      {open && <TopicDialog topic={open} onClose={() => { setOpen(null); pages.again(); }} />}
      {send && <SendDialog topic={send} onClose={() => setSend(null)} />}
    </>
  );
}

function TopicDialog({ topic, onClose }: { topic: { name: string; destinations: string[] }; onClose: () => void }) {
  const [name, setName] = useState(topic.name);
  const [names, setNames] = useState(topic.destinations.join("\n"));
  const { isBusy, error, run } = useAction();
  const save = () => run(async () => {
    const destinations = names.split(/[\s,]+/).filter(Boolean);
    await ask(api.PUT("/v1/topics/{topic}", { params: { path: { topic: name } }, body: { destinations } }));
    onClose();
  });
  return (
    <Dialog title={topic.name ? `Change ${topic.name}` : "New topic"} onClose={onClose}>
      <form onSubmit={(event) => { event.preventDefault(); save(); }}>
        <Field label="Name"><input required disabled={topic.name !== ""} value={name} onInput={(event) => setName(event.currentTarget.value)} /></Field>
        <Field label="Destinations" hint="One a line."><textarea required rows={5} value={names} onInput={(event) => setNames(event.currentTarget.value)} /></Field>
        <ErrorNotice error={error} />
        <div class="actions is-end"><Button onClick={onClose}>Close without saving</Button><Button kind="main" type="submit" disabled={isBusy}>Save</Button></div>
      </form>
    </Dialog>
  );
}
