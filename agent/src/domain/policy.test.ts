import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import type { MicroserviceView } from '../../../src/wire/agent.ts';
import { makeView } from '../plan/_util.ts';
import { fileIdentity, followLinks, locate, mountedPlaces, mountsBelow } from '../system/disk.ts';
import { PLAIN_PLACES, type Places, policySchema, refusal } from './policy.ts';
import { parsePolicy, strictestReading } from './policy-file.ts';

const mapping = { containerDestination: '/x', accessMode: 'rw', scope: 'private' } as const;
const bind = (...sources: string[]): Partial<MicroserviceView> => ({
  volumeMappings: sources.map((hostDestination) => ({ ...mapping, hostDestination, type: 'bind' })),
});

interface Machine {
  places?: Places;
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

describe('a machine that says nothing allows', () => {
  const allowed: Record<string, Partial<MicroserviceView>> = {
    privileged: { isPrivileged: true },
    'the host network': { hostNetworkMode: true, pidMode: 'host', ipcMode: 'host' },
    devices: { devices: [{ hostPath: '/dev/ttyUSB0', containerPath: '/dev/tty', permissions: 'rwm' }] },
    'any capability': { capAdd: ['ALL'] },
    'any registry': { imageId: 'anywhere.example.com/a:1' },
    'binding a directory': bind('/srv/data'),
    'binding the process table as a whole': bind('/proc'),
    'a name that only begins like a protected one': bind('/var/lib/skerry-agent-data', '/run/docker.socket'),
    'volumes of either scope': {
      volumeMappings: [
        { ...mapping, hostDestination: 'data', type: 'volume' },
        { ...mapping, hostDestination: 'data', type: 'volume', scope: 'shared', containerDestination: '/y' },
      ],
    },
  };
  for (const [name, view] of Object.entries(allowed)) test(name, () => expect(ask(view)).toBeUndefined());
});

describe('each rule refuses, and allows', () => {
  const device = { hostPath: '/dev/ttyUSB0', containerPath: '/dev/tty', permissions: 'rwm' };
  /** rule, what it refuses, what it still allows */
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
    capAdd: [
      { capAdd: ['CAP_NET_ADMIN'] },
      [{ capAdd: ['SYS_ADMIN'] }, { capAdd: ['NET_ADMIN', 'cap_sys_admin'] }, { capAdd: ['ALL'] }],
      [{ capAdd: ['net_admin'] }, { capAdd: ['CAP_NET_ADMIN'] }, { capDrop: ['SYS_ADMIN'] }],
    ],
    'capAdd, none at all': [{ capAdd: [] }, [{ capAdd: ['NET_ADMIN'] }], [{}]],
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
    test(`without ${rule} all of it is allowed`, () => {
      for (const view of [...refused, ...allowed]) expect(ask(view)).toBeUndefined();
    });
  }

  test('an image without a host counts as one of the registry that it is pulled from', () => {
    const pulled = { reference: 'evil.example.com/nginx:1' };
    expect(ask({ imageId: 'nginx:1' }, { registries: ['docker.io'] }, pulled)).toMatch(/from evil\.example\.com/);
    expect(ask({ imageId: 'nginx:1' }, { registries: ['evil.example.com'] }, pulled)).toBeUndefined();
  });
});

/** Real files: a folder as that of an agent, a socket as that of an engine, and ways to reach them. */
describe('engine sockets and the agent’s own directories are never bound', () => {
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
  const real: Places = { follow: followLinks, identity: fileIdentity, mountsBelow, locate, mountedPlaces };
  const judge = (source: string, places = real) => ask(bind(source), {}, { places, protectedPaths });

  const refused = {
    'the socket': at('run/engine/engine.sock'),
    'its directory': at('run/engine'),
    'with a slash behind': `${at('run/engine')}/`,
    'with slashes and dots': at('run').replace('/run', '//./run/engine/../engine'),
    'a directory above': at('run'),
    'the root': '/',
    'dots that lead to it': at('srv/data/../../run/engine'),
    'dots through what is not there': `${at('srv')}/none/../../run/engine`,
    'dots past the root': `/../../..${at('run/engine')}`,
    'the agent’s directory': at('lib/agent'),
    'a file in it': at('lib/agent/identity.json'),
    'what is not there yet': at('lib/agent/new'),
    'a shared volume, by its path': at('lib/agent/volumes/shared/data'),
    'a link to the socket': at('srv/links/socket'),
    'a relative link': at('srv/links/relative'),
    'a link to a link': at('srv/links/to-a-link'),
    'a link in the middle': at('var-run/engine'),
    'a link to what is not there yet': at('srv/links/later'),
    'a link to a directory above': at('srv/links/above'),
    'a link in circles': at('srv/links/circle'),
    'the eyes of a process': `/proc/1/root${at('run/engine/engine.sock')}`,
    'the agent’s own eyes': `/proc/self/root${at('run')}`,
    'its working directory': '/proc/thread-self/cwd',
    'an open file': `/proc/${process.pid}/fd/1`,
    'a process, with dots': `/proc/sys/../${process.pid}/root`,
    'a link to the eyes of a process': `${at('srv/links/process')}${at('run')}`,
    'a relative path': 'run/engine',
    nothing: '',
  };
  test.each(Object.entries(refused))('%s', (_name, path) =>
    expect(judge(path)).toMatch(/may not be bound|not an absolute path/),
  );

  const allowed = ['srv', 'srv/data', 'srv/data/new', 'srv/links/fine', 'lib/agent-data'];
  // What holds links gives away nothing: they lead elsewhere in the container.
  test.each(allowed)('%s is none of them', (path) => expect(judge(at(path))).toBeUndefined());

  describe('whatever a mount calls them', () => {
    /** `alias` shows `of`, as a bind mount does */
    const mounted = (alias: string, of: string): Places => {
      const original = (path: string) =>
        path === alias || path.startsWith(`${alias}/`) ? of + path.slice(alias.length) : path;
      return {
        ...real,
        identity: (path) => fileIdentity(original(path)),
        mountsBelow: (path) => (alias.startsWith(`${path}/`) ? [alias] : []),
      };
    };
    const cases: Record<string, [string, string, string]> = {
      'the socket’s directory': ['/mnt/alias', at('run'), '/mnt/alias/engine'],
      'a directory above': ['/mnt/alias', at('run'), '/mnt/alias'],
      'the root': ['/mnt/alias', '/', '/mnt/alias'],
      'in the agent’s directory': ['/mnt/alias', at('lib/agent'), '/mnt/alias/volumes'],
      'a directory that holds the mount': ['/mnt/alias', at('run'), '/mnt'],
    };
    for (const [name, [alias, of, path]] of Object.entries(cases))
      test(name, () => {
        expect(judge(path, mounted(alias, of))).toMatch(/may not be bound/);
        expect(judge(path, mounted(alias, at('srv/data')))).toBeUndefined();
      });
  });
});

describe('a policy file', () => {
  test('with an unknown word is refused rather than read as something else', () =>
    expect(() => parsePolicy('priviledged: false', '/p.yaml')).toThrow(/\/p\.yaml.*priviledged/));
  test('that is no YAML is refused', () =>
    expect(() => parsePolicy('a: [', '/p.yaml')).toThrow(/\/p\.yaml is not YAML/));
  test('that is empty or absent says nothing', () => {
    expect(parsePolicy('', '/p.yaml')).toEqual(parsePolicy(undefined, '/p.yaml'));
  });
});

describe('a policy file at the start of an agent', () => {
  const strictly = (text: string) => strictestReading(() => text, '/p.yaml');
  test('that can be read says what it says', () =>
    expect(strictly('privileged: false')).toEqual({ policy: policySchema.parse({ privileged: false }) }));
  test('with a rule of the wrong form keeps the others and allows nothing else', () => {
    const { policy, problem } = strictly('bindPrefixes: nothing\nregistries: [docker.io]\nhostNetwork: true\n');
    expect(policy).toMatchObject({ registries: ['docker.io'], hostNetwork: true, bindPrefixes: [], privileged: false });
    expect(policy.stopRefused).toBe(false);
    expect(problem).toMatch(/\/p\.yaml: bindPrefixes/);
  });
  test('with a rule that cannot be read stops nothing, even where what is refused is to be stopped', () =>
    expect(strictly('stopRefused: true\nprivileged: perhaps').policy).toMatchObject({ stopRefused: false }));
  test('with an unknown word allows nothing that it does not plainly allow', () =>
    expect(strictly('priviledged: false\nhostPid: true')).toMatchObject({
      policy: { privileged: false, hostPid: true, devices: false, capAdd: [] },
      problem: expect.stringContaining('priviledged'),
    }));
  test('that is no YAML, or is not to be had, allows nothing', () => {
    for (const read of [() => 'a: [', () => '- a list', () => assert.fail('EACCES')])
      expect(strictestReading(read, '/p.yaml')).toMatchObject({
        policy: { privileged: false, registries: [], bindPrefixes: [] },
        problem: expect.stringMatching(/\/p\.yaml|EACCES/),
      });
  });
});
