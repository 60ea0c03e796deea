import { execFile, execFileSync, spawnSync } from 'node:child_process';
import { createHash, generateKeyPairSync, sign } from 'node:crypto';
import {
  chmodSync,
  mkdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { createServer, request as httpRequest, type IncomingMessage } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { temporaryFolder } from '../../testing/temporary-folder.ts';
import { silentLog } from '../lib/log.ts';
import { createInstall, type InstallOptions } from './install.ts';
import { createLatestRelease } from './packages.ts';

const PACKAGE = 'content of a package';
const sha256 = (text: string) => createHash('sha256').update(text).digest('hex');

/** A folder as `make release` leaves it, for every architecture. */
function makeReleases(change: { version?: string; deb?: string } = {}): string {
  const folder = temporaryFolder();
  const { version = '1.2.3', deb = 'agent.deb' } = change;
  for (const name of ['latest', '1.2.3']) mkdirSync(join(folder, name));
  const files = {
    deb: { file: deb, sha256: sha256(PACKAGE) },
    archive: { file: 'agent.tar.gz', sha256: sha256(PACKAGE) },
  };
  const packages = { amd64: files, arm64: files, armv7: files };
  writeFileSync(join(folder, 'latest/packages.json'), JSON.stringify({ version, packages }));
  for (const name of ['agent.deb', 'agent.tar.gz']) writeFileSync(join(folder, '1.2.3', name), PACKAGE);
  return folder;
}

/** A server with the way in; what it does not serve gets 404 from elsewhere. */
async function serve(options: Partial<InstallOptions>): Promise<string> {
  const defaults = {
    now: () => performance.now(),
    log: silentLog,
    addressOf: () => 'a',
    nodeOf: async () => undefined,
  };
  const handle = createInstall({ ...defaults, ...options });
  const server = createServer((request, response) => {
    if (!handle(request, response)) response.writeHead(404).end('elsewhere');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** Runs the script of a server on a machine whose programs note their arguments. */
/** Begins to fetch a file. The response is kept until the end of the test: one that is collected gives up its connection. */
async function open(url: string, init?: RequestInit): Promise<Response> {
  const response = await fetch(url, init);
  onTestFinished(() => void response);
  return response;
}

async function install(url: string, joinString?: string) {
  return installOn({}, url, joinString);
}

/** The same with other programs: what dpkg and uname say. */
async function installOn(
  programs: Record<string, string>,
  url: string,
  joinString?: string,
  { installed, downgrade }: { installed?: string; downgrade?: boolean } = {},
): Promise<{ code: number; said: string[]; error: string }> {
  const machine = temporaryFolder();
  const noted = join(machine, 'noted');
  writeFileSync(noted, '');
  const stub = (name: string, text: string) =>
    writeFileSync(join(machine, name), `#!/bin/sh\n${text}\n`, { mode: 0o755 });
  stub('id', 'echo 0');
  stub('systemctl', `echo systemctl "$@" >> ${noted}`);
  stub('skerry-agent', `echo skerry-agent "$@" "$SKERRY_JOIN" >> ${noted}`);
  stub('apt-get', `for last; do :; done; echo "apt-get $(cat "$last")\${SKERRY_JOIN:-}" >> ${noted}`);
  for (const [name, text] of Object.entries(programs)) stub(name, text);
  if (installed) symlinkSync(`releases/${installed}`, join(machine, 'current'));
  const script = (await (await fetch(`${url}/install.sh`)).text())
    .replaceAll('/run/systemd/system', machine)
    .replaceAll('/opt/skerry-agent', machine);
  const env = {
    ...process.env,
    PATH: `${machine}:${process.env.PATH}`,
    ...(joinString && { SKERRY_JOIN: joinString }),
    ...(downgrade && { SKERRY_ALLOW_DOWNGRADE: '1' }),
  };
  return new Promise((resolve) => {
    const child = execFile('sh', ['-s'], { env }, (failed, _out, error) =>
      resolve({ code: Number(failed?.code ?? 0), said: readFileSync(noted, 'utf8').trim().split('\n'), error }),
    );
    child.stdin?.end(script);
  });
}

test('the install script fetches the package of its machine, installs it and joins, with the join string in no argument', async () => {
  const url = await serve({ releases: { folder: makeReleases() } });
  expect(await install(url, 'skerry://c:1/key')).toMatchObject({
    code: 0,
    said: [`apt-get ${PACKAGE}`, 'systemctl start skerry-agent', 'skerry-agent provision skerry://c:1/key'],
  });
});

describe('a machine with an agent', () => {
  const VERSION = '1.2.3';
  test.each(['1.2.2', '1.2.3', '1.2.3-rc.1', '0.10.0', '1.1.10'])('upgrades %s', async (installed) => {
    const url = await serve({ releases: { folder: makeReleases({ version: VERSION }) } });
    const arguments_ = { 'apt-get': `echo apt-get "$@" >> "$(dirname "$0")/noted"` };
    const { code, said } = await installOn(arguments_, url, undefined, { installed });
    expect([code, said[0]]).toEqual([0, expect.stringContaining('apt-get install')]);
    expect(said[0]).not.toContain('downgrades');
  });

  test.each(['1.2.4', '1.2.10', '1.10.0', '2.0.0-rc.1'])('keeps %s, and says how it is replaced', async (installed) => {
    const url = await serve({ releases: { folder: makeReleases({ version: VERSION }) } });
    const { code, said, error } = await installOn({}, url, undefined, { installed });
    expect({ code, said }).toEqual({ code: 1, said: [''] });
    expect(error).toContain(`the agent ${installed} is here, and 1.2.3 is older; with SKERRY_ALLOW_DOWNGRADE=1`);
  });

  test('goes back to an older one on request', async () => {
    const url = await serve({ releases: { folder: makeReleases({ version: VERSION }) } });
    const arguments_ = { 'apt-get': `echo apt-get "$@" >> "$(dirname "$0")/noted"` };
    const { code, said } = await installOn(arguments_, url, undefined, { installed: '2.0.0', downgrade: true });
    expect([code, said[0]]).toEqual([0, expect.stringContaining('--allow-downgrades')]);
  });
});

test.each([
  ['armhf', 'aarch64', 'armv7'],
  ['arm64', 'aarch64', 'arm64'],
  ['', 'x86_64', 'amd64'],
  ['', 'armv7l', 'armv7'],
  // A kernel of 64 bits that shows programs of 32 bits one of their own.
  ['', 'armv8l', 'armv7'],
])(
  'a machine whose dpkg says "%s" and whose kernel says %s gets the package for %s',
  async (dpkg, kernel, expected) => {
    const folder = makeReleases();
    const list = join(folder, 'latest/packages.json');
    const { version, packages } = JSON.parse(readFileSync(list, 'utf8'));
    for (const [architecture, files] of Object.entries<object>(packages)) {
      packages[architecture] = { ...files, deb: { file: architecture, sha256: sha256(architecture) } };
      writeFileSync(join(folder, '1.2.3', architecture), architecture);
    }
    writeFileSync(list, JSON.stringify({ version, packages }));
    const programs = { dpkg: dpkg ? `echo ${dpkg}` : 'exit 127', uname: `echo ${kernel}` };
    const { said } = await installOn(programs, await serve({ releases: { folder } }));
    expect(said[0]).toBe(`apt-get ${expected}`);
  },
);

test.each(['armhf', ''])(
  'a machine with an armv6l, whose dpkg says "%s", is refused by name before anything is fetched',
  async (dpkg) => {
    const programs = { dpkg: dpkg ? `echo ${dpkg}` : 'exit 127', uname: 'echo armv6l' };
    const { code, said, error } = await installOn(programs, await serve({ releases: { folder: makeReleases() } }));
    expect({ code, said }).toEqual({ code: 1, said: [''] });
    expect(error).toContain('this machine is an armv6l, and the agent needs an armv7 or newer');
  },
);

test('the archive leaves directories, links to directories and settings of the machine as they are', async () => {
  const root = temporaryFolder();
  const tree = join(root, 'tree');
  mkdirSync(join(tree, 'etc/skerry-agent'), { recursive: true });
  mkdirSync(join(tree, 'opt/skerry-agent'), { recursive: true });
  for (const name of ['etc/skerry-agent/config.yaml', 'etc/skerry-agent/other', 'opt/skerry-agent/program'])
    writeFileSync(join(tree, name), 'new');
  const archive = join(root, 'agent.tar.gz');
  execFileSync('tar', ['-czf', archive, '-C', tree, './etc', './opt']);
  const machine = join(root, 'machine');
  mkdirSync(join(machine, 'etc/skerry-agent'), { recursive: true });
  mkdirSync(join(machine, 'data'));
  symlinkSync('data', join(machine, 'opt'));
  chmodSync(join(machine, 'etc'), 0o700);
  writeFileSync(join(machine, 'etc/skerry-agent/config.yaml'), 'own');
  const script = await (await fetch(`${await serve({ releases: { folder: makeReleases() } })}/install.sh`)).text();
  const lines = /^ +options=\n[\s\S]*?tar -xzf .*$/m.exec(script)?.[0] ?? '';
  const program = lines
    .replace('"$folder/$archive" -C /', `${archive} -C ${machine}`)
    .replace('-e /etc', `-e ${machine}/etc`);
  execFileSync('sh', ['-euc', program]);
  expect(readFileSync(join(machine, 'data/skerry-agent/program'), 'utf8')).toBe('new');
  expect(statSync(join(machine, 'etc')).mode & 0o777).toBe(0o700);
  expect(readFileSync(join(machine, 'etc/skerry-agent/config.yaml'), 'utf8')).toBe('own');
  expect(readFileSync(join(machine, 'etc/skerry-agent/other'), 'utf8')).toBe('new');
});

test('the install script installs no package whose content is not the one that the controller lists', async () => {
  const folder = makeReleases();
  const url = await serve({ releases: { folder } });
  writeFileSync(join(folder, '1.2.3/agent.deb'), 'another content');
  const { code, said, error } = await install(url);
  expect({ code, said }).toEqual({ code: 1, said: [''] });
  expect(error).toContain(`agent.deb does not have the digest ${sha256(PACKAGE)}`);
});

test('the install script names the public address of the controller, or the place of releases', async () => {
  const folder = makeReleases();
  const text = async (url: string) => (await fetch(`${url}/install.sh`)).text();
  const own = await serve({ releases: { folder }, publicUrl: 'https://c.example:51121/' });
  expect(await text(own)).toContain("url='https://c.example:51121/releases/1.2.3'");
  const files = await serve({ releases: { folder } });
  const other = await serve({ releases: { url: `${files}/releases/` } });
  expect(await text(other)).toContain(`url='${files}/releases/1.2.3'`);
});

test.each([
  ['has no list', () => temporaryFolder()],
  ['has a name with words for the shell', () => makeReleases({ deb: "x'; reboot; '" })],
  ['has a version with words for the shell', () => makeReleases({ version: '$(reboot)' })],
])('a place of releases that %s makes no install script', async (_, makePlace) => {
  const url = await serve({ releases: { folder: makePlace() } });
  const response = await fetch(`${url}/install.sh`);
  expect([response.status, await response.text()]).toEqual([503, 'the controller has no packages of the agent\n']);
});

test('a host with words for the shell does not come into the install script', async () => {
  const url = await serve({ releases: { folder: makeReleases() } });
  const headers = { host: "x'; reboot; '" };
  const status = await new Promise((resolve) =>
    httpRequest(`${url}/install.sh`, { headers }, (response) => resolve(response.statusCode)).end(),
  );
  expect(status).toBe(400);
});

test('a file of a release is sent from where an earlier download ended', async () => {
  const url = await serve({ releases: { folder: makeReleases() } });
  const whole = await fetch(`${url}/releases/1.2.3/agent.deb`);
  expect([whole.status, await whole.text()]).toEqual([200, PACKAGE]);
  const rest = await fetch(`${url}/releases/1.2.3/agent.deb`, { headers: { range: 'bytes=8-' } });
  expect([rest.status, rest.headers.get('content-range'), await rest.text()]).toEqual([
    206,
    `bytes 8-${PACKAGE.length - 1}/${PACKAGE.length}`,
    PACKAGE.slice(8),
  ]);
  expect((await fetch(`${url}/releases/1.2.3/agent.deb`, { headers: { range: 'bytes=999-' } })).status).toBe(416);
  expect((await fetch(`${url}/releases/1.2.3/none`)).status).toBe(404);
  expect((await fetch(`${url}/releases/1.2.3/agent.deb`, { method: 'DELETE' })).status).toBe(405);
});

test('a download goes on only where the file is still the same', async () => {
  const folder = makeReleases();
  const url = `${await serve({ releases: { folder } })}/releases/1.2.3/agent.deb`;
  const etag = (await fetch(url)).headers.get('etag') ?? '';
  const rest = { headers: { range: 'bytes=8-', 'if-range': etag } };
  expect((await fetch(url, rest)).status).toBe(206);
  writeFileSync(join(folder, '1.2.3/agent.deb'), `${PACKAGE} of another release`);
  const whole = await fetch(url, rest);
  expect([whole.status, await whole.text()]).toEqual([200, `${PACKAGE} of another release`]);
});

test('a file that becomes shorter while it is sent ends the connection', async () => {
  const folder = makeReleases();
  const large = join(folder, '1.2.3/large');
  writeFileSync(large, '');
  truncateSync(large, 64 * 2 ** 20);
  const url = `${await serve({ releases: { folder } })}/releases/1.2.3/large`;
  // Less than the five seconds after which a server closes an idle connection.
  const response = await fetch(url, { signal: AbortSignal.timeout(4_000) });
  truncateSync(large, 1);
  await expect(response.arrayBuffer()).rejects.toThrow('terminated');
});

test('no path leads out of the folder of releases', async () => {
  const url = await serve({ releases: { folder: join(makeReleases(), '1.2.3') } });
  for (const path of [
    '/releases/../latest/packages.json',
    '/releases//etc/passwd',
    '/releases/%2e%2e/latest/packages.json',
  ]) {
    const text = await new Promise<string>((resolve) => {
      httpRequest({ host: '127.0.0.1', port: new URL(url).port, path }, (response: IncomingMessage) => {
        response.setEncoding('utf8').once('data', resolve);
      }).end();
    });
    expect(text).toBe('elsewhere');
  }
});

test('one address fetches eight files at once, and others still fetch', async () => {
  const folder = makeReleases();
  writeFileSync(join(folder, '1.2.3/large'), Buffer.alloc(8 * 2 ** 20));
  let address = 'a';
  const url = await serve({ releases: { folder }, addressOf: () => address });
  const status = async () => (await open(`${url}/releases/1.2.3/large`)).status;
  expect(await Promise.all(Array.from({ length: 8 }, status))).toEqual(Array(8).fill(200));
  const refused = await fetch(`${url}/releases/1.2.3/large`);
  expect([refused.status, refused.headers.get('retry-after')]).toEqual([503, '10']);
  address = 'b';
  expect(await status()).toBe(200);
});

test('a new machine gets its turn after a minute where its address fetches eight files: the slowest download gives way', async () => {
  const folder = makeReleases();
  const large = join(folder, '1.2.3/large');
  writeFileSync(large, '');
  truncateSync(large, 24 * 2 ** 20);
  let at = 0;
  const url = `${await serve({ releases: { folder }, now: () => at })}/releases/1.2.3/large`;
  const begin = async () => {
    const { status, body } = await fetch(url);
    return { status, reader: body?.getReader() };
  };
  type Download = Awaited<ReturnType<typeof begin>>;
  const read = async ({ reader }: Download, bytes: number) => {
    for (let got = 0; got < bytes; ) {
      const piece = await reader?.read();
      if (!piece?.value) return;
      got += piece.value.length;
    }
  };
  const held: Download[] = [];
  for (let i = 0; i < 8; i++) held.push(await begin());
  const [fast] = held as [Download];
  await read(fast, 16 * 2 ** 20);
  at = 59_999;
  expect((await begin()).status).toBe(503);
  at = 60_000;
  expect((await begin()).status).toBe(200);
  // The new one has not had its turn, so that a second one takes that of another.
  expect((await begin()).status).toBe(200);
  await read(fast, Number.POSITIVE_INFINITY);
  const ends = await Promise.allSettled(held.slice(1).map((one) => read(one, Number.POSITIVE_INFINITY)));
  expect(ends.filter(({ status }) => status === 'rejected')).toHaveLength(2);
});

test('the install script goes on where a download ended', async () => {
  const url = await serve({ releases: { folder: makeReleases() } });
  // The first attempt ends after some bytes, the second one gets the rest.
  const curl = `
while [ "$1" != -o ]; do shift; done
if [ -e "$2" ]; then printf '${PACKAGE.slice(7)}' >> "$2"
else printf '${PACKAGE.slice(0, 7)}' > "$2"; exit 18; fi`;
  const { code, said } = await installOn({ curl }, url);
  expect([code, said[0]]).toEqual([0, `apt-get ${PACKAGE}`]);
});

test('the install script ends when an attempt at a download got nothing further', async () => {
  const url = await serve({ releases: { folder: makeReleases() } });
  const { code, error } = await installOn({ curl: 'exit 22' }, url);
  expect([code, error]).toEqual([1, expect.stringContaining('agent.deb cannot be fetched')]);
});

test('two files at once go to each node, however many nodes share one address', async () => {
  const folder = makeReleases();
  writeFileSync(join(folder, '1.2.3/large'), Buffer.alloc(8 * 2 ** 20));
  const nodeOf: InstallOptions['nodeOf'] = async ({ headers }) => {
    if (headers.authorization === 'Bearer wrong') throw new Error('there is no such node');
    return headers.authorization;
  };
  const url = await serve({ releases: { folder }, nodeOf });
  const status = async (authorization?: string) => {
    const headers = authorization === undefined ? undefined : { authorization };
    return (await open(`${url}/releases/1.2.3/large`, { headers })).status;
  };
  for (const node of ['a', 'b', 'c', 'd', 'e'])
    expect([await status(node), await status(node), await status(node)]).toEqual([200, 200, 503]);
  // A client that is no node counts by its address.
  expect(await Promise.all(Array.from({ length: 8 }, () => status('Bearer wrong')))).toEqual(Array(8).fill(200));
  expect(await status()).toBe(503);
});

test('clients that are no nodes hold half of the downloads at most, and one that takes long gives way when there is no place left', async () => {
  const folder = makeReleases();
  writeFileSync(join(folder, '1.2.3/large'), Buffer.alloc(8 * 2 ** 20));
  let [address, at] = [0, 0];
  const nodeOf: InstallOptions['nodeOf'] = async ({ headers }) => headers.authorization;
  const addressOf = () => String(Math.floor(address++ / 8));
  const url = `${await serve({ releases: { folder }, nodeOf, addressOf, now: () => at })}/releases/1.2.3/large`;
  const held: Response[] = [];
  const status = async (authorization?: string) => {
    const response = await open(url, authorization === undefined ? {} : { headers: { authorization } });
    held.push(response);
    return response.status;
  };
  for (let i = 0; i < 32; i++) expect(await status()).toBe(200);
  expect(await status()).toBe(503);
  for (let i = 0; i < 32; i++) expect(await status(`node ${i}`)).toBe(200);
  expect(await status('another node')).toBe(503);
  at = 10 * 60_000;
  expect(await status()).toBe(200);
  await expect(held[0]?.arrayBuffer()).rejects.toThrow('terminated');
  expect(await status('another node')).toBe(200);
  await expect(held[1]?.arrayBuffer()).rejects.toThrow('terminated');
});

test('with release keys, the install script comes only from a list that one of them has signed', async () => {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519');
  const folder = makeReleases();
  const list = join(folder, 'latest/packages.json');
  const status = async () =>
    (await fetch(`${await serve({ releases: { folder }, keys: [publicKey] })}/install.sh`)).status;
  const write = (change: object, key = privateKey) => {
    const bytes = Buffer.from(JSON.stringify({ ...JSON.parse(readFileSync(list, 'utf8')), ...change }));
    writeFileSync(list, bytes);
    writeFileSync(`${list}.sig`, sign(null, bytes, key).toString('base64'));
  };
  expect(await status()).toBe(503);
  // A manifest of a release is signed by the same key.
  write({});
  expect(await status()).toBe(503);
  write({ product: 'skerry-agent-packages' });
  expect(await status()).toBe(200);
  write({}, generateKeyPairSync('ed25519').privateKey);
  expect(await status()).toBe(503);
});

test('with release keys, no list is served that was made before one that the controller has read', async () => {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519');
  const folder = makeReleases();
  const list = join(folder, 'latest/packages.json');
  let at = 0;
  const url = await serve({ releases: { folder }, keys: [publicKey], now: () => at });
  const status = async (created: string | undefined) => {
    at += 60_000;
    const content = { ...JSON.parse(readFileSync(list, 'utf8')), product: 'skerry-agent-packages', created };
    const bytes = Buffer.from(JSON.stringify(content));
    writeFileSync(list, bytes);
    writeFileSync(`${list}.sig`, sign(null, bytes, privateKey).toString('base64'));
    return (await fetch(`${url}/install.sh`)).status;
  };
  // Lists of former releases do not say when they were made.
  expect(await status(undefined)).toBe(200);
  expect(await status('2026-11-01T00:00:00.000Z')).toBe(200);
  expect(await status('2026-11-20T00:00:00.000Z')).toBe(200);
  expect(await status('2026-11-01T00:00:00.000Z')).toBe(503);
  expect(await status(undefined)).toBe(503);
  expect(await status('2026-11-20T00:00:00.000Z')).toBe(200);
});

test('a connection that ends gives back the downloads that waited on it', async () => {
  const folder = makeReleases();
  writeFileSync(join(folder, '1.2.3/large'), Buffer.alloc(8 * 2 ** 20));
  const url = await serve({ releases: { folder } });
  const status = async () => (await fetch(`${url}/releases/1.2.3/agent.deb`)).status;
  const socket = connect(Number(new URL(url).port), '127.0.0.1').on('error', () => {});
  socket.write('GET /releases/1.2.3/large HTTP/1.1\r\nHost: c\r\n\r\n'.repeat(8));
  await expect.poll(status).toBe(503);
  socket.resetAndDestroy();
  await expect.poll(status).toBe(200);
  // All of them, not one.
  const statusOfLarge = async () => (await open(`${url}/releases/1.2.3/large`)).status;
  expect(await Promise.all(Array.from({ length: 8 }, statusOfLarge))).toEqual(Array(8).fill(200));
});

test('the latest release is the one that agents update to, else that of the packages, and none where there is no place', async () => {
  const folder = makeReleases();
  let now = 0;
  const inFolder = createLatestRelease({ folder }, () => now);
  expect(await inFolder()).toBe('1.2.3');
  const url = `${await serve({ releases: { folder } })}/releases/`;
  const onServer = createLatestRelease({ url }, () => now);
  expect(await onServer()).toBe('1.2.3');
  writeFileSync(join(folder, 'latest/manifest.json'), JSON.stringify({ version: '1.3.0' }));
  expect([await inFolder(), await onServer()]).toEqual(['1.3.0', '1.2.3']);
  now += 5 * 60_000;
  expect(await onServer()).toBe('1.3.0');
  rmSync(join(folder, 'latest'), { recursive: true });
  expect(await inFolder()).toBeUndefined();
});

test('the install script of a controller without packages says so, with the way by archive, and ends with 1', async () => {
  const url = await serve({});
  const answer = await fetch(`${url}/install.sh`);
  expect([answer.status, answer.headers.get('skerry-packages')]).toEqual([200, 'none']);
  const { status, stderr, stdout } = spawnSync('sh', ['-c', await answer.text()], { encoding: 'utf8' });
  expect([status, stdout]).toEqual([1, '']);
  expect(stderr).toMatch(/^skerry-agent: this controller has no packages of the agent \(releasesVolume or releasesUrl/);
  expect(stderr).toContain('tar -xzf skerry-agent-');
  expect((await fetch(`${url}/releases/1.2.3/none`)).status).toBe(404);
  expect((await fetch(`${url}/install.sh`, { method: 'POST' })).status).toBe(405);
});
