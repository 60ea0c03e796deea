import { hash } from 'node:crypto';
import { join } from 'node:path';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { fuzzing } from '../../../../hack/testing/fuzz.ts';
import { CONTAINER_LABELS, RESERVED_ENV_PREFIX } from '../../../../src/api/names.ts';
import { silentLog } from '../../../../src/lib/log.ts';
import { microserviceViewSchema } from '../../../../src/wire/agent.ts';
import type { SavedName } from '../../../../src/wire/sections.ts';
import { SYSTEM_FILES_PREFIX } from '../../../../src/wire/system-files.ts';
import { FileSets } from '../../content/system-files/file-sets.ts';
import { VolumeMounts } from '../../content/volume-mounts/volume-mounts.ts';
import { PLAIN_PLACES } from '../../domain/_places.ts';
import { containerSpec, type SpecContext } from '../../domain/container-spec.ts';
import { NOTHING_SENT, readResponses } from '../../domain/desired.ts';
import { OPEN_POLICY, refusal } from '../../domain/policy.ts';
import { desiredEntries } from '../../domain/sent-microservices.ts';
import { boundPaths } from '../../domain/volume-mounts.ts';
import { EngineError } from '../../engine-port/error.ts';
import { filesInMemory } from '../../machine/_mounted-files.ts';

/**
 * A hostile controller, or a proxy in its place: the agent survives every response, and no container gets access to the
 * agent's own directories.
 */
const { about, budget } = fuzzing({ runs: 1_000, nightlySeconds: 300 });

const VOLUMES = '/var/lib/agent/volumes';
const CONTEXT = {
  instance: 'i'.repeat(32),
  nodeUuid: 'node',
  scopeOf: () => 'managed',
  volumesDirectory: VOLUMES,
  timeZone: '',
  facts: { kind: 'docker', version: '20', cdi: false, selinux: false, startInterval: true },
  limits: { mayRaise: true, hard: {} },
} as unknown as SpecContext;

const view = microserviceViewSchema.parse({
  uuid: '0d9e6f2a-3c4b-4d5e-8f60-718293a4b5c6',
  name: 'web',
  application: 'plant',
  imageId: 'registry.example/web:1',
  registryId: 1,
  annotations: '{"a":"b"}',
  env: [{ key: 'A', value: 'b' }],
  volumeMappings: [
    { hostDestination: 'state', containerDestination: '/state', type: 'volume' },
    { hostDestination: '/srv', containerDestination: '/data', type: 'bind' },
  ],
  extraHosts: ['db:10.0.0.1'],
  portMappings: [{ internal: 80, external: 8080 }],
  ulimits: { nofile: { soft: 1, hard: 1 } },
  sysctls: { 'net.core.somaxconn': '1' },
});

const texts = fc.constantFrom(
  '../../../etc',
  '..',
  '.',
  '/',
  '/proc/self/root',
  '/var/lib/agent',
  '/var/lib/agent/../agent/identity.json',
  '--privileged',
  'a\0b',
  'a\nb',
  '\ud800',
  '__proto__',
  'constructor',
  `${'a'.repeat(300)}`,
  '',
  'a:b:c',
  'a=b',
  RESERVED_ENV_PREFIX,
  `${RESERVED_ENV_PREFIX}ROLE`,
  CONTAINER_LABELS.agent,
  JSON.stringify({ [CONTAINER_LABELS.agent]: 'other', [CONTAINER_LABELS.uuid]: 'other' }),
  '{"a":{"b":1}}',
  '[',
);
const values = fc.oneof(
  texts,
  texts,
  fc.constantFrom<unknown>(
    null,
    0,
    -1,
    1e308,
    2 ** 53,
    true,
    [],
    {},
    [null],
    [[]],
    { hold: true },
    'volume',
    'bind',
    'shared',
  ),
  fc.string({ unit: 'binary', maxLength: 80 }),
);
const changes = fc.array(fc.tuple(fc.nat(2_000), values), { minLength: 1, maxLength: 5 });

function changed(document: object, steps: readonly [number, unknown][]): unknown {
  const copy = structuredClone(document);
  for (const [at, value] of steps) {
    const places: [Record<string, unknown>, string][] = [];
    const walk = (one: unknown): void => {
      if (typeof one !== 'object' || one === null) return;
      for (const key of Object.keys(one)) {
        places.push([one as Record<string, unknown>, key]);
        walk((one as Record<string, unknown>)[key]);
      }
    };
    walk(copy);
    const place = places[at % places.length];
    if (place) place[0][place[1]] = structuredClone(value);
  }
  return copy;
}

const sentBy = (name: SavedName, body: string) => readResponses(new Map([[name, { body, digests: {} }]])).sent;
const allowed = (one: typeof view) =>
  refusal(one, one.imageId, {
    policy: OPEN_POLICY,
    protectedPaths: ['/var/lib/agent', '/var/run/docker.sock'],
    places: PLAIN_PLACES,
  });

test(`no view of a microservice crashes the agent or binds its directories (${about})`, () => {
  let ran = 0;
  fc.assert(
    fc.property(changes, (steps) => {
      const body = JSON.stringify({ microservices: [changed(view, steps), view] });
      const entries = desiredEntries(sentBy('microservices', body).microservices, { refusal: allowed }) ?? [];
      // An entry that cannot be read does not affect the others.
      expect(entries.some((entry) => entry.uuid === view.uuid)).toBe(true);
      for (const entry of entries) {
        expect(entry.uuid).toMatch(/^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$/);
        if (entry.kind !== 'run') continue;
        ran++;
        let spec: ReturnType<typeof containerSpec>;
        try {
          spec = containerSpec(
            {
              kind: 'create',
              uuid: entry.uuid,
              target: 't',
              view: entry.view,
              digest: entry.digest,
              imageId: 'sha256:0',
              rebuildCount: 0,
              generation: 1,
              name: `skerry-${entry.uuid}`,
              reason: 'new' as never,
            },
            CONTEXT,
          );
        } catch (error) {
          expect(error).toBeInstanceOf(EngineError);
          continue;
        }
        const binds = new Set(
          entry.view.volumeMappings.filter(({ type }) => type === 'bind').map((one) => one.hostDestination),
        );
        for (const { source } of spec.mounts)
          if (!binds.has(source))
            expect(source).toMatch(/^\/var\/lib\/agent\/volumes\/(shared|data\/[^/]+)\/[A-Za-z0-9][A-Za-z0-9_.-]*$/);
        for (const source of binds) expect(source).not.toMatch(/^\/var\/lib\/agent(\/|$)/);
        expect(spec.labels).toMatchObject({
          [CONTAINER_LABELS.agent]: CONTEXT.instance,
          [CONTAINER_LABELS.uuid]: entry.uuid,
        });
        const reserved = spec.env.filter((line) => line.startsWith(RESERVED_ENV_PREFIX));
        expect(new Set(reserved.map((line) => line.split('=')[0])).size).toBe(reserved.length);
        expect(reserved).toContain(`${RESERVED_ENV_PREFIX}ROLE=workload`);
      }
    }),
    budget,
  );
  expect(ran).toBeGreaterThan(0);
}, 600_000);

test(`no volume mount of the controller is written, or bound, outside of its directory (${about})`, () => {
  const mount = {
    uuid: '1d9e6f2a-3c4b-4d5e-8f60-718293a4b5c6',
    name: 'files',
    version: 1,
    type: 'secret',
    data: { 'a/b': 'YQ==', c: 'Yg==' },
  };
  const keys = fc.array(fc.constantFrom('..', '.', '', 'a', 'b', '..data', 'a\0', '~', '\\', 'é'), {
    minLength: 1,
    maxLength: 4,
  });
  const inside = /^(secrets|configMaps)\/[A-Za-z0-9][A-Za-z0-9_.-]*(@[0-9a-f]{32})?$/;
  let written = 0;
  fc.assert(
    fc.property(changes, fc.array(keys, { maxLength: 3 }), keys, (steps, more, asked) => {
      const data = { ...mount.data, ...Object.fromEntries(more.map((parts) => [parts.join('/'), 'YQ=='])) };
      const body = JSON.stringify({ volumeMounts: [changed({ ...mount, data }, steps), changed(mount, steps), mount] });
      const sent = sentBy('volumeMounts', body).volumeMounts ?? [];
      const files = filesInMemory();
      const check = (path: string, tree: Iterable<string> = []) => {
        expect(path).toMatch(inside);
        expect(join('/volumes', path)).toBe(`/volumes/${path}`);
        for (const key of tree) expect(join('/volumes', path, key)).toBe(`/volumes/${path}/${key}`);
        written++;
      };
      const mounts = new VolumeMounts({
        files: {
          ...files,
          write: (path, tree) => {
            check(path, tree.keys());
            files.write(path, tree);
          },
          writeOnce: (path, content) => {
            check(path);
            files.writeOnce(path, content);
          },
          remove: (path) => {
            check(path);
            files.remove(path);
          },
        },
        log: silentLog,
      });
      mounts.apply(sent);
      const mapping = { type: 'volumeMount', containerDestination: '/x', accessMode: 'ro' } as const;
      for (const hostDestination of ['files', `files/${asked.join('/')}`, asked.join('/')]) {
        const resolved = mounts.resolve({ ...view, volumeMappings: [{ ...mapping, hostDestination } as never] });
        if ('view' in resolved) for (const path of boundPaths(resolved.view)) expect(path).toMatch(inside);
      }
      mounts.tidy({ wanted: new Set(), isBound: () => false });
    }),
    budget,
  );
  expect(written).toBeGreaterThan(0);
}, 600_000);

test(`no file of the system is written, or bound, outside of its directory, whatever the controller lists or sends (${about})`, () => {
  const digest = (text: string) => hash('sha256', text);
  const file = (path: string, text: string) => ({ path, digest: digest(text), size: text.length });
  const set = { name: 'certificates', files: [file('tls.crt', 'a'), file('ca/ca.crt', 'b')] };
  const parts = fc.array(fc.constantFrom('..', '.', '', 'a', 'b', '..data', 'a\0', '~', '@', 'é'), {
    minLength: 1,
    maxLength: 4,
  });
  const inside = /^system\/[a-z0-9][a-z0-9-]*(@[0-9a-f]{32})?$/;
  let written = 0;
  fc.assert(
    fc.property(changes, fc.array(parts, { maxLength: 3 }), parts, values, (steps, more, asked, content) => {
      const files = [...set.files, ...more.map((path) => file(path.join('/'), 'a'))];
      const list = [changed({ ...set, name: 'first', files }, steps), changed(set, steps), { ...set, name: 'last' }];
      const sent = sentBy('systemFiles', JSON.stringify({ systemFiles: list })).systemFiles;
      const memory = filesInMemory();
      const check = (path: string, tree: Iterable<string> = []) => {
        expect(path).toMatch(inside);
        for (const below of tree) expect(join('/volumes', path, below)).toBe(`/volumes/${path}/${below}`);
        written++;
      };
      const sets = new FileSets({
        files: {
          ...memory,
          write: (path, tree) => {
            check(path, tree.keys());
            memory.write(path, tree);
          },
          writeOnce: (path, bytes) => {
            check(path);
            memory.writeOnce(path, bytes);
          },
          remove: (path) => {
            check(path);
            memory.remove(path);
          },
        },
        log: silentLog,
      });
      sets.apply(sent);
      const { missing } = sets;
      const right = { [digest('a')]: 'YQ==', [digest('b')]: 'Yg==' };
      sets.take(missing, { ...right, ...(typeof content === 'string' && { [digest('b')]: content }) });
      sets.apply(sent);
      sets.take(sets.missing, right);
      sets.apply(sent);
      // A set that can be read does not wait for others.
      if (!sent?.some(({ name }, at) => name === 'last' && at < 2)) expect(sets.items.at(-1)?.name).toBe('last');
      const mapping = { type: 'volumeMount', containerDestination: '/x', accessMode: 'ro' } as const;
      for (const path of ['last', 'last/tls.crt', `first/${asked.join('/')}`, asked.join('/')]) {
        const hostDestination = `${SYSTEM_FILES_PREFIX}${path}`;
        const volumeMappings = [{ ...mapping, hostDestination } as never];
        const resolved = sets.resolve({ ...view, isSystem: true, volumeMappings });
        if ('view' in resolved) for (const bound of boundPaths(resolved.view)) expect(bound).toMatch(inside);
      }
      sets.tidy({ wanted: new Set(), isBound: () => false });
    }),
    budget,
  );
  expect(written).toBeGreaterThan(0);
}, 600_000);

test('a response of any form is read or counts as unreadable, and never ends the agent', () => {
  const bodies = fc.oneof(
    fc.string({ unit: 'binary', maxLength: 200 }),
    fc.json({ maxDepth: 8 }),
    fc.constantFrom(
      '',
      '[',
      'null',
      '42',
      '{"microservices":{"length":5}}',
      '{"microservices":[null,1,"a",[],{"uuid":1},{"uuid":{}}]}',
      '{"registries":[null]}',
      '{"systemFiles":[null,1,"a",[],{"name":{}},{"name":"a","files":[null]},{"name":"a","files":{"length":1}}]}',
      `${'['.repeat(50_000)}`,
    ),
  );
  fc.assert(
    fc.property(bodies, (body) => {
      const names = Object.keys(NOTHING_SENT) as SavedName[];
      const { sent } = readResponses(new Map(names.map((name) => [name, { body, digests: {} }])));
      desiredEntries(sent.microservices, { refusal: allowed });
    }),
    budget,
  );
}, 600_000);
