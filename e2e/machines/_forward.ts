import { connect, createServer, type Server, type Socket } from 'node:net';

/** A server whose connections are passed on to where `open` leads. */
export function passOn(open: () => Socket): Server {
  return createServer((client) => {
    const upstream = open();
    client.pipe(upstream).pipe(client);
    for (const [one, other] of [
      [client, upstream],
      [upstream, client],
    ] as const)
      one.on('error', () => other.destroy()).on('close', () => other.destroy());
  });
}

// A process in the network of a machine: `<port>=<path>` makes a port of its loopback interface lead to a unix socket.
if (import.meta.main)
  for (const pair of process.argv.slice(2)) {
    const [port, path = ''] = pair.split('=');
    passOn(() => connect(path)).listen(Number(port), '127.0.0.1');
  }
