export default function handle({ body }) {
  if (body === "hang") for (;;);
  return body;
}
