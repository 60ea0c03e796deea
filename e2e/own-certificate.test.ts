import { createHash, X509Certificate } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { connect } from 'node:tls';
import { expect, test } from 'vitest';
import { fakeTime } from '../hack/faketime.ts';
import { freePort } from '../hack/ports.ts';
import { CONTROLLER_AUTHORITY, CONTROLLER_CERTIFICATE } from '../src/api/names.ts';
import { manifest } from '../testing/manifest.ts';
import { type AgentProcess, createStack, until } from './_stack.ts';

/**
 * A controller that makes its own certificate, and an agent that knows its authority by the digest of a join string alone: across a
 * renewal, and across another key of the authority.
 */
const MINUTE_MS = 60_000;
/** The next key of the authority signs once half of this life is over: before the clock that is ahead of the agent by less than an hour. */
const AUTHORITY_MS = 90 * MINUTE_MS;
const AHEAD = '+3300s';

const stack = await createStack();
const port = await freePort();
const env = { SKERRY_TLS_HOSTS: '127.0.0.1', SERVER_PORT: String(port) };

const secret = async (name: string): Promise<Record<string, string>> => {
  const path = `/api/v1/namespaces/${stack.namespace}/secrets/${name}`;
  const { data = {} } = (await stack.kube.get<{ data?: Record<string, string> }>(path)) ?? {};
  return Object.fromEntries(Object.entries(data).map(([key, text]) => [key, Buffer.from(text, 'base64').toString()]));
};
const certificatesIn = (pem = '') =>
  (pem.match(/-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----/g) ?? []).map(
    (one) => new X509Certificate(one),
  );

/** The certificate that the controller shows. */
const shown = () =>
  new Promise<X509Certificate>((resolve, reject) => {
    const socket = connect({ host: '127.0.0.1', port, rejectUnauthorized: false }, () => {
      const certificate = socket.getPeerX509Certificate();
      socket.destroy();
      if (certificate) resolve(certificate);
      else reject(new Error('no certificate'));
    });
    socket.once('error', reject);
  });

const trustedBy = (agent: AgentProcess) =>
  certificatesIn(JSON.parse(readFileSync(join(agent.dir, 'data', 'identity.json'), 'utf8')).node?.ca);
const connection = async (agent: AgentProcess) => {
  const { stdout } = await agent.cli('status', '--output', 'json');
  return JSON.parse(stdout).controllerConnection as string;
};
const lostConnections = (agent: AgentProcess) =>
  readFileSync(join(agent.dir, 'log', 'agent.log'), 'utf8')
    .split('\n')
    .filter((line) => line.includes('The controller cannot be used'));

/** Orders a renewal, and waits until the controller shows another certificate. */
async function renew() {
  const { fingerprint256: before, validFromDate } = await shown();
  // Certificates count seconds, begin an hour early, and are renewed for an order that is later.
  const madeAt = validFromDate.getTime() + 60 * MINUTE_MS;
  await until('an order that is later than the certificate', async () => Date.now() >= madeAt + 1_000);
  await stack.annotate('certificates', CONTROLLER_CERTIFICATE, { 'skerry.dev/renew': new Date().toISOString() });
  await until('the controller to show the next certificate', async () => (await shown()).fingerprint256 !== before);
}

test('an agent stays connected while the certificate of the controller is renewed, and comes back by the next authority', async () => {
  // Of an authority that exists the controller changes nothing.
  await stack.apply(manifest('CertificateAuthority', { name: CONTROLLER_AUTHORITY }, { expiration: AUTHORITY_MS }));
  const plain = await stack.startController();
  const controller = await stack.startController({ env });
  const url = `https://127.0.0.1:${port}`;
  const [authority] = certificatesIn((await secret(CONTROLLER_CERTIFICATE))['ca.crt']);
  const caDigest = createHash('sha256')
    .update(authority?.raw ?? '')
    .digest('hex');
  const agent = await stack.startAgent('gw', plain, { url, caDigest });
  const away = await stack.startAgent('gw-away', plain, { url, caDigest });
  for (const one of [agent, away]) await until('a connection', async () => (await connection(one)) === 'OK');
  await away.stop();
  expect(trustedBy(agent)).toHaveLength(1);

  await renew();
  await stack.annotate('certificateauthorities', CONTROLLER_AUTHORITY, {
    'skerry.dev/renew': new Date().toISOString(),
  });
  await until('the agent to know the next authority', async () => trustedBy(agent).length === 2);
  // It does not sign yet.
  await renew();
  expect(authority && (await shown()).verify(authority.publicKey)).toBe(true);
  expect(await connection(agent)).toBe('OK');
  expect(lostConnections(agent)).toEqual([]);

  await controller.stop();
  await plain.stop();
  await stack.startController({ env: { ...env, ...(await fakeTime(AHEAD)) } });
  await renew();
  const [next] = certificatesIn((await secret(`skerry-ca-${CONTROLLER_AUTHORITY}`))['tls.crt']);
  const certificate = await shown();
  expect(next && certificate.verify(next.publicKey)).toBe(true);
  expect(authority && certificate.verify(authority.publicKey)).toBe(false);
  // It trusts the certificate. The clock of the controller has jumped, so that it refuses a token until the agent asks for the time.
  await until('the agent to connect again', async () => /^(OK|UNAUTHORIZED)$/.test(await connection(agent)));
  expect(lostConnections(agent).filter((line) => line.includes('BROKEN_CERTIFICATE'))).toEqual([]);

  await agent.stop();
  await agent.start();
  await until('a connection of the next process', async () => (await connection(agent)) === 'OK');
  expect(trustedBy(agent).map(({ fingerprint256 }) => fingerprint256)).toContain(next?.fingerprint256);

  // A machine that was away from before the next authority existed is brought back by a file with it.
  await away.start();
  await until('the refusal', async () => (await connection(away)) === 'BROKEN_CERTIFICATE');
  const file = join(away.dir, 'ca.crt');
  writeFileSync(file, (await secret(CONTROLLER_CERTIFICATE))['ca.crt'] ?? '');
  expect(await away.cli('config', `controllerCert=${file}`)).toMatchObject({ code: 0 });
  await away.stop();
  await away.start();
  await until('the list of the controller', async () => trustedBy(away).length === 2);
}, 180_000);
