import { execFile } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { connect as connectTls, type TLSSocket } from 'node:tls';
import { promisify } from 'node:util';
import { beforeEach, expect, onTestFinished, test } from 'vitest';
import { silentLog } from '../../../../src/lib/log.ts';
import { LocalAgent } from '../_local-agent.ts';
import { localApi } from '../routes.ts';
import { listenOnBridge } from './server.ts';

/** One port of loopback, with TLS and without. */

let local: LocalAgent;
let caFile: string;
beforeEach(async () => {
  local = await LocalAgent.start();
  caFile = join(local.folder, 'ca.crt');
  writeFileSync(caFile, local.authority.certificate);
  return () => local[Symbol.asyncDispose]();
});

async function curl(...args: string[]): Promise<string> {
  const run = promisify(execFile)('curl', ['--silent', '--show-error', '--max-time', '10', ...args]);
  return run.then(({ stdout }) => stdout).catch(({ stderr }: { stderr: string }) => stderr);
}

test('curl gets the probes with TLS and without, by name and by address, and verifies the server', async () => {
  const { port } = local;
  for (const url of [`http://127.0.0.1:${port}`, `https://127.0.0.1:${port}`, `https://localhost:${port}`])
    expect(await curl('--ipv4', '--cacert', caFile, `${url}/health/live`)).toBe(
      '{"status":"ok","localApiPhase":"listening"}',
    );
  const name = 'skerry-agent.default.svc.bridge.local';
  const own = ['--cacert', caFile, '--resolve', `${name}:${port}:127.0.0.1`];
  expect(await curl(...own, `https://${name}:${port}/v1/microservices/config`)).toContain('UNAUTHORIZED');
  expect(await curl('--ipv4', `https://localhost:${port}/health/live`)).toMatch(/certificate/);
  expect(
    await curl('--resolve', `other.example:${port}:127.0.0.1`, '--cacert', caFile, `https://other.example:${port}`),
  ).toMatch(/no alternative certificate subject name matches/);
});

test('a body arrives whole with TLS and without, in as many pieces as there may be', async () => {
  const { port, token } = local;
  for (const scheme of ['http', 'https']) {
    const args = ['--ipv4', '--cacert', caFile, '--header', `Authorization: Bearer ${token}`];
    const text = await curl(
      ...args,
      '--data',
      `{"jti":"${'x'.repeat(100_000)}"}`,
      `${scheme}://localhost:${port}/v1/auth/tokens/revoke`,
    );
    expect(text).toContain('the admin of the machine asks over the unix socket only');
  }
});

test('a request whose first byte comes alone is answered, with TLS as well', async () => {
  const socket = connect(local.port, '127.0.0.1');
  const text = 'GET /health/live HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n';
  socket.setNoDelay().write(text.slice(0, 1));
  await once(socket, 'connect');
  await new Promise(setImmediate);
  socket.write(text.slice(1));
  let answer = '';
  for await (const piece of socket) answer += piece;
  expect(answer).toMatch(/^HTTP\/1.1 200/);
});

const peerOf = (socket: TLSSocket) => new X509Certificate(socket.getPeerCertificate(true).raw);

async function dial(port = local.port): Promise<TLSSocket> {
  const socket = connectTls({ host: '127.0.0.1', port, ca: local.authority.certificate });
  await once(socket, 'secureConnect');
  return socket;
}

test('a renewed certificate is served to new connections, and leaves the open ones', async () => {
  const first = await dial();
  local.authority.server(['192.0.2.1']);
  const second = await dial();
  expect(peerOf(second).subjectAltName).toContain('192.0.2.1');
  expect(peerOf(second).serialNumber).not.toBe(peerOf(first).serialNumber);
  first.write('GET /health/live HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n');
  let text = '';
  for await (const piece of first) text += piece;
  expect(text).toMatch(/^HTTP\/1.1 200/);
  second.destroy();
});

test('the listener of containers takes a renewed certificate without an interruption', async () => {
  const deps = { api: localApi({ agent: local.agent } as never), clock: local.clock, log: silentLog };
  const { server, renew } = await listenOnBridge('127.0.0.1', 0, local.authority, deps);
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
  });
  const { port } = server.address() as { port: number };
  const first = await dial(port);
  renew();
  const second = await dial(port);
  expect(peerOf(second).serialNumber).toBe(peerOf(first).serialNumber);
  local.authority.server(['192.0.2.1']);
  renew();
  const third = await dial(port);
  expect(peerOf(third).subjectAltName).toContain('192.0.2.1');
  expect(first.readyState).toBe('open');
  for (const socket of [first, second, third]) socket.destroy();
});

test('bytes that are neither TLS nor HTTP concern their own connection alone', async () => {
  for (const bytes of [[0x16, 3, 1, 0, 1, 0], [0x16], [0x80, 0x2e, 1], [0], [0x16, ...Array(300).fill(0xff)]]) {
    const socket = connect(local.port, '127.0.0.1').on('error', () => {});
    await once(socket, 'connect');
    socket.end(Uint8Array.from(bytes));
    expect(await curl('--ipv4', '--cacert', caFile, `https://localhost:${local.port}/health/live`)).toContain('"ok"');
    socket.destroy();
  }
});

test('500 connections that send nothing, or half a handshake, leave the port to others', async () => {
  const sockets = Array.from({ length: 500 }, (_, n) => {
    const socket = connect(local.port, '127.0.0.1').on('error', () => {});
    if (n % 2) socket.write(Uint8Array.from([0x16, 3, 1]));
    return socket;
  });
  await Promise.all(sockets.map((socket) => socket.readyState === 'open' || once(socket, 'connect')));
  for (const scheme of ['http', 'https'])
    expect(await curl('--ipv4', '--cacert', caFile, `${scheme}://localhost:${local.port}/health/live`)).toContain(
      '"ok"',
    );
  for (const socket of sockets) socket.destroy();
});
