import { hash } from 'node:crypto';
import { readdirSync, readlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { silentLog } from '../../../../src/lib/log.ts';
import { busCredsSet, SYSTEM_FILES_ASKED, systemSetDigest } from '../../../../src/wire/system-files.ts';
import { temporaryFolder } from '../../../../testing/temporary-folder.ts';
import { readFileSets, type SentFileSet } from '../../domain/system-files.ts';
import type { ResolvedMapping } from '../../domain/volume-mounts.ts';
import { type FileSetTexts, fileSetView } from '../../link/_fake-controller.ts';
import { VirtualClock } from '../../machine/_virtual-clock.ts';
import { filesOnDisk, type MountedFiles } from '../../machine/mounted-files.ts';
import { makeView } from '../../supervise/plan/_util.ts';
import { mounted } from '../volume-mounts/_mount.ts';
import { SystemFiles } from './system-files.ts';

/** The files of the system on a disk, in virtual time, with a controller that the test is. */

const SECOND = 1000;
let folder: string;
let clock: VirtualClock;
let part: SystemFiles;
let disk: MountedFiles;
let sent: readonly SentFileSet[] | undefined;
let digest: string;
let requests: { digests: readonly string[]; limit: number; at: number }[];
/** what the controller has, base64 by digest */
let contents: Map<string, string>;
let fails: Error | undefined;
let changes: number;
let stop: AbortController;
let run: Promise<void>;
const observed = { desired: [], knowsAll: true, containers: [], pending: 0, hasLooked: true, record: () => undefined };

beforeEach(() => {
  folder = temporaryFolder();
  clock = new VirtualClock();
  disk = filesOnDisk(folder);
  [sent, digest, requests, contents, fails, changes] = [undefined, '', [], new Map(), undefined, 0];
  stop = new AbortController();
  start();
});
afterEach(async () => {
  stop.abort();
  await run;
});

/** A start of the agent on the same disk. */
function start(): void {
  const files: MountedFiles = { ...disk, write: (path, tree) => disk.write(path, tree) };
  part = new SystemFiles({
    ...{ files, clock, random: () => 0.5, log: silentLog, observed },
    listDigest: () => digest,
    fetch: async (digests, limit) => {
      requests.push({ digests, limit, at: clock.now() });
      if (fails) throw fails;
      return Object.fromEntries(
        digests.flatMap((each) => (contents.has(each) ? [[each, contents.get(each) ?? '']] : [])),
      );
    },
    changed: () => {
      changes++;
    },
  });
}

const apply = () => part.write({ systemFiles: sent });

/** The controller lists these sets, and has their content. */
function list(...sets: FileSetTexts[]): void {
  for (const { files } of sets) for (const text of Object.values(files)) contents.set(sha256(text), base64(text));
  listAs(sets.map(fileSetView));
}

/** A list as it comes from the wire. */
function listAs(document: unknown[], name = `list-${JSON.stringify(document).length}-${requests.length}`): void {
  sent = readFileSets(document);
  digest = name;
  apply();
}

function begin(): void {
  run = part.run(stop.signal, apply);
}

/** Lets the part work until it rests. */
const settle = (milliseconds = 0) => clock.advance(milliseconds);

const sha256 = (text: string) => hash('sha256', text);
const base64 = (text: string) => Buffer.from(text).toString('base64');
const certificates = (serial: number): FileSetTexts => ({
  name: 'certificates',
  files: { 'tls.crt': `certificate ${serial}`, 'tls.key': `key ${serial}` },
});
/** The content of a set on the disk: texts by path. */
const here = (name: string) =>
  Object.fromEntries(
    [...(disk.read(`system/${name}`) ?? [])].map(([path, bytes]) => [path, Buffer.from(bytes).toString()]),
  );
/** A report without the digests of sets. */
function report(): { digest: string; problem?: string | undefined } | undefined {
  const { systemFiles } = part.report();
  if (!systemFiles) return undefined;
  const { sets: _, ...rest } = systemFiles;
  return rest;
}
const setsReported = () => part.report().systemFiles?.sets;

/** The path that a mapping binds, or why the microservice waits. */
function resolved(hostDestination: string): string {
  const result = part.resolve(makeView({ isSystem: true, volumeMappings: [mounted(hostDestination, '/x')] }));
  return 'view' in result ? ((result.view.volumeMappings[0] as ResolvedMapping).path ?? '') : result.message;
}

describe('a set', () => {
  test('changes when all its files are here, and never in part', async () => {
    begin();
    list(certificates(1));
    await settle();
    expect(here('certificates')).toEqual(certificates(1).files);
    list(certificates(2));
    contents.delete(sha256('key 2'));
    await settle();
    expect(here('certificates')).toEqual(certificates(1).files);
    contents.set(sha256('key 2'), base64('key 2'));
    await settle(10 * SECOND);
    expect(here('certificates')).toEqual(certificates(2).files);
    // The certificate, which had arrived, was not fetched again.
    expect(requests.map(({ digests }) => digests.length)).toEqual([2, 2, 1]);
  });

  test('takes content that is in the directory of another set, listed or not', async () => {
    begin();
    list(certificates(1));
    await settle();
    list({ name: 'router', files: { ...certificates(1).files, 'router.json': '{}' } });
    await settle();
    expect(requests.map(({ digests }) => digests)).toEqual([expect.anything(), [sha256('{}')]]);
    expect(here('router')).toMatchObject(certificates(1).files);
  });

  test('gives its former content to another set, and changes by the same list', async () => {
    begin();
    list({ name: 'a', files: { x: 'one' } }, { name: 'b', files: { x: 'two' } });
    await settle();
    list({ name: 'a', files: { x: 'two' } }, { name: 'b', files: { x: 'one' } });
    await settle();
    expect([here('a'), here('b'), requests.length]).toEqual([{ x: 'two' }, { x: 'one' }, 1]);
  });

  test('without files is an empty directory', async () => {
    list({ name: 'empty', files: {} });
    expect([resolved('system:empty'), here('empty'), report()]).toEqual(['system/empty', {}, { digest }]);
  });

  test('with a file that was changed on the machine is repaired at the next start', async () => {
    begin();
    list(certificates(1));
    await settle();
    stop.abort();
    await run;
    writeFileSync(join(folder, 'system/certificates/tls.key'), 'eve');
    stop = new AbortController();
    start();
    apply();
    expect(report()).toEqual({ digest: '' });
    begin();
    await settle();
    expect(here('certificates')).toEqual(certificates(1).files);
    expect(requests.at(-1)?.digests).toEqual([sha256('key 1')]);
    expect(report()).toEqual({ digest });
  });

  test('is not written again by a start, nor by a list with the same content', async () => {
    begin();
    list(certificates(1));
    await settle();
    const version = () => readlinkSync(join(folder, 'system/certificates/..data'));
    const before = version();
    listAs([fileSetView(certificates(1))], 'another digest');
    start();
    apply();
    expect([version(), requests.length, report()]).toEqual([before, 1, { digest: 'another digest' }]);
  });
});

describe('requests for content', () => {
  test('ask for as many files as one may, and for about a mebibyte', async () => {
    begin();
    const many = Array.from({ length: 80 }, (_, n) => [`f${n}`, `content ${n}`]);
    const large = Object.fromEntries(['a', 'b', 'c'].map((name) => [name, name.repeat(450_000)]));
    list(
      { name: 'many-1', files: Object.fromEntries(many.slice(0, 60)) },
      { name: 'many-2', files: Object.fromEntries(many.slice(60)) },
      { name: 'large', files: large },
    );
    await settle();
    expect(requests.map(({ digests }) => digests.length)).toEqual([SYSTEM_FILES_ASKED, 18, 1]);
    expect(report()).toEqual({ digest });
    for (const { digests, limit } of requests) {
      const reply = Object.fromEntries(digests.map((each) => [each, contents.get(each)]));
      expect(JSON.stringify({ contents: reply }).length).toBeLessThan(limit);
      expect(limit).toBeLessThan(3 * 1024 * 1024);
    }
  });

  test('are repeated with growing delays while the controller is away, which is no problem of the machine', async () => {
    begin();
    fails = new Error('the controller does not answer');
    list(certificates(1));
    await settle(300 * SECOND);
    const delays = requests.slice(1).map(({ at }, n) => at - (requests[n]?.at ?? 0));
    expect(delays.slice(0, 3)).toEqual([1 * SECOND, 1.5 * SECOND, 2.25 * SECOND]);
    expect(Math.max(...delays)).toBe(30 * SECOND);
    expect([part.problems, report()]).toEqual([[], { digest: '' }]);
    fails = undefined;
    await settle(31 * SECOND);
    expect(report()).toEqual({ digest });
  });

  test('wait as long as the controller says', async () => {
    begin();
    fails = Object.assign(new Error('too many requests'), { retryAfter: 120 * SECOND });
    list(certificates(1));
    await settle(119 * SECOND);
    expect(requests).toHaveLength(1);
    await settle(2 * SECOND);
    expect(requests).toHaveLength(2);
  });

  test('are sent at once for another list, whatever failed before', async () => {
    begin();
    fails = new Error('the controller does not answer');
    list(certificates(1));
    await settle(200 * SECOND);
    fails = undefined;
    const before = requests.length;
    list(certificates(2));
    await settle();
    expect([requests.length - before, here('certificates')]).toEqual([1, certificates(2).files]);
  });

  test('are not sent while nothing is missing', async () => {
    begin();
    list(certificates(1));
    await settle(600 * SECOND);
    expect(requests).toHaveLength(1);
  });
});

describe('content with another digest', () => {
  const key = sha256('key 2');
  const wrong: Record<string, string> = {
    'has other bytes': base64('key X'),
    'is shorter': base64('key'),
    'is longer': base64('key 2 and more'),
    'is no base64': '%%%%%%%%',
    'is empty': '',
  };
  for (const [name, content] of Object.entries(wrong))
    test(`because it ${name}, leaves the former content, with the reason, and is asked for more and more seldom`, async () => {
      begin();
      list(certificates(1));
      await settle();
      list(certificates(2));
      contents.set(key, content);
      await settle();
      const problem =
        'system files: certificates: the controller sends other content as certificates/tls.key than its digest says';
      expect(part.problems).toEqual([problem]);
      expect(report()?.problem).toBe(problem.replace('system files: ', ''));
      expect(here('certificates')).toEqual(certificates(1).files);
      await settle(3600 * SECOND);
      expect(requests.length).toBeLessThan(25);
      contents.set(key, base64('key 2'));
      await settle(301 * SECOND);
      expect([here('certificates'), part.problems, report()]).toEqual([certificates(2).files, [], { digest }]);
    });

  test('holds up no other set, and no other request', async () => {
    begin();
    const others = Array.from({ length: 3 }, (_, n) => ({
      name: `set-${n}`,
      files: Object.fromEntries(Array.from({ length: 60 }, (__, m) => [`f${m}`, `${n}/${m}`])),
    }));
    const bad = certificates(1);
    for (const { files } of others) for (const text of Object.values(files)) contents.set(sha256(text), base64(text));
    contents.set(sha256('key 1'), base64('other'));
    contents.set(sha256('certificate 1'), base64('certificate 1'));
    listAs([bad, ...others].map(fileSetView));
    await settle();
    for (const { name, files } of others) expect(here(name)).toEqual(files);
    expect(here('certificates')).toEqual({});
  });
});

test('content that the controller lacks once is no problem, and is a problem from the second time on', async () => {
  begin();
  list(certificates(1));
  contents.clear();
  await settle();
  expect(report()).toEqual({ digest: '' });
  await settle(60 * SECOND);
  expect(report()?.problem).toMatch(/^certificates: the controller does not send certificates\/tls\.crt$/);
});

describe('a disk that takes no more', () => {
  beforeEach(async () => {
    begin();
    list(certificates(1));
    await settle();
  });

  test('leaves the old content, and the new one is written when there is room, without another request', async () => {
    const { write } = disk;
    const former = digest;
    disk.write = () => {
      throw new Error('ENOSPC: no space left on device, write');
    };
    list(certificates(2));
    await settle(90 * SECOND);
    expect(here('certificates')).toEqual(certificates(1).files);
    expect(report()).toEqual({
      digest: former,
      problem: 'certificates: ENOSPC: no space left on device, write',
    });
    expect(resolved('system:certificates')).toBe('system/certificates');
    disk.write = write;
    await settle(40 * SECOND);
    expect([here('certificates'), report(), requests.length]).toEqual([certificates(2).files, { digest }, 2]);
  });

  test('for one of two sets makes the report name neither list', async () => {
    const { write } = disk;
    disk.write = (path, tree) => {
      if (path === 'system/router') throw new Error('ENOSPC: no space left on device, write');
      write(path, tree);
    };
    list(certificates(2), { name: 'router', files: { 'router.json': '{}' } });
    await settle();
    expect(here('certificates')).toEqual(certificates(2).files);
    expect(report()?.digest).toBe('');
    expect(setsReported()).toEqual({ certificates: systemSetDigest(fileSetView(certificates(2))) });
  });
});

describe('a report', () => {
  test('has the digest of each set of the platform that is whole, and of no set of a microservice', async () => {
    begin();
    const router = (text: string): FileSetTexts => ({ name: 'router', files: { 'router.json': text } });
    const ofMicroservice = { name: busCredsSet('99999999-9999-4999-8999-999999999999'), files: { 'a/b.creds': 'C' } };
    list(certificates(1), router('{}'), ofMicroservice);
    await settle();
    const digestsOf = (...sets: FileSetTexts[]) =>
      Object.fromEntries(sets.map((set) => [set.name, systemSetDigest(fileSetView(set))]));
    expect(setsReported()).toEqual(digestsOf(certificates(1), router('{}')));
    fails = new Error('away');
    list(certificates(1), router('{"a":1}'), ofMicroservice);
    await settle();
    expect(setsReported()).toEqual(digestsOf(certificates(1)));
    fails = undefined;
    await settle(60 * SECOND);
    expect(setsReported()).toEqual(digestsOf(certificates(1), router('{"a":1}')));
  });

  test('says nothing while the list is not known', () => {
    apply();
    expect([report(), part.problems]).toEqual([undefined, []]);
  });

  test('is asked for when content or problems have changed', async () => {
    begin();
    list(certificates(1));
    await settle();
    const before = changes;
    await settle(600 * SECOND);
    expect(changes).toBe(before);
    list(certificates(2));
    await settle();
    expect(changes).toBeGreaterThan(before);
  });

  test('keeps the digest of the former list while all of that is here', async () => {
    begin();
    list(certificates(1));
    await settle();
    const former = digest;
    fails = new Error('away');
    list(certificates(2));
    await settle(60 * SECOND);
    expect(report()).toEqual({ digest: former });
  });
});

describe('a mapping', () => {
  const file = (text: string, path = 'tls.key') => `system:certificates/${path}${text}`;

  test('binds a directory that changes in place, for a whole set', async () => {
    begin();
    expect(resolved('system:certificates')).toBe("waits for the system's files certificates, which have not arrived");
    list(certificates(1));
    await settle();
    expect([resolved('system:certificates'), resolved('system:certificates/')]).toEqual(
      Array(2).fill('system/certificates'),
    );
    list(certificates(2));
    await settle();
    expect(resolved('system:certificates')).toBe('system/certificates');
  });

  test('binds a file whose path depends on its content, for one file', async () => {
    begin();
    list(certificates(1));
    await settle();
    const path = resolved(file(''));
    expect(path).toMatch(/^system\/certificates@[0-9a-f]{32}$/);
    list(certificates(2));
    await settle();
    expect(resolved(file(''))).not.toBe(path);
    list(certificates(1));
    await settle();
    expect(resolved(file(''))).toBe(path);
  });

  test('is refused for credentials of the message bus in a container of another microservice', async () => {
    begin();
    const own = makeView({ volumeMappings: [mounted('system:bus-own', '/etc/bus/creds')], uuid: 'own' });
    list({ name: 'bus-own', files: { 'a/b.creds': 'token' } });
    await settle();
    expect(part.resolve(own)).toMatchObject({ view: { volumeMappings: [{ path: 'system/bus-own' }] } });
    expect(part.resolve({ ...own, uuid: 'other' })).toMatchObject({
      message: "waits for the system's files bus-own, which microservices of the system alone may mount",
    });
  });

  test('waits with the name of a file that the set does not have', async () => {
    begin();
    list(certificates(1));
    await settle();
    expect(resolved(file('', 'no.key'))).toBe(`waits for the system's files certificates, which have no file "no.key"`);
    fails = new Error('away');
    list({ name: 'certificates', files: { ...certificates(1).files, 'new.key': 'new' } });
    await settle();
    expect(resolved(file('', 'new.key'))).toBe("waits for the system's files certificates, which have not arrived");
  });

  test('waits with the problem of its set', () => {
    listAs([{ name: 'certificates', files: [{ path: '../x', digest: sha256('x'), size: 1 }] }]);
    expect(resolved('system:certificates')).toMatch(
      /^waits for the system's files certificates: file "\.\.\/x" has \. or/,
    );
  });

  test('is left alone with another type, or with the name of a volume mount', async () => {
    const volumeMappings = [
      mounted('creds', '/a'),
      { ...mounted('system:certificates', '/b'), type: 'volume' as const },
    ];
    const view = makeView({ volumeMappings });
    expect(part.resolve(view)).toEqual({ view });
  });
});

describe('a set without a place in the list', () => {
  beforeEach(async () => {
    begin();
    list(certificates(1), { name: 'router', files: { x: '1' } });
    await settle();
    resolved('system:certificates/tls.key');
  });
  const names = () => readdirSync(join(folder, 'system')).map((name) => name.replace(/@.*/, '@'));

  test('is removed, and the report of the present list stays', async () => {
    list(certificates(1));
    await settle(60 * SECOND);
    expect([names(), report()]).toEqual([['certificates'], { digest }]);
  });

  test('stays while the list is not known', async () => {
    part.observed();
    stop.abort();
    await run;
    start();
    sent = undefined;
    apply();
    part.observed();
    expect([names(), part.problems]).toEqual([['certificates', 'certificates@', 'router'], []]);
  });

  test('stays while a container binds it', async () => {
    const source = join(folder, 'system/router');
    const container = { uuid: 'u', binds: [{ source, writable: false }] };
    Object.assign(observed, { containers: [container] });
    list(certificates(1));
    await settle(60 * SECOND);
    expect(names()).toContain('router');
    Object.assign(observed, { containers: [] });
    await settle(60 * SECOND);
    expect(names()).not.toContain('router');
  });
});

describe('a list that no controller of ours sends', () => {
  const ok = { path: 'ok', digest: sha256('ok'), size: 2 };
  const lists: Record<string, [unknown[], RegExp]> = {
    'with a path that leads out': [
      [{ name: 'a', files: [{ ...ok, path: '../../etc/cron.d/x' }] }],
      /^system files: a: file "\.\.\/\.\.\/etc\/cron\.d\/x" has \. or \.\. in it/,
    ],
    'with a path of the agent': [[{ name: 'a', files: [{ ...ok, path: '..data' }] }], /begins with two dots/],
    'with a file that is a directory': [
      [
        {
          name: 'a',
          files: [
            { ...ok, path: 'x/y' },
            { ...ok, path: 'x' },
          ],
        },
      ],
      /a: file "x\/y" lies below "x", which is a file too/,
    ],
    'with a file twice': [[{ name: 'a', files: [ok, ok] }], /a: a file is listed twice/],
    'with a set twice': [
      [
        { name: 'a', files: [ok] },
        { name: 'a', files: [] },
      ],
      /the set a is listed twice/,
    ],
    'with a name that leads out': [[{ name: '../a', files: [ok] }], /cannot be read: name/],
    'with a digest that is none': [
      [{ name: 'a', files: [{ ...ok, digest: 'x' }] }],
      /a: .*cannot be read: files\.0\.digest/,
    ],
    'with a size that is none': [[{ name: 'a', files: [{ ...ok, size: -1 }] }], /a: .*cannot be read: files\.0\.size/],
    'with more files than a set may have': [
      [{ name: 'a', files: Array.from({ length: 601 }, (_, n) => ({ ...ok, path: `f${n}` })) }],
      /a: .*cannot be read: files/,
    ],
    'with more bytes than a node may have': [
      ['a', 'b'].map((name) => ({ name, files: [{ ...ok, size: 2_000_000 }] })),
      /b: the files of the system on a node may have 4194304 characters of base64/,
    ],
    'with more sets than a node may have': [
      Array.from({ length: 601 }, (_, n) => ({ name: `s${n}`, files: [] })),
      /the controller lists 601 sets, and a node may have 600/,
    ],
    'with something else': [[null], /cannot be read/],
  };
  for (const [name, [document, problem]] of Object.entries(lists))
    test(`${name} does not count as here, with the reason, and no set with a problem loses its content`, async () => {
      begin();
      list({ name: 'a', files: { x: 'old' } });
      await settle();
      contents.set(ok.digest, base64('ok'));
      listAs(document, 'hostile');
      await settle(60 * SECOND);
      expect(part.problems.join('\n')).toMatch(problem);
      expect(report()?.digest).not.toBe('hostile');
      if (part.problems.some((text) => text.startsWith('system files: a:'))) expect(here('a')).toEqual({ x: 'old' });
      expect(readdirSync(folder)).toEqual(['system']);
    });
});

test('the items have numbers for each set, and nothing of its content', async () => {
  begin();
  list(certificates(1), { name: 'router', files: { 'router.json': '{}' } });
  contents.delete(sha256('{}'));
  await settle();
  expect(part.items).toEqual([
    { name: 'certificates', state: 'Ready', files: 2, size: 18, changedAt: expect.any(Number), lastError: '' },
    { name: 'router', state: 'Pending', files: 0, size: 0, changedAt: undefined, lastError: '' },
  ]);
  await settle(60 * SECOND);
  expect(part.items[1]).toMatchObject({
    state: 'Failed',
    lastError: 'the controller does not send router/router.json',
  });
  expect(JSON.stringify(part.items)).not.toMatch(/key 1|certificate 1/);
});
