// A receiver for bench/connect: remembers when the message with each `n` came, and says so at GET /.
import http from 'node:http';

const came = {};

const server = http.createServer((request, response) => {
  if (request.method === 'GET') {
    response.end(JSON.stringify(came));
    return;
  }
  const now = Date.now();
  let body = '';
  request.on('data', (part) => (body += part));
  request.on('end', () => {
    came[JSON.parse(body).n] = now;
    response.end();
  });
});
server.listen(0, '127.0.0.1', () => console.log(server.address().port));
