// A body of lines, as they come.

/** The whole lines of each piece that comes. Empty lines, which only keep the connection, are left out. */
export async function* lines(body: ReadableStream<Uint8Array>): AsyncGenerator<string[]> {
  const reader = body.pipeThrough(new TextDecoderStream() as ReadableWritablePair<string, Uint8Array>).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const all = (rest + value).split("\n");
    rest = all.pop() ?? "";
    const whole = all.filter((line) => line !== "");
    if (whole.length) yield whole;
  }
}
