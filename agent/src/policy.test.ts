import { describe, expect, test } from 'vitest';
import type { MicroserviceView } from '../../src/wire/agent.ts';
import { makeView } from './plan/_util.ts';
import { policySchema, refusal } from './policy.ts';

const bind = (hostDestination: string): Partial<MicroserviceView> => ({
  volumeMappings: [{ hostDestination, containerDestination: '/x', accessMode: 'rw', type: 'bind', scope: 'private' }],
});
const links: Record<string, string> = {
  '/var/run/docker.sock': '/run/docker.sock',
  '/home/me/link': '/var/lib/skerry-agent',
};

function ask(view: Partial<MicroserviceView>, policy: object = {}): string | undefined {
  return refusal(makeView(view), {
    policy: policySchema.parse(policy),
    protectedPaths: ['/run/docker.sock', '/var/lib/skerry-agent'],
    follow: (path) => links[path] ?? path,
  });
}

describe('a machine that says nothing allows', () => {
  const allowed: Record<string, Partial<MicroserviceView>> = {
    privileged: { isPrivileged: true },
    'the host network': { hostNetworkMode: true, pidMode: 'host', ipcMode: 'host' },
    devices: { devices: [{ hostPath: '/dev/ttyUSB0', containerPath: '/dev/tty', permissions: 'rwm' }] },
    'binding a directory': bind('/srv/data'),
    'a name that only begins like a protected one': bind('/var/lib/skerry-agent-data'),
  };
  for (const [name, view] of Object.entries(allowed)) test(name, () => expect(ask(view)).toBeUndefined());
});

describe('no machine ever allows binding', () => {
  for (const path of [
    '/run/docker.sock',
    '/var/run/docker.sock',
    '/run',
    '/',
    '/var/lib/skerry-agent',
    '/var/lib/skerry-agent/identity.json',
    '/home/me/link',
    'relative/path',
  ])
    test(path, () => expect(ask(bind(path))).toMatch(/may not be bound|not an absolute path/));
});

describe('a machine can refuse', () => {
  const refused: Record<string, [Partial<MicroserviceView>, object]> = {
    privileged: [{ isPrivileged: true }, { privileged: false }],
    'the host network': [{ hostNetworkMode: true }, { hostNetwork: false }],
    'its processes': [{ pidMode: 'host' }, { hostPid: false }],
    'its IPC': [{ ipcMode: 'host' }, { hostIpc: false }],
    devices: [{ cdiDevices: ['nvidia.com/gpu=0'] }, { devices: false }],
    'a capability': [{ capAdd: ['CAP_SYS_ADMIN'] }, { capAdd: ['NET_ADMIN'] }],
    'binding outside of some directories': [bind('/etc/passwd'), { bindPrefixes: ['/srv'] }],
    'a registry': [{ imageId: 'evil.example.com/a:1' }, { registries: ['registry.example.com'] }],
    'the public hub': [{ imageId: 'nginx:1' }, { registries: ['registry.example.com'] }],
  };
  for (const [name, [view, policy]] of Object.entries(refused))
    test(name, () => expect(ask(view, policy)).toMatch(/machine/));

  test('and still allow what it names', () => {
    expect(ask({ capAdd: ['net_admin'] }, { capAdd: ['CAP_NET_ADMIN'] })).toBeUndefined();
    expect(ask(bind('/srv/data'), { bindPrefixes: ['/srv'] })).toBeUndefined();
    expect(ask({ imageId: 'nginx:1' }, { registries: ['docker.io'] })).toBeUndefined();
  });
});

test('a policy with an unknown word is refused rather than read as something else', () =>
  expect(policySchema.safeParse({ priviledged: false }).success).toBe(false));
