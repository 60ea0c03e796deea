import { execFileSync, spawn } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeEach, describe, expect, inject, test } from 'vitest';
import { until } from '../../agent/src/engines/_contract.ts';
import type { MemoryEngine } from '../../agent/src/engines/memory/_engine.ts';
import type { MemoryProgram } from '../../agent/src/engines/memory/_program.ts';
import { runContainer, startSessions } from '../../agent/src/sessions/_agent.ts';
import type {} from '../../hack/testing/provided.ts';
import { startTestCluster } from '../../src/rest/_cluster.ts';
import { startStack } from '../../src/sessions/_stack.ts';
import { RESOURCES } from '../../src/subjects/kinds.ts';
import { temporaryFolder } from '../../testing/temporary-folder.ts';
import { createPlugin } from './_plugin.ts';

/**
 * Sessions of the plugin: names from a real API server, the sockets of a controller, an agent whose containers are in memory.
 * What concerns terminals and pipes runs the plugin as a process.
 */

const folder = temporaryFolder();

const [cluster, stack] = await Promise.all([startTestCluster(), startStack()]);
const origin = new URL(stack.url).origin.replace('ws', 'http');
const { namespace } = cluster;
for (const [name, entry, uuid, isSystem] of [
  ['shop', 'web', stack.web, false],
  ['system', 'router', stack.router, true],
] as const)
  await cluster.kube.create(RESOURCES.applications, {
    apiVersion: 'skerry.dev/v3',
    kind: 'Application',
    metadata: { name, namespace, labels: { site: 'north' } },
    spec: { isSystem, microservices: [{ name: entry, uuid, agent: { name: 'edge-1' }, images: { amd64: 'x:1' } }] },
  } as never);
const node = { metadata: { name: 'edge-1', namespace }, spec: { uuid: stack.nodeUuid } };
await cluster.kube.create(RESOURCES.nodes, { apiVersion: 'skerry.dev/v3', kind: 'EdgeNode', ...node } as never);
afterAll(() => stack[Symbol.asyncDispose]());

let engine: MemoryEngine;
let container: string;
beforeEach(async () => {
  ({ engine, container } = await runContainer(stack.web));
  const agent = await startSessions(stack, {
    engine,
    container: (uuid) => (uuid === stack.web ? [...engine.running().values()].flat()[0] : undefined),
    ownLog: async function* () {
      yield { line: 'of the agent', ts: '' };
    },
  });
  return () => agent[Symbol.asyncDispose]();
});
const program = (): Promise<MemoryProgram> => until('the program', () => engine.programs[0]);

const plugin = (env: NodeJS.ProcessEnv = {}) =>
  createPlugin(cluster.kube, cluster.namespace, {
    env: { SKERRY_CONTROLLER: origin, SKERRY_TOKEN: 'admin', ...env },
  });

/** The plugin as a process: below a shell, so that its streams can be files. */
function shell(command: string) {
  const main = fileURLToPath(new URL('main.ts', import.meta.url));
  const child = spawn('/bin/sh', ['-c', command], {
    env: {
      ...process.env,
      SKERRY: `${process.execPath} ${main}`,
      WHERE: `--kubeconfig ${inject('kubeconfig')} -n ${cluster.namespace}`,
      SKERRY_CONTROLLER: origin,
      SKERRY_TOKEN: 'admin',
      TERM: 'xterm',
    },
    cwd: folder,
  });
  let [out, err] = ['', ''];
  child.stdout.on('data', (data) => {
    out += data;
  });
  child.stderr.on('data', (data) => {
    err += data;
  });
  const ended = new Promise<number | null>((resolve) => child.once('close', resolve));
  return {
    child,
    get out() {
      return out;
    },
    get err() {
      return err;
    },
    ended,
  };
}

describe('exec', () => {
  test('on a terminal passes keys and the size of the window on, restores the terminal, and ends with the exit code', async () => {
    const inside = join(folder, 'inside.sh');
    // After the program, the terminal echoes whole lines again.
    writeFileSync(
      inside,
      'stty cols 91 rows 37\ntty > tty.txt\n$SKERRY exec -it shop/web $WHERE\ncode=$?\nstty -a > after.txt\nexit $code\n',
    );
    const terminal = shell(`script -qfec 'sh ${inside}' /dev/null`);
    const started = await program();
    await until('the size', () => started.sizes.includes('91x37'));
    const tty = readFileSync(join(folder, 'tty.txt'), 'utf8').trim();
    const settings = () => execFileSync('stty', ['-F', tty, '-a'], { encoding: 'utf8' });
    // A bare line feed is what a full-screen program means by it.
    expect(settings()).toMatch(/\s-opost\s.*-icanon.* -echo /s);
    execFileSync('stty', ['-F', tty, 'cols', '120', 'rows', '50']);
    await until('the new size', () => started.sizes.includes('120x50'));
    started.print('prompt> ');
    await until('the prompt', () => terminal.out.includes('prompt> '));
    terminal.child.stdin.write('ls\r\x03\x04');
    await until('the keys', () => Buffer.concat(started.written).toString() === 'ls\r\x03\x04');
    started.exit(3);
    expect(await terminal.ended).toBe(3);
    expect(readFileSync(join(folder, 'after.txt'), 'utf8')).toMatch(/\sopost\s.* icanon.* echo /s);
  }, 120_000);

  test('in a pipe passes ten megabytes of any bytes both ways, and the end of the input', async () => {
    const bytes = randomBytes(10 * 2 ** 20);
    writeFileSync(join(folder, 'in'), bytes);
    const run = shell('$SKERRY exec -i shop/web $WHERE -- cat < in > out; echo $?');
    const started = await program();
    expect(started.options).toMatchObject({ command: ['cat'], tty: false });
    await until('the end of the input', () => started.stdinClosed);
    const sum = (data: Uint8Array) => createHash('sha256').update(data).digest('hex');
    const received = Buffer.concat(started.written);
    expect(sum(received)).toBe(sum(bytes));
    for (let at = 0; at < received.length; at += 2 ** 18) started.print(received.subarray(at, at + 2 ** 18));
    started.exit(0);
    expect(await run.ended).toBe(0);
    expect({ out: run.out, err: run.err }).toEqual({ out: '0\n', err: '' });
    expect(sum(readFileSync(join(folder, 'out')))).toBe(sum(bytes));
  }, 120_000);

  test('needs a terminal for --tty, else the program gets none', async () => {
    const running = plugin()('exec', '-it', 'shop/web', '--', 'top');
    const started = await program();
    expect(started.options).toMatchObject({ command: ['top'], tty: false });
    started.print('text\n');
    started.exit(0);
    expect(await running).toEqual({
      code: 0,
      out: 'text\n',
      err: 'note: the standard input is no terminal, so the program gets none\n',
    });
  });

  test.for([
    ['a token without the permission', { SKERRY_TOKEN: 'viewer' }, 'shop/web', /not permitted: .*exec/, 1],
    ['an unknown token', { SKERRY_TOKEN: 'x' }, 'shop/web', /does not accept the token .*--audience skerry/, 1],
    ['no address', { SKERRY_CONTROLLER: '' }, 'shop/web', /--controller or \$SKERRY_CONTROLLER/, 2],
    ['no token', { SKERRY_TOKEN: '' }, 'shop/web', /the kubeconfig has no token.*--service-account/, 1],
    ['no controller', { SKERRY_CONTROLLER: 'localhost:1' }, 'shop/web', /the connection to the controller failed/, 1],
    ['an unknown microservice', {}, 'shop/boat', /application shop has no microservice "boat"; it has web/, 1],
    ['an application', {}, 'shop', /"shop" must be <application>\/<microservice>/, 2],
    ['no running container', {}, 'system/router', /the microservice does not run/, 1],
  ] as const)('%s is refused in words', async ([, env, word, message, code]) => {
    expect(await plugin(env)('exec', word, '--', 'true')).toMatchObject({ code, err: expect.stringMatching(message) });
  });

  test('acts as a ServiceAccount with a token for the controller', async () => {
    const path = `/api/v1/namespaces/${cluster.namespace}/serviceaccounts`;
    await cluster.kube.request('POST', path, { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: 'ann' } });
    const asked = plugin()('exec', 'shop/web', '--service-account', 'ann', '--', 'true');
    // The controller of this test knows no tokens of the API server.
    expect(await asked).toMatchObject({ code: 1, err: expect.stringMatching(/does not accept the token/) });
    expect(await plugin()('exec', 'shop/web', '--service-account', 'bob', '--', 'true')).toMatchObject({
      code: 1,
      err: expect.stringMatching(/serviceaccounts "bob" not found/),
    });
  });
});

describe('logs', () => {
  test('have the last lines, with times and of a part when asked for', async () => {
    for (const line of ['one', 'two', 'three']) engine.logOf(container).print(line, '2026-05-01T10:00:00.000Z');
    expect(await plugin()('logs', 'shop/web', '--tail', '2')).toEqual({ code: 0, out: 'two\nthree\n', err: '' });
    expect((await plugin()('logs', 'shop', '-c', 'web', '--tail', '1', '--prefix')).out).toBe('[shop/web] three\n');
    const flags = ['--tail', '-1', '--follow=false', '--timestamps=true'];
    expect((await plugin()('logs', 'shop/web', ...flags)).out).toMatch(/^2026\S+ one\n.* two\n.* three\n$/);
    const timed = await plugin()('logs', 'shop/web', '--tail', '1', '--timestamps');
    expect(timed.out).toBe('2026-05-01T10:00:00.000Z three\n');
    expect((await plugin()('logs', 'shop/web', '--since-time', '2026-05-02T00:00:00Z')).out).toBe('');
  });

  test('of several begin each line with its name, and one that fails does not stop the others', async () => {
    engine.logOf(container).print('one');
    for (const words of [
      ['shop', 'system'],
      ['-l', 'site=north'],
    ]) {
      const { code, out, err } = await plugin()('logs', ...words);
      expect({ code, out }).toEqual({ code: 1, out: '[shop/web] one\n' });
      expect(err).toMatch(
        /^\[system\/router\] the microservice has no container on this node, so there is no log; .*\n$/,
      );
    }
  });

  test('of a node are those of its agent', async () => {
    expect(await plugin()('logs', 'node/edge-1')).toEqual({ code: 0, out: 'of the agent\n', err: '' });
  });

  test('that are followed go on, and end with Ctrl-C', async () => {
    const run = shell('exec $SKERRY logs -f shop/web $WHERE');
    engine.logOf(container).print('early');
    await until('the first line', () => run.out === 'early\n');
    engine.logOf(container).print('late');
    await until('the next line', () => run.out === 'early\nlate\n');
    run.child.kill('SIGINT');
    expect(await run.ended).toBe(130);
    expect(run.err).toBe('');
  }, 60_000);

  test.for([
    [[], 2, /needs either names .* or --selector/],
    [['shop', '-l', 'a=b'], 2, /needs either names .* or --selector/],
    [['shop', '--tail', '0'], 2, /--tail "0" must be a number from 1 to 5000, or -1/],
    [['shop', '--since', 'soon'], 2, /--since "soon" must be a date and time/],
    [['shop', '--previous', '-f'], 2, /one of --follow and --previous, not both/],
    [['-l', 'a=b'], 1, /no application with the labels a=b/],
  ] as const)('%j that cannot be shown say why', async ([args, code, message]) => {
    expect(await plugin()('logs', ...args)).toMatchObject({ code, err: expect.stringMatching(message) });
  });
});
