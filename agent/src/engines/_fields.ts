import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { createSocket } from 'node:dgram';
import { mkdirSync, readdirSync, readFileSync, readlinkSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { MicroserviceView } from '../../../src/wire/agent.ts';
import type { Container } from '../domain/container.ts';

/**
 * Every field of a microservice that a container engine has a part in: how it is asked for, and how it is seen that a
 * container has it. The contract test runs these rows on every engine, and docs/engines.md is made from them and from
 * what came of them. Knows no engine: what one cannot honour is what the agent itself says of it (`notHonoured`), and
 * then the container has to run all the same.
 */
export interface Field {
  /** name in docs/spec/workloads.md#container-fields, and what of it where there are several rows */
  field: string;
  /** how it is observed, for people */
  observed: string;
  view: (scene: Scene) => Partial<MicroserviceView>;
  /** folders that the container looks into, in rows that look from the inside */
  folders?: string[];
  /** what a process inside has to see; the container prints it and ends */
  inside?: (seen: Seen, scene: Scene) => void;
  /** anything that takes a running container */
  outside?: (running: Running, scene: Scene) => Promise<void>;
  /** for what takes effect when the image is pulled */
  pulled?: (architectureOf: (platform: string) => Promise<string>) => Promise<void>;
  /** the start must fail with this in its message */
  refused?: RegExp;
}

/** Where a row takes place. */
export interface Scene {
  /** image of the sample, in the engine already */
  image: string;
  /** a folder of the host that is the row's own */
  folder: string;
  /** a port of the host that is free */
  port: number;
}

/** A container that runs for a row. */
export interface Running {
  id: string;
  look(): Promise<Container>;
  /** what the engine's inspection shows, in the words of the Docker API */
  inspect(): Promise<Inspection>;
  /** where the log of the container stands on this machine */
  logFile(): Promise<string>;
  /** asks the sample inside */
  get(path: string): Promise<string>;
  /** waits until a condition holds */
  until<T>(what: string, check: () => Promise<T | undefined | false> | T | undefined | false): Promise<T>;
  /** starts a further container of another microservice and answers what it sees */
  beside(view: Partial<MicroserviceView>, folders?: string[]): Promise<Seen>;
}

export interface Inspection {
  Config: { Labels: Record<string, string> };
  State: { Status: string };
}

/** What `sample see` prints. */
export interface Seen {
  arguments: string[];
  env: Record<string, string>;
  workingDirectory: string;
  hostname: string;
  uid: number;
  gid: number;
  capabilities: string[];
  cpus: string;
  /** soft and hard */
  limits: Record<string, [string, string]>;
  sysctls: Record<string, string>;
  devices: Record<string, string>;
  hosts: string;
  namespaces: Record<'pid' | 'ipc' | 'net', string>;
  controls: Record<string, string>;
  folders: Record<string, { type: string; mode?: string; bytes?: number; writable: boolean; names: string[] }>;
}

const MIB = 1024 * 1024;
const equal: (actual: unknown, expected: unknown, message?: string) => void = assert.equal;
const deepEqual: typeof equal = assert.deepEqual;
const match: (text: string, pattern: RegExp) => void = assert.match;
const ok: (value: unknown, message?: string) => asserts value = assert.ok;

/** A figure of the control group, by the kernel's older and newer name. */
function control({ controls }: Seen, older: string, newer: string): number {
  const text = controls[older] ?? controls[newer];
  ok(text !== undefined, `neither ${older} nor ${newer} is there: ${JSON.stringify(controls)}`);
  return text === 'max' ? Infinity : Number(text);
}

function folderOf({ folders }: Seen, path: string): Seen['folders'][string] {
  const found = folders[path];
  ok(found, `${path} was not looked into`);
  return found;
}

const hostNamespace = (name: string) => readlinkSync(`/proc/self/ns/${name}`);
const published = (scene: Scene) => ({
  portMappings: [{ internal: 8080, external: scene.port, protocol: 'tcp' as const }],
});
const bind = (source: string, accessMode: 'ro' | 'rw') => ({
  volumeMappings: [
    {
      type: 'bind' as const,
      hostDestination: source,
      containerDestination: '/data',
      accessMode,
      scope: 'private' as const,
    },
  ],
});
const volume = (scope: 'private' | 'shared', name: string): Partial<MicroserviceView> => ({
  volumeMappings: [{ type: 'volume', hostDestination: name, containerDestination: '/data', accessMode: 'rw', scope }],
});
const healthCheck = (path: string): MicroserviceView['healthCheck'] => ({
  test: ['CMD', '/sample', 'check', `http://127.0.0.1:8080${path}`],
  interval: 1,
  retries: 2,
});

export const FIELDS: readonly Field[] = [
  {
    field: 'images',
    observed: 'the environment that only this image sets',
    view: () => ({}),
    inside: ({ env }) => equal(env.OF_THE_IMAGE, 'fields'),
  },
  {
    field: 'platform',
    observed: 'architecture of the image that a pull for each platform brings',
    view: () => ({ platform: 'linux/arm64' }),
    pulled: async (architectureOf) => {
      equal(await architectureOf('linux/arm64'), 'arm64');
      equal(await architectureOf('linux/amd64'), 'amd64');
    },
  },
  {
    field: 'runtime',
    observed: 'a runtime that the engine does not know is refused',
    view: () => ({ runtime: 'no-such-runtime' }),
    refused: /runtime/i,
  },
  {
    field: 'entrypoint',
    observed: 'arguments of the process',
    view: () => ({ entrypoint: ['/sample', 'see'], commands: ['/tmp'] }),
    inside: (seen) => deepEqual(seen.arguments, ['/sample', 'see', '/tmp']),
  },
  {
    field: 'commands',
    observed: 'arguments of the process; blanks and umlauts stay',
    view: () => ({ commands: ['see', '/a b', 'ü'] }),
    inside: (seen) => deepEqual(seen.arguments.slice(1), ['see', '/a b', 'ü']),
  },
  {
    field: 'workingDir',
    observed: 'working directory of the process',
    view: () => ({ workingDir: '/tmp' }),
    inside: (seen) => equal(seen.workingDirectory, '/tmp'),
  },
  {
    field: 'env',
    observed: 'environment of the process; equals signs, quotes and line ends stay',
    view: () => ({
      env: [
        { key: 'PLAIN', value: 'x' },
        { key: 'ODD', value: 'a=b "c"\n$d' },
        { key: 'EMPTY', value: '' },
      ],
    }),
    inside: ({ env }) => {
      deepEqual([env.PLAIN, env.ODD, env.EMPTY], ['x', 'a=b "c"\n$d', '']);
      equal(env.TZ, 'UTC');
      match(env.SKERRY_MICROSERVICE_UID ?? '', /^[0-9a-f-]{36}$/);
    },
  },
  {
    field: 'runAsUser',
    observed: 'user of the process',
    view: () => ({ runAsUser: '1234' }),
    inside: (seen) => equal(seen.uid, 1234),
  },
  {
    field: 'runAsGroup',
    observed: 'user and group of the process',
    view: () => ({ runAsUser: '1234', runAsGroup: '2345' }),
    inside: (seen) => deepEqual([seen.uid, seen.gid], [1234, 2345]),
  },
  {
    field: 'ports (tcp)',
    observed: 'an answer on the port of the host',
    view: published,
    outside: async ({ get, look, until }, { port }) => {
      await until('an answer', async () => (await get('/healthz')).includes('ok'));
      deepEqual((await look()).ports, [{ internal: 8080, external: port, protocol: 'tcp' }]);
    },
  },
  {
    field: 'ports (udp)',
    observed: 'a datagram comes back from the port of the host',
    view: ({ port }) => ({ portMappings: [{ internal: 8080, external: port, protocol: 'udp' }] }),
    outside: async ({ until }, { port }) => {
      using _end = { [Symbol.dispose]: () => socket.close() };
      const socket = createSocket('udp4').on('error', () => {});
      let answer = '';
      socket.on('message', (message) => {
        answer = message.toString();
      });
      await until('the echo', () => {
        socket.send('there', port, '127.0.0.1');
        return answer === 'there';
      });
    },
  },
  {
    field: 'hostNetworkMode',
    observed: "network namespace of the process is the host's",
    view: () => ({ hostNetworkMode: true }),
    inside: ({ namespaces }) => equal(namespaces.net, hostNamespace('net')),
  },
  {
    field: 'names',
    observed: 'it is reached as application.microservice and with the suffix of the bridge',
    view: (scene) => ({ application: 'plant', name: `reader-${scene.port}`, ...published(scene) }),
    outside: async ({ get, until }, { port }) => {
      const name = `plant.reader-${port}`;
      for (const host of [name, `${name}.svc.bridge.local`])
        await until(`an answer from ${host}`, async () =>
          (await get(`/get?url=http://${host}:8080/`)).includes('Hello'),
        );
    },
  },
  {
    field: 'extraHosts (address)',
    observed: '/etc/hosts of the container',
    view: () => ({ extraHosts: ['printer:192.0.2.7', 'six:2001:db8::7'] }),
    inside: ({ hosts }) => {
      match(hosts, /^192\.0\.2\.7\s+printer$/m);
      match(hosts, /^2001:db8::7\s+six$/m);
    },
  },
  {
    field: 'extraHosts (host-gateway)',
    observed: '/etc/hosts of the container; it is the address of the machine on the network',
    view: () => ({ extraHosts: ['machine:host-gateway'] }),
    inside: ({ hosts }) => match(hosts, /^\d+\.\d+\.\d+\.\d+\s+machine$/m),
  },
  {
    field: 'extraHosts (microservice)',
    observed: 'it is reached under the other name',
    view: (scene) => ({
      application: 'plant',
      name: `asker-${scene.port}`,
      extraHosts: [`db.local:plant.asker-${scene.port}`],
      ...published(scene),
    }),
    outside: async ({ get, until }) => {
      await until('an answer', async () => (await get('/get?url=http://db.local:8080/')).includes('Hello'));
    },
  },
  {
    field: 'volumes (bind, rw)',
    observed: 'a file of the host is seen inside, one written inside is seen on the host',
    view: ({ folder }) => {
      writeFileSync(join(folder, 'note'), 'from the host');
      return bind(folder, 'rw');
    },
    folders: ['/data'],
    inside: (seen, { folder }) => {
      ok(folderOf(seen, '/data').names.includes('note'));
      equal(readFileSync(join(folder, '.written'), 'utf8'), 'written');
    },
  },
  {
    field: 'volumes (bind, ro)',
    observed: 'nothing can be written',
    view: ({ folder }) => bind(folder, 'ro'),
    folders: ['/data'],
    inside: (seen) => equal(folderOf(seen, '/data').writable, false),
  },
  {
    field: 'volumes (volume, private)',
    observed: 'what was written is there the next time, and not for another microservice with a volume of that name',
    view: () => volume('private', 'own'),
    outside: async ({ beside }) => {
      const namesOf = async (uuid: string) =>
        folderOf(await beside({ uuid, ...volume('private', 'own') }, ['/data']), '/data').names;
      const [one, other] = [randomUUID(), randomUUID()];
      deepEqual(await namesOf(one), []);
      deepEqual(await namesOf(one), ['.written']);
      deepEqual(await namesOf(other), []);
    },
  },
  {
    field: 'volumes (volume, shared)',
    observed: 'what was written is there for another microservice with a volume of that name',
    view: () => volume('shared', 'common'),
    outside: async ({ beside }) => {
      const names = async () => folderOf(await beside(volume('shared', 'pool'), ['/data']), '/data').names;
      deepEqual(await names(), []);
      deepEqual(await names(), ['.written']);
    },
  },
  {
    field: 'tmpfs',
    observed: 'type, size and mode of the mounted file system, and that it can be written',
    view: () => ({ tmpfs: [{ containerPath: '/scratch', size: 8, mode: '1770' }] }),
    folders: ['/scratch'],
    inside: (seen) => {
      const { names, ...found } = folderOf(seen, '/scratch');
      deepEqual(found, { type: 'tmpfs', bytes: 8 * MIB, mode: '1770', writable: true });
    },
  },
  {
    field: 'shmSize',
    observed: 'size of /dev/shm',
    view: () => ({ shmSize: 16 }),
    folders: ['/dev/shm'],
    inside: (seen) => equal(folderOf(seen, '/dev/shm').bytes, 16 * MIB),
  },
  {
    field: 'readOnlyRootFilesystem',
    observed: 'nothing can be written at the root; without it, it can',
    view: () => ({ readOnlyRootFilesystem: true }),
    outside: async ({ beside }) => {
      equal(folderOf(await beside({ readOnlyRootFilesystem: true }, ['/']), '/').writable, false);
      equal(folderOf(await beside({}, ['/']), '/').writable, true);
    },
  },
  {
    field: 'isPrivileged',
    observed: 'capabilities of the process and devices of the host',
    view: () => ({ isPrivileged: true }),
    inside: (seen) => {
      ok(seen.capabilities.includes('SYS_ADMIN'));
      ok(seen.devices['/dev/kmsg'], 'a device of the host');
    },
  },
  {
    field: 'capAdd',
    observed: 'bounding set of the process',
    view: () => ({ capAdd: ['NET_ADMIN', 'SYS_TIME'] }),
    inside: ({ capabilities }) => {
      for (const name of ['NET_ADMIN', 'SYS_TIME']) ok(capabilities.includes(name), name);
      ok(!capabilities.includes('SYS_ADMIN'));
    },
  },
  {
    field: 'capDrop',
    observed: 'bounding set of the process',
    view: () => ({ capDrop: ['CHOWN', 'SETUID'] }),
    inside: ({ capabilities }) => {
      for (const name of ['CHOWN', 'SETUID']) ok(!capabilities.includes(name), name);
      ok(capabilities.includes('KILL'));
    },
  },
  {
    field: 'devices',
    observed: 'number of the device and that only what is permitted opens it',
    view: () => ({ devices: [{ hostPath: '/dev/kmsg', containerPath: '/dev/written', permissions: 'w' }] }),
    inside: ({ devices }) => equal(devices['/dev/written'], 'c 1:11 w'),
    outside: async ({ beside }) => {
      const reading = { devices: [{ hostPath: '/dev/kmsg', containerPath: '/dev/read', permissions: 'r' }] };
      // Whether it opens for reading is up to the kernel's settings.
      match((await beside(reading)).devices['/dev/read'] ?? '', /^c 1:11 r?$/);
    },
  },
  {
    field: 'cdiDevices',
    observed: 'a device that no CDI specification names is refused',
    view: () => ({ cdiDevices: ['skerry.dev/none=0'] }),
    refused: /cdi|device/i,
  },
  {
    field: 'sysctls',
    observed: '/proc/sys of the process',
    view: () => ({
      sysctls: {
        'net.ipv4.ip_unprivileged_port_start': '1000',
        'net.ipv4.tcp_keepalive_time': '1234',
        'net.ipv4.ip_local_port_range': '40000 41000',
        'kernel.shm_rmid_forced': '1',
      },
    }),
    inside: ({ sysctls }) => {
      equal(sysctls['net.ipv4.ip_unprivileged_port_start'], '1000');
      equal(sysctls['net.ipv4.tcp_keepalive_time'], '1234');
      equal(sysctls['net.ipv4.ip_local_port_range'], '40000 41000');
      equal(sysctls['kernel.shm_rmid_forced'], '1');
    },
  },
  {
    field: 'ulimits',
    observed: '/proc/self/limits of the process',
    view: () => ({
      ulimits: { nofile: { soft: 1000, hard: 2000 }, core: { soft: 0, hard: 0 }, fsize: { soft: -1, hard: -1 } },
    }),
    inside: ({ limits }) => {
      // Go raises the soft limit of files to the hard one when it starts.
      equal(limits['Max open files']?.[1], '2000');
      deepEqual(limits['Max core file size'], ['0', '0']);
      deepEqual(limits['Max file size'], ['unlimited', 'unlimited']);
    },
  },
  {
    field: 'cpus',
    observed: 'quota of the control group',
    view: () => ({ cpus: 0.5 }),
    inside: (seen) => {
      const [quota, period] = seen.controls['cpu.max']?.split(' ') ?? [
        seen.controls['cpu.cfs_quota_us'],
        seen.controls['cpu.cfs_period_us'],
      ];
      equal(Number(quota) / Number(period), 0.5);
    },
  },
  {
    field: 'cpuSetCpus',
    observed: 'CPUs that the process may use',
    view: () => ({ cpuSetCpus: '0' }),
    inside: (seen) => equal(seen.cpus, '0'),
  },
  {
    field: 'memoryLimit',
    observed: 'limit of the control group',
    view: () => ({ memoryLimit: 64 }),
    inside: (seen) => equal(control(seen, 'memory.limit_in_bytes', 'memory.max'), 64 * MIB),
  },
  {
    field: 'memoryReservation',
    observed: 'soft limit of the control group',
    view: () => ({ memoryReservation: 32 }),
    inside: (seen) => equal(control(seen, 'memory.soft_limit_in_bytes', 'memory.low'), 32 * MIB),
  },
  {
    field: 'memorySwap',
    observed: 'limit of memory and swap of the control group',
    view: () => ({ memoryLimit: 64, memorySwap: 96 }),
    inside: (seen) => {
      // The newer interface counts swap alone.
      const together = seen.controls['memory.memsw.limit_in_bytes'] !== undefined;
      equal(control(seen, 'memory.memsw.limit_in_bytes', 'memory.swap.max'), (together ? 96 : 32) * MIB);
    },
  },
  {
    field: 'pidMode',
    observed: "process namespace is the host's; without it, it is not",
    view: () => ({ pidMode: 'host' }),
    outside: async ({ beside }) => {
      equal((await beside({ pidMode: 'host' })).namespaces.pid, hostNamespace('pid'));
      ok((await beside({})).namespaces.pid !== hostNamespace('pid'));
    },
  },
  {
    field: 'ipcMode (host)',
    observed: "IPC namespace is the host's",
    view: () => ({ ipcMode: 'host' }),
    inside: ({ namespaces }) => equal(namespaces.ipc, hostNamespace('ipc')),
  },
  {
    field: 'ipcMode (private)',
    observed: "IPC namespace is not the host's",
    view: () => ({ ipcMode: 'private' }),
    inside: ({ namespaces }) => ok(namespaces.ipc !== hostNamespace('ipc')),
  },
  {
    field: 'ipcMode (shareable)',
    observed: "IPC namespace is not the host's",
    view: () => ({ ipcMode: 'shareable' }),
    inside: ({ namespaces }) => ok(namespaces.ipc !== hostNamespace('ipc')),
  },
  {
    field: 'healthCheck (healthy)',
    observed: 'healthy, and nothing but starting before',
    view: () => ({ healthCheck: healthCheck('/healthz') }),
    outside: async ({ look, until }) => {
      const seen = new Set<string | undefined>();
      await until('healthy', async () => seen.add((await look()).health).has('healthy'));
      deepEqual(
        [...seen].filter((health) => health !== 'starting'),
        ['healthy'],
      );
    },
  },
  {
    field: 'healthCheck (unhealthy)',
    observed: 'unhealthy after so many failures, and still running',
    view: () => ({ healthCheck: healthCheck('/nothing') }),
    outside: async ({ look, until }) => {
      await until('unhealthy', async () => (await look()).health === 'unhealthy');
      equal((await look()).state, 'running');
    },
  },
  {
    field: 'healthCheck.timeout',
    observed: 'a probe that hangs counts as failed',
    view: () => ({
      healthCheck: {
        test: ['CMD', '/sample', 'serve', '-address', '127.0.0.1:8081'],
        interval: 1,
        timeout: 1,
        retries: 1,
      },
    }),
    outside: async ({ look, until }) => {
      await until('unhealthy', async () => (await look()).health === 'unhealthy');
    },
  },
  {
    field: 'healthCheck.startPeriod',
    observed: 'failures within it do not make unhealthy',
    view: () => ({
      healthCheck: { ...healthCheck('/healthz'), retries: 1, startPeriod: 600 },
      env: [{ key: 'READY_AFTER', value: '4s' }],
    }),
    outside: async ({ look, until }) => {
      const seen = new Set<string | undefined>();
      await until('healthy', async () => seen.add((await look()).health).has('healthy'));
      ok(!seen.has('unhealthy'));
    },
  },
  {
    field: 'healthCheck.startInterval',
    observed: 'healthy long before the first interval is over',
    view: () => ({ healthCheck: { ...healthCheck('/healthz'), interval: 600, startPeriod: 600, startInterval: 1 } }),
    outside: async ({ look, until }) => {
      await until('healthy', async () => (await look()).health === 'healthy');
    },
  },
  {
    field: 'logSize',
    observed: 'size of the log on the host after four times as much was printed',
    view: () => ({ logSize: 1, commands: ['flood', '4'] }),
    outside: async ({ look, logFile, until }) => {
      await until('the end', async () => (await look()).state === 'exited');
      const file = await logFile();
      const own = readdirSync(dirname(file)).filter((name) => join(dirname(file), name).startsWith(file));
      const size = own.reduce((sum, name) => sum + statSync(join(dirname(file), name)).size, 0);
      ok(size > 1000 && size < 2.5 * MIB, `${size} bytes`);
    },
  },
  {
    field: 'annotations',
    observed: 'labels of the container',
    view: () => ({ annotations: '{"team":"shore","example.com/x":"y z"}' }),
    outside: async ({ inspect }) => {
      const { Labels } = (await inspect()).Config;
      deepEqual([Labels.team, Labels['example.com/x']], ['shore', 'y z']);
    },
  },
];

/** Makes what a row's container binds, as the agent does before it makes a container. */
export function makeSources(mounts: readonly { source: string }[]): void {
  for (const { source } of mounts) mkdirSync(source, { recursive: true, mode: 0o777 });
}
