import { createServer } from "node:http";

/** A server on a free port. */
export async function listening(listener) {
  const server = createServer(listener);
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${server.address().port}/in`,
    close: () => new Promise((resolve) => (server.close(resolve), server.closeAllConnections())),
  };
}

/** A receiver that keeps what it gets. `answer(delivery)` may return a status. */
export async function recorder(answer = () => 204) {
  const got = [];
  const receiver = await listening(async (request, response) => {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const raw = Buffer.concat(chunks);
    const delivery = { headers: request.headers, raw, text: raw.toString() };
    const status = answer(delivery) ?? 204;
    if (status < 300) got.push(delivery);
    response.writeHead(status).end();
  });
  return { ...receiver, got };
}
