import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { freePort } from '../hack/ports.ts';
import { Sshd } from '../hack/sshd.ts';
import { temporaryFolder } from '../testing/temporary-folder.ts';
import { type AgentProcess, type ControllerProcess, createStack, type Rest, type Stack, until } from './_stack.ts';

/** A tunnel over the OpenSSH server of Debian, set up as docs/tunnel.md has it: from a port of the server to a port of the machine. */
const folder = temporaryFolder();
const page = readFileSync(join(import.meta.dirname, '../docs/tunnel.md'), 'utf8');
/** The block of the page for the configuration of the server, without its first line, which names the user. */
const restrictions = /^Match User tunnel\n((?: {4}.*\n)+)/m.exec(page)?.[1] ?? '';

let stack: Stack;
let controller: ControllerProcess;
let rest: Rest;
let sshd: Sshd;
let agent: AgentProcess;
let path = '';
let env: Record<string, string>;
const machine = createServer((socket) => socket.end('hello from the machine'));

beforeAll(async () => {
  stack = await createStack();
  sshd = await Sshd.start({ dir: join(folder, 'sshd'), restrictions });
  const localPort = await freePort();
  await new Promise<void>((resolve) => machine.listen(localPort, '127.0.0.1', resolve));
  const first = await freePort();
  env = {
    SERVER_PORT: String(await freePort()),
    TUNNEL_HOST: `127.0.0.1:${sshd.port}`,
    TUNNEL_USERNAME: sshd.username,
    TUNNEL_PORT_RANGE: `${first}-${first}`,
    TUNNEL_LOCAL_PORT: String(localPort),
    SKERRY_TUNNEL_SECRET: 'tunnels',
  };
  controller = await stack.startController({ env });
  rest = stack.rest(controller);
  agent = await stack.startAgent('gw-1', controller);
  const node = await until('the identity', async () => (await stack.node('gw-1'))?.status?.uuid);
  path = `/node/${node}/tunnel`;
}, 240_000);
afterAll(async () => {
  await stack?.[Symbol.asyncDispose]();
  await sshd?.[Symbol.asyncDispose]();
  machine.close();
}, 60_000);

let rsaKey = '';
const setSecret = (data: { rsaKey: string; knownHosts: string }) =>
  stack.apply({ apiVersion: 'v1', kind: 'Secret', metadata: { name: 'tunnels' }, stringData: data } as never);

const remotePort = () => Number(env.TUNNEL_PORT_RANGE?.split('-')[0]);
/** What a client of the ssh server reads at the port of the tunnel; undefined while nothing listens there. */
const visit = () =>
  new Promise<string | undefined>((resolve) => {
    const socket = connect(remotePort(), '127.0.0.1');
    let text = '';
    socket.setTimeout(5_000, () => socket.destroy());
    socket.on('data', (piece) => {
      text += piece;
    });
    socket.once('error', () => resolve(undefined)).once('close', () => resolve(text || undefined));
  });
const untilOpen = () =>
  until('the tunnel to lead to the machine', async () => (await visit()) === 'hello from the machine', {
    timeoutMs: 60_000,
  });
const untilClosed = () => until('the port to be closed', async () => (await visit()) === undefined);
const patch = async (action: string) => expect((await rest('PATCH', path, { action })).status).toBe(204);
const failure = async () => {
  const { status } = (await stack.node('gw-1')) ?? {};
  return status?.conditions?.find(({ type }) => type === 'TunnelFailed')?.message ?? '';
};
const untilFailed = (why: RegExp) =>
  until(`the condition ${why}`, async () => why.test(await failure()), { timeoutMs: 60_000 });
const untilWell = () => until('no condition', async () => (await failure()) === '');
const files = () => readdirSync(join(agent.dir, 'data')).filter((name) => name === 'tunnel');

/** The command lines of the ssh clients that have the files of this agent. */
const clients = () =>
  readdirSync('/proc').flatMap((pid) => {
    try {
      const line = readFileSync(`/proc/${Number(pid)}/cmdline`, 'utf8');
      return line.includes(join(agent.dir, 'data', 'tunnel')) ? [line] : [];
    } catch {
      return [];
    }
  });

describe('a tunnel', () => {
  test('is refused while its Secret is missing, and leads from the ssh server to the machine once it is opened', async () => {
    expect(await rest('PATCH', path, { action: 'open' })).toMatchObject({
      status: 400,
      body: { code: 'TUNNEL_NOT_CONFIGURED' },
    });
    rsaKey = sshd.allow('first', 'PEM');
    await setSecret({ rsaKey, knownHosts: sshd.knownHosts });
    await until('the Secret', async () => (await rest('PATCH', path, { action: 'open' })).status === 204);
    await untilOpen();
    expect((await rest('GET', path)).body).toEqual({
      ...{ host: '127.0.0.1', username: sshd.username, status: 'open' },
      ...{ remotePort: remotePort(), localPort: Number(env.TUNNEL_LOCAL_PORT) },
    });
    const shown = async () => (await rest('GET', path.replace('/tunnel', ''))).body.tunnelStatus;
    await until('the report', async () => (await shown()) === '{"status":"open"}');
    expect((await agent.cli('status')).stdout).toMatch(/^Tunnel: +open$/m);
  });

  test('has its key in no command line, bundle or status, and in files that only the agent reads', async () => {
    const secretLine = rsaKey.split('\n')[3] as string;
    const bundle = join(folder, 'bundle.tar.gz');
    const made = await agent.cli('support-bundle', bundle);
    expect(made, made.stderr).toMatchObject({ code: 0 });
    const { stdout } = spawnSync('tar', ['-xzOf', bundle], { encoding: 'utf8', maxBuffer: 2 ** 28 });
    expect(stdout).toContain('The tunnel is open');
    for (const text of [
      stdout,
      clients().join(''),
      JSON.stringify(await stack.node('gw-1')),
      readFileSync(agent.logFile, 'utf8'),
    ])
      expect(text).not.toContain(secretLine);
    expect(clients().length).toBeGreaterThan(0);
  });

  test('has a key that opens neither a shell nor another way through the ssh server', () => {
    const key = join(folder, 'sshd', 'first');
    const hosts = join(folder, 'hosts');
    writeFileSync(hosts, sshd.knownHosts);
    const common = [
      '-F',
      'none',
      '-i',
      key,
      '-o',
      `UserKnownHostsFile=${hosts}`,
      '-o',
      'BatchMode=yes',
      '-p',
      String(sshd.port),
    ];
    const ssh = (...args: string[]) =>
      spawnSync('ssh', [...common, ...args], { encoding: 'utf8', input: '', timeout: 20_000 });
    const to = `${sshd.username}@127.0.0.1`;
    const shell = ssh(to, 'echo', 'in');
    expect([shell.status === 0, shell.stdout.includes('in\n')]).toEqual([false, false]);
    const through = ssh('-W', `127.0.0.1:${env.TUNNEL_LOCAL_PORT}`, to);
    expect([through.status === 0, through.stdout]).toEqual([false, '']);
    expect(through.stderr).toMatch(/administratively prohibited|stdio forwarding failed/);
  });

  test('ends with an agent that is killed, and is open again after its next start without a controller', async () => {
    await controller.stop();
    expect(clients()).not.toEqual([]);
    await agent.kill();
    await until('the ssh client to end', async () => clients().length === 0);
    await untilClosed();
    await agent.start();
    await untilOpen();
    controller = await stack.startController({ env });
    rest = stack.rest(controller);
  });

  test('is open again after the ssh server was down', async () => {
    await sshd.kill();
    await untilFailed(/Connection refused|closed by remote host|not responding/);
    await sshd.start();
    await untilOpen();
    await untilWell();
  });

  test('goes to no server with another host key, until the Secret has it', async () => {
    await sshd.kill();
    sshd.newHostKey();
    await sshd.start();
    await untilFailed(/the host key of 127\.0\.0\.1 is none of knownHosts in the Secret of the tunnels/);
    expect(await visit()).toBeUndefined();
    await setSecret({ rsaKey, knownHosts: sshd.knownHosts });
    await untilOpen();
    await untilWell();
  });

  test('opens with another key within seconds of a change of the Secret', async () => {
    rsaKey = sshd.allow('second', 'OpenSSH');
    const began = performance.now();
    await setSecret({ rsaKey, knownHosts: sshd.knownHosts });
    const file = join(agent.dir, 'data', 'tunnel', 'key');
    await until('the next key', async () => existsSync(file) && readFileSync(file, 'utf8') === rsaKey);
    expect(performance.now() - began).toBeLessThan(15_000);
    await untilOpen();
  });

  test('is forbidden by the policy of the machine, in words', async () => {
    const policyFile = join(agent.dir, 'policy.yaml');
    writeFileSync(policyFile, 'tunnel: false\n');
    process.kill(agent.pid, 'SIGHUP');
    await untilFailed(/the policy of this machine forbids tunnels/);
    await untilClosed();
    expect(files()).toEqual([]);
    rmSync(policyFile);
    process.kill(agent.pid, 'SIGHUP');
    await untilOpen();
  });

  test('ends when it is closed over REST, and opens with the annotation', async () => {
    await patch('close');
    await untilClosed();
    await until('the end of the ssh client', async () => clients().length === 0 && files().length === 0);
    expect((await rest('GET', path)).body).toMatchObject({ status: 'closed', remotePort: remotePort() });
    await until('the port to be free', async () => (await stack.node('gw-1'))?.status?.tunnel?.state === 'closed');
    await stack.annotate('edgenodes', 'gw-1', { 'skerry.dev/tunnel': 'open' });
    await untilOpen();
  });

  test('ends when the agent is deprovisioned', async () => {
    const left = await agent.cli('deprovision', '--yes');
    expect(left, left.stderr).toMatchObject({ code: 0 });
    await untilClosed();
    await until('the end of the ssh client', async () => clients().length === 0 && files().length === 0);
    await until(
      'the port to be free',
      async () => (await stack.node('gw-1'))?.status?.daemonStatus === 'DEPROVISIONED',
    );
  });
});
