import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { freePort } from '../../../hack/ports.ts';
import { type Daemon, startDaemon } from '../../../hack/process.ts';
import { waitFor } from '../../../hack/wait.ts';
import { atEnd } from '../../../testing/at-end.ts';
import { natsServer } from '../../../testing/bus.ts';
import { temporaryFolder } from '../../../testing/temporary-folder.ts';
import { BUS_PLACES } from '../../wire/bus.ts';
import type { ServerTls } from './rules/server-config.ts';

/** Ports of a server of a node, as an EdgeNode has them. */
type NodePorts = Record<'busServerPort' | 'busMqttPort' | 'busHttpPort', number>;

/** A real server with the files of the part of a node, which lie elsewhere than in its container, until the test ends. */
export interface NodeServer {
  url: string;
  /** Writes the files of `bus-config` that another state of the node has. */
  write(files: Readonly<Record<string, string>>): void;
  restart(): Promise<void>;
  reload(): void;
}

export const nodePorts = async (): Promise<NodePorts> => ({
  busServerPort: await freePort(),
  busMqttPort: await freePort(),
  busHttpPort: await freePort(),
});

/** Starts a server with the files of `bus-config`, which name these ports. */
export async function startNodeServer(
  files: Readonly<Record<string, string>>,
  { busServerPort, busHttpPort }: NodePorts,
  { ca, cert, key }: ServerTls,
): Promise<NodeServer> {
  const dir = temporaryFolder();
  for (const set of ['bus-server', 'bus-mqtt-server']) {
    mkdirSync(join(dir, 'certs', set), { recursive: true });
    for (const [name, from] of Object.entries({ 'ca.crt': ca, 'tls.crt': cert, 'tls.key': key }))
      writeFileSync(join(dir, 'certs', set, name), readFileSync(from));
  }
  function write(next: Readonly<Record<string, string>>): void {
    for (const [path, text] of Object.entries(next)) {
      const file = join(dir, 'config', path);
      mkdirSync(dirname(file), { recursive: true });
      const here = text.replaceAll(BUS_PLACES.root, dir).replaceAll(`"${BUS_PLACES.data}/`, `"${dir}/data/`);
      writeFileSync(file, here);
    }
  }
  write(files);
  mkdirSync(join(dir, 'data'));
  const command = await natsServer();
  let daemon: Daemon;
  async function start() {
    daemon = await startDaemon({
      name: `node-${busServerPort}`,
      dir,
      command,
      args: ['-c', join(dir, 'config', 'server.conf')],
    });
    await waitFor(
      async () => {
        daemon.assertRunning();
        return (await fetch(`http://127.0.0.1:${busHttpPort}/healthz?js-enabled-only=true`)).ok;
      },
      { what: 'the server of the node' },
    );
  }
  await start();
  atEnd(() => daemon.stop());
  return {
    url: `nats://127.0.0.1:${busServerPort}`,
    write,
    async restart() {
      await daemon.stop();
      await start();
    },
    reload: () => daemon.signal('SIGHUP'),
  };
}
