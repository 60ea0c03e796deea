import { describe, expect, test } from 'vitest';
import { BRIDGE_HOSTS } from '../../../../src/api/names.ts';
import { notHonoured } from '../../domain/container-spec.ts';
import type { ContainerSpec } from '../../engine-port/container-spec.ts';
import type { EngineFacts } from '../../engine-port/facts.ts';
import { makeView } from '../../supervise/plan/_util.ts';
import { makeSpec } from '../_contract.ts';
import { createBody as bodyOf } from './create-body.ts';
import { dialectOf } from './dialect.ts';
import { readLogFrames } from './log-frames.ts';
import { PullProgress } from './pull-progress.ts';

const facts: EngineFacts = {
  kind: 'docker',
  version: '20.10',
  apiVersion: '1.41',
  runtimes: ['runc'],
  choosesRuntime: true,
  rootless: false,
  selinux: false,
  architecture: 'x86_64',
  startInterval: false,
  cdi: false,
  links: true,
  defaultLimits: [],
};
const createBody = (spec: ContainerSpec, network: string) => bodyOf(spec, network, dialectOf());
const MACHINE = BRIDGE_HOSTS.map((name) => `${name}:host-gateway`);
const uuid = '11111111-1111-4111-8111-111111111111';

describe('the body of a create call', () => {
  test("has the agent's own members for a view with defaults", () =>
    expect(createBody(makeSpec({ view: { uuid }, facts, instance: 'i1' }), 'skerry')).toMatchInlineSnapshot(`
      {
        "Env": [
          "TZ=UTC",
          "SKERRY_MICROSERVICE_UID=11111111-1111-4111-8111-111111111111",
          "SKERRY_MICROSERVICE_NAME=m11",
          "SKERRY_APPLICATION_NAME=app",
          "SKERRY_NODE_UID=node-1",
          "SKERRY_SCOPE=managed",
          "SKERRY_RUNTIME_ENGINE=docker",
          "SKERRY_ROLE=workload",
        ],
        "ExposedPorts": {},
        "Healthcheck": undefined,
        "HostConfig": {
          "Binds": undefined,
          "DeviceRequests": undefined,
          "Devices": undefined,
          "ExtraHosts": [
            "router.default.svc.bridge.local:host-gateway",
            "bus.default.svc.bridge.local:host-gateway",
            "skerry-agent.default.svc.bridge.local:host-gateway",
          ],
          "LogConfig": {
            "Config": {
              "max-file": "2",
              "max-size": "10m",
            },
            "Type": "json-file",
          },
          "Mounts": undefined,
          "NetworkMode": "skerry",
          "PortBindings": {},
          "RestartPolicy": {
            "Name": "no",
          },
          "Tmpfs": {},
          "Ulimits": undefined,
        },
        "Image": "example/app:1",
        "Labels": {
          "app.kubernetes.io/instance": "app.m11",
          "app.kubernetes.io/managed-by": "skerry-agent",
          "app.kubernetes.io/name": "m11",
          "app.kubernetes.io/part-of": "app",
          "skerry.dev/agent": "i1",
          "skerry.dev/application": "app",
          "skerry.dev/container-generation": "1",
          "skerry.dev/digest": "c1-f60bcb38208a100f",
          "skerry.dev/healthcheck": "false",
          "skerry.dev/host-network": "false",
          "skerry.dev/microservice": "m11",
          "skerry.dev/microservice-uid": "11111111-1111-4111-8111-111111111111",
          "skerry.dev/node-uid": "node-1",
          "skerry.dev/rebuild-order": "0",
          "skerry.dev/revision": "r-1",
          "skerry.dev/role": "workload",
          "skerry.dev/runtime-engine": "docker",
          "skerry.dev/scope": "managed",
          "skerry.dev/system": "false",
        },
        "NetworkingConfig": {
          "EndpointsConfig": {
            "skerry": {
              "Aliases": [
                "app.m11",
                "app.m11.svc.bridge.local",
              ],
              "Links": undefined,
            },
          },
        },
        "User": undefined,
      }
    `));

  test('has a member for every field of a view', () =>
    expect(
      createBody(
        makeSpec({
          facts,
          instance: 'i1',
          volumesDirectory: '/var/lib/agent/volumes',
          view: {
            uuid,
            annotations: '{"team":"shore"}',
            portMappings: [
              { internal: 80, external: 8080, protocol: 'tcp' },
              { internal: 80, external: 8081, protocol: 'tcp' },
            ],
            volumeMappings: [
              {
                hostDestination: '/srv',
                containerDestination: '/srv',
                accessMode: 'ro',
                type: 'bind',
                scope: 'private',
              },
              {
                hostDestination: 'data',
                containerDestination: '/data',
                accessMode: 'rw',
                type: 'volume',
                scope: 'private',
              },
              {
                hostDestination: 'common',
                containerDestination: '/common',
                accessMode: 'rw',
                type: 'volume',
                scope: 'shared',
              },
            ],
            env: [
              { key: 'TZ', value: 'Europe/Oslo' },
              { key: 'SKERRY_ROLE', value: 'forged' },
            ],
            entrypoint: ['/bin/app'],
            commands: ['serve'],
            workingDir: '/app',
            runAsUser: '1000',
            runAsGroup: '1001',
            isPrivileged: true,
            readOnlyRootFilesystem: true,
            pidMode: 'host',
            ipcMode: 'host',
            runtime: 'runsc',
            cpus: 1.5,
            cpuSetCpus: '0-1',
            memoryLimit: 128,
            memoryReservation: 64,
            memorySwap: -1,
            shmSize: 32,
            logSize: 5,
            capAdd: ['NET_ADMIN'],
            capDrop: ['ALL'],
            sysctls: { 'net.ipv4.tcp_syncookies': '1' },
            ulimits: { nofile: { soft: 1024, hard: 4096 } },
            devices: [{ hostPath: '/dev/ttyUSB0', containerPath: '/dev/modem', permissions: 'rw' }],
            tmpfs: [{ containerPath: '/scratch', size: 16, mode: '1777' }, { containerPath: '/run' }],
            extraHosts: ['db:192.0.2.1', 'host:host-gateway', 'six:2001:db8::1'],
            healthCheck: { test: ['/bin/check'], interval: 5, timeout: 2, startPeriod: 1, retries: 3 },
          },
        }),
        'skerry',
      ),
    ).toMatchInlineSnapshot(`
      {
        "Cmd": [
          "serve",
        ],
        "Entrypoint": [
          "/bin/app",
        ],
        "Env": [
          "TZ=Europe/Oslo",
          "SKERRY_MICROSERVICE_UID=11111111-1111-4111-8111-111111111111",
          "SKERRY_MICROSERVICE_NAME=m11",
          "SKERRY_APPLICATION_NAME=app",
          "SKERRY_NODE_UID=node-1",
          "SKERRY_SCOPE=managed",
          "SKERRY_RUNTIME_ENGINE=docker",
          "SKERRY_ROLE=workload",
        ],
        "ExposedPorts": {
          "80/tcp": {},
        },
        "Healthcheck": {
          "Interval": 5000000000,
          "Retries": 3,
          "StartInterval": undefined,
          "StartPeriod": 1000000000,
          "Test": [
            "CMD",
            "/bin/check",
          ],
          "Timeout": 2000000000,
        },
        "HostConfig": {
          "Binds": undefined,
          "CapAdd": [
            "NET_ADMIN",
          ],
          "CapDrop": [
            "ALL",
          ],
          "CpusetCpus": "0-1",
          "DeviceRequests": undefined,
          "Devices": [
            {
              "CgroupPermissions": "rw",
              "PathInContainer": "/dev/modem",
              "PathOnHost": "/dev/ttyUSB0",
            },
          ],
          "ExtraHosts": [
            "db:192.0.2.1",
            "host:host-gateway",
            "six:2001:db8::1",
            "router.default.svc.bridge.local:host-gateway",
            "bus.default.svc.bridge.local:host-gateway",
            "skerry-agent.default.svc.bridge.local:host-gateway",
          ],
          "IpcMode": "host",
          "LogConfig": {
            "Config": {
              "max-file": "2",
              "max-size": "5m",
            },
            "Type": "json-file",
          },
          "Memory": 134217728,
          "MemoryReservation": 67108864,
          "MemorySwap": -1,
          "Mounts": [
            {
              "ReadOnly": true,
              "Source": "/srv",
              "Target": "/srv",
              "Type": "bind",
            },
            {
              "ReadOnly": false,
              "Source": "/var/lib/agent/volumes/data/11111111-1111-4111-8111-111111111111/data",
              "Target": "/data",
              "Type": "bind",
            },
            {
              "ReadOnly": false,
              "Source": "/var/lib/agent/volumes/shared/common",
              "Target": "/common",
              "Type": "bind",
            },
          ],
          "NanoCpus": 1500000000,
          "NetworkMode": "skerry",
          "PidMode": "host",
          "PortBindings": {
            "80/tcp": [
              {
                "HostIp": "",
                "HostPort": "8080",
              },
              {
                "HostIp": "",
                "HostPort": "8081",
              },
            ],
          },
          "Privileged": true,
          "ReadonlyRootfs": true,
          "RestartPolicy": {
            "Name": "no",
          },
          "Runtime": "runsc",
          "ShmSize": 33554432,
          "Sysctls": {
            "net.ipv4.tcp_syncookies": "1",
          },
          "Tmpfs": {
            "/run": "",
            "/scratch": "size=16777216,mode=1777",
          },
          "Ulimits": [
            {
              "Hard": 4096,
              "Name": "nofile",
              "Soft": 1024,
            },
          ],
        },
        "Image": "example/app:1",
        "Labels": {
          "app.kubernetes.io/instance": "app.m11",
          "app.kubernetes.io/managed-by": "skerry-agent",
          "app.kubernetes.io/name": "m11",
          "app.kubernetes.io/part-of": "app",
          "skerry.dev/agent": "i1",
          "skerry.dev/application": "app",
          "skerry.dev/container-generation": "1",
          "skerry.dev/digest": "c1-0bdf79494c6415e7",
          "skerry.dev/healthcheck": "true",
          "skerry.dev/host-network": "false",
          "skerry.dev/microservice": "m11",
          "skerry.dev/microservice-uid": "11111111-1111-4111-8111-111111111111",
          "skerry.dev/node-uid": "node-1",
          "skerry.dev/rebuild-order": "0",
          "skerry.dev/revision": "r-1",
          "skerry.dev/role": "workload",
          "skerry.dev/runtime-engine": "docker",
          "skerry.dev/scope": "managed",
          "skerry.dev/system": "false",
          "team": "shore",
        },
        "NetworkingConfig": {
          "EndpointsConfig": {
            "skerry": {
              "Aliases": [
                "app.m11",
                "app.m11.svc.bridge.local",
              ],
              "Links": undefined,
            },
          },
        },
        "User": "1000:1001",
        "WorkingDir": "/app",
      }
    `));

  test('has no ports and no aliases on the host network', () => {
    const body = createBody(
      makeSpec({
        facts,
        view: { hostNetworkMode: true, portMappings: [{ internal: 1, external: 2, protocol: 'tcp' }] },
      }),
      '',
    );
    expect(body).toMatchObject({ HostConfig: { NetworkMode: 'host', PortBindings: {} }, NetworkingConfig: undefined });
  });

  test('has the log driver of podman and no links for podman', () => {
    const podman = dialectOf([{ Name: 'Podman Engine' }, { Name: 'Conmon' }]);
    const view = { extraHosts: ['db:shop.db', 'printer:192.0.2.7'], logSize: 3 };
    const spec = makeSpec({ view, facts: { ...facts, links: false } });
    expect(bodyOf(spec, 'skerry', podman)).toMatchObject({
      HostConfig: {
        LogConfig: { Type: 'k8s-file', Config: { 'max-size': '3m' } },
        ExtraHosts: ['printer:192.0.2.7', ...MACHINE],
      },
      NetworkingConfig: { EndpointsConfig: { skerry: { Aliases: spec.aliases } } },
    });
    expect(JSON.stringify(bodyOf(spec, 'skerry', podman))).not.toContain('Links');
  });

  test('has default limits that are lowered to those of the machine', () => {
    const limits = { mayRaise: false, hard: { nofile: 20000, nproc: 4096 } };
    const eager = { ...facts, defaultLimits: ['nofile', 'nproc'] };
    const view = { ulimits: { nofile: { soft: 100, hard: 200 } } };
    expect(makeSpec({ facts: eager, limits, view }).ulimits).toEqual([
      { name: 'nofile', soft: 100, hard: 200 },
      { name: 'nproc', soft: 4096, hard: 4096 },
    ]);
    expect(makeSpec({ facts: eager, limits: { ...limits, mayRaise: true } }).ulimits).toEqual([]);
    expect(makeSpec({ facts, limits }).ulimits).toEqual([]);
  });

  for (const name of ['../escape', '/absolute', 'a/b', '..', ''])
    test(`cannot be made for a volume called "${name}"`, () => {
      const volumeMappings = [
        {
          hostDestination: name,
          containerDestination: '/x',
          accessMode: 'rw',
          type: 'volume',
          scope: 'shared',
        } as const,
      ];
      expect(() => makeSpec({ facts, view: { volumeMappings } })).toThrow(/not a plain name/);
    });
});

test('fields that cannot be honoured are reported, each with its reason', () => {
  const view = makeView({
    volumeMappings: [
      { hostDestination: 'm', containerDestination: '/m', accessMode: 'rw', type: 'volumeMount', scope: 'private' },
    ],
    cdiDevices: ['nvidia.com/gpu=0'],
    annotations: '{"skerry.dev/agent":"x"}',
    env: [{ key: 'SKERRY_X', value: '' }],
    ulimits: { nofile: { soft: 1, hard: 100_000 } },
    healthCheck: { test: ['CMD', 'true'], startInterval: 1 },
  });
  const limits = { mayRaise: false, hard: { nofile: 20_000 } };
  expect(notHonoured(view, { facts, limits }).map(({ field }) => field)).toEqual([
    'volumeMappings',
    'cdiDevices',
    'healthCheck.startInterval',
    'annotations',
    'env',
    'ulimits.nofile',
  ]);
  expect(notHonoured(makeView(), { facts, limits })).toEqual([]);
});

describe('log frames', () => {
  const frame = (stream: number, text: string | Buffer) => {
    const payload = Buffer.from(text);
    const header = Buffer.alloc(8);
    header[0] = stream;
    header.writeUInt32BE(payload.length, 4);
    return Buffer.concat([header, payload]);
  };
  async function read(bytes: Buffer, size: number): Promise<string[]> {
    async function* pieces() {
      for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
    }
    const lines: string[] = [];
    for await (const { stream, ts, line } of readLogFrames(pieces()))
      lines.push(`${stream} ${ts.slice(11, 19)} ${line}`);
    return lines;
  }
  const bytes = Buffer.concat([
    frame(1, '2026-01-01T10:00:00.1Z one\n2026-01-01T10:00:01.1Z two'),
    frame(2, '2026-01-01T10:00:02.1Z trouble\n'),
    frame(1, ' and a half'),
    frame(1, Buffer.concat([Buffer.from('2026-01-01T10:00:02.5+01:00  '), Buffer.from('äö').subarray(0, 1)])),
    frame(1, Buffer.concat([Buffer.from('2026-01-01T10:00:02.6Z '), Buffer.from('äö\r\n').subarray(1)])),
    frame(1, '2026-01-01T10:00:03.1Z open end'),
  ]);
  for (const size of [1, 3, 7, 1000])
    test(`are read from pieces of ${size} bytes`, async () =>
      expect(await read(bytes, size)).toEqual([
        'stdout 10:00:00 one',
        'stderr 10:00:02 trouble',
        'stdout 10:00:01 two and a half äö',
        'stdout 10:00:03 open end',
      ]));
});

test('the progress of a pull never decreases and ends at 100', () => {
  const progress = new PullProgress();
  const events = [
    { status: 'Pulling from team/app', id: '1' },
    { status: 'Pulling fs layer', id: 'a' },
    { status: 'Pulling fs layer', id: 'b' },
    { status: 'Downloading', id: 'a', progressDetail: { current: 50, total: 100 } },
    { status: 'Downloading', id: 'b', progressDetail: { current: 0, total: 100 } },
    { status: 'Download complete', id: 'a' },
    { status: 'Extracting', id: 'a', progressDetail: { current: 1, total: 100 } },
    { status: 'Pull complete', id: 'a' },
    { status: 'Download complete', id: 'b' },
    { status: 'Status: Downloaded newer image' },
  ];
  const shown = events.map((event) => progress.add(event)).filter((value) => value !== undefined);
  expect(shown).toEqual([...shown].sort((a, b) => a - b));
  expect(shown.at(-1)).toBe(100);
});

test('runtime and links are reported as not honoured by an engine without them, except links to other machines', () => {
  const podman = { ...facts, kind: 'podman' as const, version: '4', choosesRuntime: false, links: false };
  const poorer = { ...podman, runtimes: ['crun'] };
  const view = makeView({ runtime: 'kata', extraHosts: ['db:shop.db', 'gw:gw-2.example.com', 'p:192.0.2.7'] });
  const limits = { mayRaise: true, hard: {} };
  const isMicroservice = (name: string) => name === 'shop.db';
  expect(notHonoured(view, { facts: poorer, limits, isMicroservice })).toEqual([
    { field: 'runtime', reason: 'podman takes no choice of runtimes over its API; it has crun' },
    { field: 'extraHosts', reason: 'podman knows other containers by their own names only: db' },
  ]);
  expect(notHonoured(view, { facts, limits, isMicroservice })).toEqual([]);
  expect(notHonoured(makeView({ runtime: 'crun' }), { facts: poorer, limits })).toEqual([]);
});
