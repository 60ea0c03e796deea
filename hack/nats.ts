import { mkdirSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { makeNkey, signJwt } from '../src/signer/nkeys.ts';
import { accountClaims, operatorClaims, userClaims } from '../src/subjects/bus-rules/rules/tokens/claims.ts';
import { credentials } from '../src/subjects/bus-rules/rules/tokens/credentials.ts';
import { freePort } from './ports.ts';
import { startDaemon, stopLeftovers } from './process.ts';
import type { Log } from './progress.ts';
import { buildTool } from './tool.ts';
import { waitFor } from './wait.ts';

/** A server of the message bus with one account, whose user may use some subjects only. */
export interface Nats extends AsyncDisposable {
  readonly port: number;
  /** File with the token and the seed of the user. */
  readonly credentials: string;
}

export interface NatsOptions {
  /** Folder of configuration, credentials and log. */
  dir: string;
  /** Subjects that the user may publish and subscribe. */
  subjects: readonly string[];
  log?: Log;
}

/** Starts nats-server, built from its pinned Go module, with credentials as the message bus has them. */
export async function startNats({ dir, subjects, log }: NatsOptions): Promise<Nats> {
  await stopLeftovers(dir);
  const [operator, account, user] = [await makeNkey('operator'), await makeNkey('account'), await makeNkey('user')];
  const iat = Math.floor(Date.now() / 1_000);
  const name = 'controller';
  const ofOperator = operatorClaims({ key: operator.publicKey, name: 'test', iat });
  const ofAccount = accountClaims({
    ...{ operator: operator.publicKey, key: account.publicKey, name, rule: {}, revocations: {}, iat },
  });
  const rule = { pubAllow: [...subjects], subAllow: [...subjects] };
  const ofUser = userClaims({ account: account.publicKey, key: user.publicKey, name, rule, iat });
  const file = join(dir, 'controller.creds');
  mkdirSync(dir, { recursive: true });
  writeFileSync(file, credentials(await signJwt(ofUser, account.seed), user.seed), { mode: 0o600 });
  const preload = `${account.publicKey}: ${await signJwt(ofAccount, operator.seed)}`;
  const server = await startNatsServer({
    dir,
    config: [
      `operator: ${await signJwt(ofOperator, operator.seed)}`,
      'resolver: MEMORY',
      `resolver_preload: { ${preload} }`,
    ],
    ...(log && { log }),
  });
  return { ...server, credentials: file, [Symbol.asyncDispose]: () => server.stop() };
}

/** A running nats-server. */
export interface NatsServer {
  readonly port: number;
  stop(): Promise<void>;
}

interface NatsServerOptions {
  /** Folder of configuration and log. */
  dir: string;
  /** Lines of its configuration besides the port of clients. */
  config: readonly string[];
  /** of clients; a free one when absent */
  port?: number;
  log?: Log;
}

/** Starts nats-server, built from its pinned Go module, and resolves when it listens. */
export async function startNatsServer({ dir, config, port: asked, log }: NatsServerOptions): Promise<NatsServer> {
  const command = await buildTool('nats', 'github.com/nats-io/nats-server/v2', log && { log });
  const port = asked ?? (await freePort());
  const file = join(dir, 'server.conf');
  writeFileSync(file, [`listen: "127.0.0.1:${port}"`, ...config, ''].join('\n'));
  const daemon = await startDaemon({ name: `nats-${port}`, dir, command, args: ['-c', file] });
  const answers = async () => {
    daemon.assertRunning();
    return new Promise<boolean>((resolve) => {
      const socket = connect(port, '127.0.0.1', () => {
        socket.destroy();
        resolve(true);
      });
      socket.once('error', () => resolve(false));
    });
  };
  try {
    await waitFor(answers, { what: 'nats-server to listen', timeoutMs: 30_000 });
  } catch (error) {
    await daemon.stop();
    throw error;
  }
  return { port, stop: () => daemon.stop() };
}
