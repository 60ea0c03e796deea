import { writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { createAccount, createOperator, createUser, type KeyPair } from 'nkeys.js';
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

const NO_LIMIT = -1;

/** Starts nats-server, built from its pinned Go module, with credentials as the message bus has them. */
export async function startNats({ dir, subjects, log }: NatsOptions): Promise<Nats> {
  const command = await buildTool('nats', 'github.com/nats-io/nats-server/v2', log && { log });
  await stopLeftovers(dir);
  const port = await freePort();
  const [operator, account, user] = [createOperator(), createAccount(), createUser()];
  const limits = { subs: NO_LIMIT, data: NO_LIMIT, payload: NO_LIMIT };
  const ofAccount = token(operator, account, 'controller', {
    type: 'account',
    limits: { ...limits, imports: NO_LIMIT, exports: NO_LIMIT, wildcards: true, conn: NO_LIMIT, leaf: NO_LIMIT },
  });
  const allow = { allow: subjects };
  const ofUser = token(account, user, 'controller', { type: 'user', pub: allow, sub: allow, ...limits });
  const credentials = join(dir, 'controller.creds');
  const section = (what: string, text: string) => `-----BEGIN ${what}-----\n${text}\n------END ${what}------\n`;
  const seed = new TextDecoder().decode(user.getSeed());
  writeFileSync(credentials, `${section('NATS USER JWT', ofUser)}\n${section('USER NKEY SEED', seed)}`, {
    mode: 0o600,
  });
  const config = join(dir, 'server.conf');
  const lines = [
    `listen: "127.0.0.1:${port}"`,
    `operator: ${token(operator, operator, 'test', { type: 'operator' })}`,
    'resolver: MEMORY',
    `resolver_preload: { ${account.getPublicKey()}: ${ofAccount} }`,
  ];
  writeFileSync(config, `${lines.join('\n')}\n`);
  const daemon = await startDaemon({ name: `nats-${port}`, dir, command, args: ['-c', config] });
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
  return { port, credentials, [Symbol.asyncDispose]: () => daemon.stop() };
}

/** A token of version 2 of the bus, signed by its issuer. */
function token(issuer: KeyPair, subject: KeyPair, name: string, claims: object): string {
  const encoded = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');
  const iat = Math.floor(Date.now() / 1000);
  const body = { jti: name, iat, iss: issuer.getPublicKey(), sub: subject.getPublicKey(), name };
  const text = `${encoded({ typ: 'JWT', alg: 'ed25519-nkey' })}.${encoded({ ...body, nats: { ...claims, version: 2 } })}`;
  return `${text}.${Buffer.from(issuer.sign(Buffer.from(text))).toString('base64url')}`;
}
