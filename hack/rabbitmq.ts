import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { installPackages } from './apt.ts';
import type { Certificate } from './certificate.ts';
import { freePort } from './ports.ts';
import { startDaemon, stopLeftovers } from './process.ts';
import type { Log } from './progress.ts';
import { waitFor } from './wait.ts';

/** A broker that speaks AMQP 1.0 over TLS, and knows its one client by the common name of its certificate. */
export interface Rabbitmq extends AsyncDisposable {
  readonly port: number;
}

export interface RabbitmqOptions {
  /** Folder of data, configuration and log. */
  dir: string;
  tls: Certificate & { caFile: string; commonName: string };
  log?: Log;
}

const SERVER = '/usr/lib/rabbitmq/bin/rabbitmq-server';

/** Starts RabbitMQ with its plugin for AMQP 1.0, installed from packages of Debian, with everything that it writes in `dir`. */
export async function startRabbitmq({ dir, tls, log }: RabbitmqOptions): Promise<Rabbitmq> {
  await installPackages({
    packages: ['rabbitmq-server'],
    missing: () => (existsSync(SERVER) ? '' : 'rabbitmq-server'),
    why: 'No AMQP 1.0 broker runs here',
    elsewhere: 'RabbitMQ 3.10 or later, with rabbitmq-server in /usr/lib/rabbitmq/bin',
    ...(log && { log }),
  });
  await stopLeftovers(dir);
  mkdirSync(join(dir, 'data'), { recursive: true });
  const [port, names, distribution] = [await freePort(), await freePort(), await freePort()];
  const file = (name: string, ...lines: string[]) => {
    writeFileSync(join(dir, name), `${lines.join('\n')}\n`);
    return join(dir, name);
  };
  const env = {
    ...process.env,
    HOME: dir,
    ERL_EPMD_PORT: String(names),
    ERL_EPMD_ADDRESS: '127.0.0.1',
    RABBITMQ_NODENAME: `relay-${port}@localhost`,
    RABBITMQ_DIST_PORT: String(distribution),
    RABBITMQ_MNESIA_BASE: join(dir, 'data'),
    RABBITMQ_LOG_BASE: dir,
    RABBITMQ_ENABLED_PLUGINS_FILE: file('plugins', '[rabbitmq_amqp1_0, rabbitmq_auth_mechanism_ssl].'),
    RABBITMQ_CONFIG_FILE: file(
      'rabbitmq.conf',
      'listeners.tcp = none',
      `listeners.ssl.1 = 127.0.0.1:${port}`,
      `ssl_options.cacertfile = ${tls.caFile}`,
      `ssl_options.certfile = ${tls.cert}`,
      `ssl_options.keyfile = ${tls.key}`,
      'ssl_options.verify = verify_peer',
      'ssl_options.fail_if_no_peer_cert = true',
      'auth_mechanisms.1 = EXTERNAL',
      'ssl_cert_login_from = common_name',
      `default_user = ${tls.commonName}`,
      'vm_memory_high_watermark.absolute = 256MB',
    ),
  };
  const daemon = await startDaemon({ name: `rabbitmq-${port}`, dir, command: SERVER, args: [], env });
  const stop = async () => {
    await daemon.stop();
    try {
      execFileSync('epmd', ['-port', String(names), '-kill'], { env, stdio: 'ignore' });
    } catch {
      // It has ended by itself.
    }
  };
  const listens = () =>
    new Promise<boolean>((resolve) => {
      daemon.assertRunning();
      const socket = connect(port, '127.0.0.1');
      socket.once('connect', () => resolve(true)).once('error', () => resolve(false));
      socket.once('connect', () => socket.destroy());
    });
  try {
    await waitFor(listens, { what: 'rabbitmq to listen', timeoutMs: 240_000 });
  } catch (error) {
    await stop();
    throw error;
  }
  return { port, [Symbol.asyncDispose]: stop };
}
