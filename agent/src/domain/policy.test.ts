import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import type { MicroserviceView } from '../../../src/wire/agent.ts';
import { fileIdentity, followLinks, locate, mountedPlaces, mountsBelow } from '../machine/disk.ts';
import { makeView } from '../supervise/plan/_util.ts';
import { PLAIN_PLACES } from './_places.ts';
import { ConfigError } from './config.ts';
import { type PathFacts, policySchema, refusal } from './policy.ts';
import { parsePolicy, strictestReading } from './policy-file.ts';

const mapping = { containerDestination: '/x', accessMode: 'rw', scope: 'private' } as const;
const bind = (...sources: string[]): Partial<MicroserviceView> => ({
  volumeMappings: sources.map((hostDestination) => ({ ...mapping, hostDestination, type: 'bind' })),
});

interface Machine {
  places?: PathFacts;
  protectedPaths?: string[];
  reference?: string;
}

function ask(view: Partial<MicroserviceView>, policy: object = {}, machine: Machine = {}): string | undefined {
  const { places = PLAIN_PLACES, protectedPaths = ['/run/docker.sock', '/var/lib/skerry-agent'], reference } = machine;
  const asked = makeView(view);
  return refusal(asked, reference ?? asked.imageId, {
    policy: policySchema.parse(policy),
    protectedPaths,
    places,
  });
}

describe('an empty policy allows', () => {
  const allowed: Record<string, Partial<MicroserviceView>> = {
    'privileged containers': { isPrivileged: true },
    'the host network': { hostNetworkMode: true, pidMode: 'host', ipcMode: 'host' },
    devices: { devices: [{ hostPath: '/dev/ttyUSB0', containerPath: '/dev/tty', permissions: 'rwm' }] },
    'any capability': { capAdd: ['ALL'] },
    'any registry': { imageId: 'anywhere.example.com/a:1' },
    'binding a directory': bind('/srv/data'),
    'binding /proc': bind('/proc'),
    'a path that only shares a prefix with a protected one': bind('/var/lib/skerry-agent-data', '/run/docker.socket'),
    'volumes of either scope': {
      volumeMappings: [
        { ...mapping, hostDestination: 'data', type: 'volume' },
        { ...mapping, hostDestination: 'data', type: 'volume', scope: 'shared', containerDestination: '/y' },
      ],
    },
  };
  for (const [name, view] of Object.entries(allowed)) test(name, () => expect(ask(view)).toBeUndefined());
});

describe('the policy rule', () => {
  const device = { hostPath: '/dev/ttyUSB0', containerPath: '/dev/tty', permissions: 'rwm' };
  /** policy, views that it refuses, views that it allows */
  const rules: Record<string, [object, Partial<MicroserviceView>[], Partial<MicroserviceView>[]]> = {
    privileged: [{ privileged: false }, [{ isPrivileged: true }], [{ isPrivileged: false, hostNetworkMode: true }]],
    hostNetwork: [{ hostNetwork: false }, [{ hostNetworkMode: true }], [{ pidMode: 'host' }]],
    hostPid: [
      { hostPid: false },
      [{ pidMode: 'host' }, { pidMode: 'container:0123456789ab' }],
      [{ pidMode: '' }, { pidMode: 'private' }, { ipcMode: 'host' }],
    ],
    hostIpc: [
      { hostIpc: false },
      [{ ipcMode: 'host' }, { ipcMode: 'container:0123456789ab' }],
      [{ ipcMode: '' }, { ipcMode: 'private' }, { ipcMode: 'shareable' }, { ipcMode: 'none' }, { pidMode: 'host' }],
    ],
    devices: [{ devices: false }, [{ devices: [device] }, { cdiDevices: ['nvidia.com/gpu=0'] }], [{ devices: [] }]],
    'devices, for runtimes, which can bring them along,': [
      { devices: false },
      [{ runtime: 'nvidia' }, { runtime: 'runc-nvidia' }],
      [{ runtime: '' }, { runtime: 'runc' }, { runtime: 'crun' }],
    ],
    'devices beside runtimes': [
      { devices: false, runtimes: ['kata'] },
      [{ runtime: 'nvidia' }, { runtime: 'kata', devices: [device] }],
      [{ runtime: 'kata' }, { runtime: '' }],
    ],
    runtimes: [{ runtimes: ['runc'] }, [{ runtime: 'nvidia' }], [{ runtime: 'runc' }, { runtime: '' }]],
    'runtimes: []': [{ runtimes: [] }, [{ runtime: 'runc' }], [{ devices: [device] }]],
    capAdd: [
      { capAdd: ['CAP_NET_ADMIN'] },
      [{ capAdd: ['SYS_ADMIN'] }, { capAdd: ['NET_ADMIN', 'cap_sys_admin'] }, { capAdd: ['ALL'] }],
      [{ capAdd: ['net_admin'] }, { capAdd: ['CAP_NET_ADMIN'] }, { capDrop: ['SYS_ADMIN'] }],
    ],
    'capAdd: []': [{ capAdd: [] }, [{ capAdd: ['NET_ADMIN'] }], [{}]],
    bindPrefixes: [
      { bindPrefixes: ['/srv'] },
      [bind('/etc/passwd'), bind('/srvx'), bind('/srv/a', '/etc')],
      [bind('/srv'), bind('/srv/data/deep')],
    ],
    registries: [
      { registries: ['Registry.example.com', 'docker.io'] },
      [{ imageId: 'evil.example.com/a:1' }, { imageId: 'registry.example.com:5000/a:1' }, { imageId: 'localhost/a:1' }],
      [
        { imageId: 'registry.example.com/a:1' },
        { imageId: 'registry.example.com:443/a:1' },
        { imageId: 'nginx:1' },
        { imageId: 'index.docker.io/library/nginx:1' },
        { imageId: 'evil.example.com/a:1', registryId: 2 },
      ],
    ],
  };
  for (const [rule, [policy, refused, allowed]] of Object.entries(rules)) {
    test.each(refused)(`${rule} refuses %j`, (view) => expect(ask(view, policy)).toMatch(/machine/));
    test.each(allowed)(`${rule} allows %j`, (view) => expect(ask(view, policy)).toBeUndefined());
    test(`${rule} refuses nothing when it is absent`, () => {
      for (const view of [...refused, ...allowed]) expect(ask(view)).toBeUndefined();
    });
  }

  test('registries checks an image without a host by the registry that it is pulled from', () => {
    const pulled = { reference: 'evil.example.com/nginx:1' };
    expect(ask({ imageId: 'nginx:1' }, { registries: ['docker.io'] }, pulled)).toMatch(/from evil\.example\.com/);
    expect(ask({ imageId: 'nginx:1' }, { registries: ['evil.example.com'] }, pulled)).toBeUndefined();
  });
});

/** Real files: a directory of an agent, a socket of an engine, and paths that lead to them. */
describe('a bind of the engine socket or of an agent directory is refused', () => {
  const top = realpathSync(mkdtempSync(join(tmpdir(), 'skerry-policy-')));
  const at = (path: string) => join(top, path);
  for (const folder of ['run/engine', 'lib/agent/volumes/shared/data', 'srv/data', 'lib/agent-data', 'srv/links'])
    mkdirSync(at(folder), { recursive: true });
  writeFileSync(at('lib/agent/identity.json'), '{}');
  const socket = createServer().listen(at('run/engine/engine.sock'));
  afterAll(() => {
    socket.close();
    rmSync(top, { recursive: true, force: true });
  });
  const links: Record<string, string> = {
    'srv/links/socket': at('run/engine/engine.sock'),
    'srv/links/relative': '../../run/engine',
    'srv/links/to-a-link': 'socket',
    'srv/links/agent': at('lib/agent'),
    'srv/links/later': at('lib/agent/not/there/yet'),
    'srv/links/above': top,
    'srv/links/fine': at('srv/data'),
    'srv/links/circle': 'circle',
    'srv/links/process': '/proc/self/root',
    'var-run': 'run',
  };
  for (const [path, to] of Object.entries(links)) symlinkSync(to, at(path));
  const protectedPaths = [at('run/engine/engine.sock'), at('lib/agent')];
  const real: PathFacts = { follow: followLinks, identity: fileIdentity, mountsBelow, locate, mountedPlaces };
  const ruling = (source: string, places = real) => ask(bind(source), {}, { places, protectedPaths });

  const refused = {
    'by the path of the socket': at('run/engine/engine.sock'),
    'by the directory of the socket': at('run/engine'),
    'with a trailing slash': `${at('run/engine')}/`,
    'with double slashes and dots': at('run').replace('/run', '//./run/engine/../engine'),
    'by a parent directory': at('run'),
    'by the root directory': '/',
    'by a path with dots': at('srv/data/../../run/engine'),
    'by dots through a directory that does not exist': `${at('srv')}/none/../../run/engine`,
    'by dots past the root': `/../../..${at('run/engine')}`,
    'by the agent’s directory': at('lib/agent'),
    'by a file of the agent': at('lib/agent/identity.json'),
    'by a file of the agent that does not exist yet': at('lib/agent/new'),
    'by the path of a shared volume': at('lib/agent/volumes/shared/data'),
    'by a link to the socket': at('srv/links/socket'),
    'by a relative link': at('srv/links/relative'),
    'by a link to a link': at('srv/links/to-a-link'),
    'by a link in the middle of the path': at('var-run/engine'),
    'by a link to a path that does not exist yet': at('srv/links/later'),
    'by a link to a parent directory': at('srv/links/above'),
    'by a link to itself': at('srv/links/circle'),
    'by the root of a process in /proc': `/proc/1/root${at('run/engine/engine.sock')}`,
    'by the root of the agent in /proc': `/proc/self/root${at('run')}`,
    'by the working directory of the agent in /proc': '/proc/thread-self/cwd',
    'by an open file in /proc': `/proc/${process.pid}/fd/1`,
    'by the root of a process with dots in the path': `/proc/sys/../${process.pid}/root`,
    'by a link to the root of a process': `${at('srv/links/process')}${at('run')}`,
    'by a relative path': 'run/engine',
    'by an empty path': '',
  };
  test.each(Object.entries(refused))('%s', (_name, path) =>
    expect(ruling(path)).toMatch(/may not be bound|not an absolute path/),
  );

  const allowed = ['srv', 'srv/data', 'srv/data/new', 'srv/links/fine', 'lib/agent-data'];
  // A directory with links is harmless: in the container the links lead elsewhere.
  test.each(allowed)('but a bind of %s is allowed', (path) => expect(ruling(at(path))).toBeUndefined());

  describe('under the path of another mount', () => {
    /** `alias` shows `of`, as a bind mount does */
    const mounted = (alias: string, of: string): PathFacts => {
      const original = (path: string) =>
        path === alias || path.startsWith(`${alias}/`) ? of + path.slice(alias.length) : path;
      return {
        ...real,
        identity: (path) => fileIdentity(original(path)),
        mountsBelow: (path) => (alias.startsWith(`${path}/`) ? [alias] : []),
      };
    };
    const cases: Record<string, [string, string, string]> = {
      'by the directory of the socket': ['/mnt/alias', at('run'), '/mnt/alias/engine'],
      'by a parent directory': ['/mnt/alias', at('run'), '/mnt/alias'],
      'by the root directory': ['/mnt/alias', '/', '/mnt/alias'],
      'by a directory of the agent': ['/mnt/alias', at('lib/agent'), '/mnt/alias/volumes'],
      'by a directory that contains the mount': ['/mnt/alias', at('run'), '/mnt'],
    };
    for (const [name, [alias, of, path]] of Object.entries(cases))
      test(name, () => {
        expect(ruling(path, mounted(alias, of))).toMatch(/may not be bound/);
        expect(ruling(path, mounted(alias, at('srv/data')))).toBeUndefined();
      });
  });
});

describe('a policy file', () => {
  test('is refused with the name of each wrong rule, its value, and what is right', () => {
    const wrong = () => parsePolicy('exec: perhaps\nregistries: [docker.io, 7]\nbindPrefixes: nothing', '/p.yaml');
    expect(wrong).toThrow(ConfigError);
    expect(wrong).toThrow(
      /^\/p\.yaml: bindPrefixes "nothing": must be a list; registries\.1 7: must be text; exec "perhaps"/,
    );
  });
  test('with an unknown rule is refused', () =>
    expect(() => parsePolicy('priviledged: false', '/p.yaml')).toThrow(/^\/p\.yaml: unknown rule "priviledged"$/));
  test('that is not YAML is refused', () =>
    expect(() => parsePolicy('a: [', '/p.yaml')).toThrow(/\/p\.yaml is not YAML/));
  test('that is empty is read like one that does not exist', () => {
    expect(parsePolicy('', '/p.yaml')).toEqual(parsePolicy(undefined, '/p.yaml'));
  });
});

describe('a policy file at the start of an agent', () => {
  const strictly = (text: string) => strictestReading(() => text, '/p.yaml');
  test('that is valid is applied', () =>
    expect(strictly('privileged: false')).toEqual({ policy: policySchema.parse({ privileged: false }) }));
  test('with an invalid rule keeps the valid rules and allows nothing else', () => {
    const { policy, problem } = strictly('bindPrefixes: nothing\nregistries: [docker.io]\nhostNetwork: true\n');
    expect(policy).toMatchObject({ registries: ['docker.io'], hostNetwork: true, bindPrefixes: [], privileged: false });
    expect(policy.stopRefused).toBe(false);
    expect(problem).toMatch(/\/p\.yaml: bindPrefixes/);
  });
  test('with an invalid rule stops no container, even with stopRefused: true', () =>
    expect(strictly('stopRefused: true\nprivileged: perhaps').policy).toMatchObject({ stopRefused: false }));
  test('with an unknown rule allows only what its valid rules allow', () =>
    expect(strictly('priviledged: false\nhostPid: true')).toMatchObject({
      policy: { privileged: false, hostPid: true, devices: false, capAdd: [] },
      problem: expect.stringContaining('priviledged'),
    }));
  test('that is not YAML or cannot be read allows nothing', () => {
    for (const read of [() => 'a: [', () => '- a list', () => assert.fail('EACCES')])
      expect(strictestReading(read, '/p.yaml')).toMatchObject({
        policy: { privileged: false, registries: [], bindPrefixes: [] },
        problem: expect.stringMatching(/\/p\.yaml|EACCES/),
      });
  });
});
