import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect, credsAuthenticator, type NatsConnection } from 'nats';

/**
 * A program in a container of a test: it publishes its name on a subject of its own, and says over HTTP what it has received, and from whom.
 * It has nothing but what the controller gives a microservice with access to the message bus.
 */
const { BUS_CREDS_PATH = '', BUS_SERVER_URL = '', BUS_CA_PATH, NAME = '' } = process.env;
const started = Date.now();
const heard: Record<string, number> = {};
let connects = 0;
let error = '';

async function serve(connection: NatsConnection): Promise<void> {
  connects++;
  connection.subscribe('talk.>', {
    callback: (_, message) => {
      const name = message.string();
      heard[name] = (heard[name] ?? 0) + 1;
    },
  });
  while (!connection.isClosed()) {
    connection.publish(`talk.${NAME}`, NAME);
    await sleep(100);
  }
}

createServer((request, response) => {
  const creds = request.url === '/creds' ? readFileSync(BUS_CREDS_PATH, 'utf8') : undefined;
  response.end(creds ?? JSON.stringify({ started, connects, heard, error, server: BUS_SERVER_URL }));
}).listen(8080);

for (;;) {
  try {
    const authenticator = credsAuthenticator(readFileSync(BUS_CREDS_PATH));
    const connection = await connect({
      ...{ servers: BUS_SERVER_URL, authenticator, reconnect: false, timeout: 2_000 },
      ...(BUS_CA_PATH !== undefined && { tls: { caFile: BUS_CA_PATH } }),
    });
    error = '';
    await serve(connection);
  } catch (failure) {
    error = String(failure);
  }
  await sleep(200);
}
