import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { createSocket } from 'node:dgram';
import { mkdirSync, readdirSync, readFileSync, readlinkSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { freePort } from '../../../hack/ports.ts';
import type { ContainerField } from '../../../src/api/container/index.ts';
import { BRIDGE_HOSTS, ROUTER_BRIDGE_HOST } from '../../../src/api/names.ts';
import type { MicroserviceView } from '../../../src/wire/agent.ts';
import type { ContractRow, Field, Fixture, Seen } from './_contract-row.ts';

/**
 * The contract of an engine: for each container field, how it is asked for, and how it is observed that a container has it.
 * The contract test runs these rows on every engine, and docs/engines.md is made from them and from their results. The
 * compiler refuses a container field without a row. Rows know no engine: what an engine cannot honour is what the agent
 * reports as `notHonoured`, and then the container has to run without it.
 *
 * One table, and so longer than other files: whoever adds a field looks for the rows of its neighbours.
 */

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

/** The addresses that /etc/hosts has for a name. */
const addressesOf = (hosts: string, name: string) =>
  hosts
    .split('\n')
    .map((line) => line.trim().split(/\s+/))
    .filter(([, ...names]) => names.includes(name))
    .map(([address]) => address);

const hostNamespace = (name: string) => readlinkSync(`/proc/self/ns/${name}`);
const published = (fixture: Pick<Fixture, 'port'>) => ({
  portMappings: [{ internal: 8080, external: fixture.port, protocol: 'tcp' as const }],
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

const ROWS = {
  images: [
    {
      observed: 'the environment that only this image sets',
      view: () => ({}),
      inside: ({ env }) => equal(env.OF_THE_IMAGE, 'fields'),
    },
  ],
  platform: [
    {
      observed: 'architecture of the image that a pull for each platform brings',
      view: () => ({ platform: 'linux/arm64' }),
      pulled: async (architectureOf) => {
        equal(await architectureOf('linux/arm64'), 'arm64');
        equal(await architectureOf('linux/amd64'), 'amd64');
      },
    },
  ],
  runtime: [
    {
      observed: 'a runtime that the engine does not know is refused',
      view: () => ({ runtime: 'no-such-runtime' }),
      refused: /runtime/i,
    },
  ],
  entrypoint: [
    {
      observed: 'arguments of the process',
      view: () => ({ entrypoint: ['/sample', 'see'], commands: ['/tmp'] }),
      inside: (seen) => deepEqual(seen.arguments, ['/sample', 'see', '/tmp']),
    },
  ],
  commands: [
    {
      observed: 'arguments of the process; blanks and umlauts stay',
      view: () => ({ commands: ['see', '/a b', 'ü'] }),
      inside: (seen) => deepEqual(seen.arguments.slice(1), ['see', '/a b', 'ü']),
    },
  ],
  workingDir: [
    {
      observed: 'working directory of the process',
      view: () => ({ workingDir: '/tmp' }),
      inside: (seen) => equal(seen.workingDirectory, '/tmp'),
    },
  ],
  env: [
    {
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
  ],
  runAsUser: [
    {
      observed: 'user of the process',
      view: () => ({ runAsUser: '1234' }),
      inside: (seen) => equal(seen.uid, 1234),
    },
  ],
  runAsGroup: [
    {
      observed: 'user and group of the process',
      view: () => ({ runAsUser: '1234', runAsGroup: '2345' }),
      inside: (seen) => deepEqual([seen.uid, seen.gid], [1234, 2345]),
    },
  ],
  ports: [
    {
      of: ' (tcp)',
      observed: 'an answer on the port of the host',
      view: published,
      outside: async ({ get, look, until }, { port }) => {
        await until('an answer', async () => (await get('/healthz')).includes('ok'));
        deepEqual((await look()).ports, [{ internal: 8080, external: port, protocol: 'tcp' }]);
      },
    },
    {
      of: ' (udp)',
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
  ],
  hostNetworkMode: [
    {
      observed: "network namespace of the process is the host's",
      view: () => ({ hostNetworkMode: true }),
      inside: ({ namespaces }) => equal(namespaces.net, hostNamespace('net')),
    },
  ],
  names: [
    {
      observed: 'it is reached as application.microservice and with the suffix of the bridge',
      view: (fixture) => ({ application: 'plant', name: `reader-${fixture.port}`, ...published(fixture) }),
      outside: async ({ get, until }, { port }) => {
        const name = `plant.reader-${port}`;
        for (const host of [name, `${name}.svc.bridge.local`])
          await until(`an answer from ${host}`, async () =>
            (await get(`/get?url=http://${host}:8080/`)).includes('Hello'),
          );
      },
    },
  ],
  namesOfMachine: [
    {
      observed: 'a port that another container publishes on the machine answers; an extra host of the entry wins',
      view: published,
      outside: async ({ get, until, another, beside }) => {
        const port = await freePort();
        await using _router = await beside(published({ port }));
        for (const host of BRIDGE_HOSTS)
          await until(`an answer from ${host}`, async () =>
            (await get(`/get?url=http://${host}:${port}/`)).includes('Hello'),
          );
        const { hosts } = await another({ extraHosts: [`${BRIDGE_HOSTS[0]}:192.0.2.7`] });
        deepEqual(addressesOf(hosts, BRIDGE_HOSTS[0]), ['192.0.2.7']);
        for (const host of BRIDGE_HOSTS.slice(1)) equal(addressesOf(hosts, host).length, 1, host);
      },
    },
    {
      of: ' (edge router)',
      observed: 'the name of the router leads to its container, at a port that the machine does not publish',
      view: (fixture) => ({ isRouter: true, isSystem: true, ...published(fixture) }),
      outside: async ({ get, until }) => {
        await until('an answer from the router', async () =>
          (await get(`/get?url=http://${ROUTER_BRIDGE_HOST}:8080/`)).includes('Hello'),
        );
      },
    },
    {
      of: ' (host network)',
      observed: 'a port that another container publishes on the machine answers at 127.0.0.1',
      view: ({ port }) => ({ hostNetworkMode: true, commands: ['-address', `127.0.0.1:${port}`] }),
      outside: async ({ get, until, another, beside }) => {
        const port = await freePort();
        await using _router = await beside(published({ port }));
        for (const host of BRIDGE_HOSTS)
          await until(`an answer from ${host}`, async () =>
            (await get(`/get?url=http://${host}:${port}/`)).includes('Hello'),
          );
        const { hosts } = await another({ hostNetworkMode: true });
        for (const host of BRIDGE_HOSTS) deepEqual(addressesOf(hosts, host), ['127.0.0.1']);
      },
    },
  ],
  extraHosts: [
    {
      of: ' (address)',
      observed: '/etc/hosts of the container',
      view: () => ({ extraHosts: ['printer:192.0.2.7', 'six:2001:db8::7'] }),
      inside: ({ hosts }) => {
        match(hosts, /^192\.0\.2\.7\s+printer$/m);
        match(hosts, /^2001:db8::7\s+six$/m);
      },
    },
    {
      of: ' (host-gateway)',
      observed: '/etc/hosts of the container; it is the address of the machine on the network',
      view: () => ({ extraHosts: ['machine:host-gateway'] }),
      inside: ({ hosts }) => match(hosts, /^\d+\.\d+\.\d+\.\d+\s+machine$/m),
    },
    {
      of: ' (microservice)',
      observed: 'it is reached under the other name',
      view: (fixture) => ({
        application: 'plant',
        name: `asker-${fixture.port}`,
        extraHosts: [`db.local:plant.asker-${fixture.port}`],
        ...published(fixture),
      }),
      outside: async ({ get, until }) => {
        await until('an answer', async () => (await get('/get?url=http://db.local:8080/')).includes('Hello'));
      },
    },
  ],
  volumes: [
    {
      of: ' (bind, rw)',
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
      of: ' (bind, ro)',
      observed: 'nothing can be written',
      view: ({ folder }) => bind(folder, 'ro'),
      folders: ['/data'],
      inside: (seen) => equal(folderOf(seen, '/data').writable, false),
    },
    {
      of: ' (volume, private)',
      observed: 'what was written is there the next time, and not for another microservice with a volume of that name',
      view: () => volume('private', 'own'),
      outside: async ({ another }) => {
        const namesOf = async (uuid: string) =>
          folderOf(await another({ uuid, ...volume('private', 'own') }, ['/data']), '/data').names;
        const [one, other] = [randomUUID(), randomUUID()];
        deepEqual(await namesOf(one), []);
        deepEqual(await namesOf(one), ['.written']);
        deepEqual(await namesOf(other), []);
      },
    },
    {
      of: ' (volume, shared)',
      observed: 'what was written is there for another microservice with a volume of that name',
      view: () => volume('shared', 'common'),
      outside: async ({ another }) => {
        const names = async () => folderOf(await another(volume('shared', 'pool'), ['/data']), '/data').names;
        deepEqual(await names(), []);
        deepEqual(await names(), ['.written']);
      },
    },
  ],
  tmpfs: [
    {
      observed: 'type, size and mode of the mounted file system, and that it can be written',
      view: () => ({ tmpfs: [{ containerPath: '/scratch', size: 8, mode: '1770' }] }),
      folders: ['/scratch'],
      inside: (seen) => {
        const { names, ...found } = folderOf(seen, '/scratch');
        deepEqual(found, { type: 'tmpfs', bytes: 8 * MIB, mode: '1770', writable: true });
      },
    },
  ],
  shmSize: [
    {
      observed: 'size of /dev/shm',
      view: () => ({ shmSize: 16 }),
      folders: ['/dev/shm'],
      inside: (seen) => equal(folderOf(seen, '/dev/shm').bytes, 16 * MIB),
    },
  ],
  readOnlyRootFilesystem: [
    {
      observed: 'nothing can be written at the root; without it, it can',
      view: () => ({ readOnlyRootFilesystem: true }),
      outside: async ({ another }) => {
        equal(folderOf(await another({ readOnlyRootFilesystem: true }, ['/']), '/').writable, false);
        equal(folderOf(await another({}, ['/']), '/').writable, true);
      },
    },
  ],
  isPrivileged: [
    {
      observed: 'capabilities of the process and devices of the host',
      view: () => ({ isPrivileged: true }),
      inside: (seen) => {
        ok(seen.capabilities.includes('SYS_ADMIN'));
        ok(seen.devices['/dev/kmsg'], 'a device of the host');
      },
    },
  ],
  capAdd: [
    {
      observed: 'bounding set of the process',
      view: () => ({ capAdd: ['NET_ADMIN', 'SYS_TIME'] }),
      inside: ({ capabilities }) => {
        for (const name of ['NET_ADMIN', 'SYS_TIME']) ok(capabilities.includes(name), name);
        ok(!capabilities.includes('SYS_ADMIN'));
      },
    },
  ],
  capDrop: [
    {
      observed: 'bounding set of the process',
      view: () => ({ capDrop: ['CHOWN', 'SETUID'] }),
      inside: ({ capabilities }) => {
        for (const name of ['CHOWN', 'SETUID']) ok(!capabilities.includes(name), name);
        ok(capabilities.includes('KILL'));
      },
    },
  ],
  devices: [
    {
      observed: 'number of the device and that only what is permitted opens it',
      view: () => ({ devices: [{ hostPath: '/dev/kmsg', containerPath: '/dev/written', permissions: 'w' }] }),
      inside: ({ devices }) => equal(devices['/dev/written'], 'c 1:11 w'),
      outside: async ({ another }) => {
        const reading = { devices: [{ hostPath: '/dev/kmsg', containerPath: '/dev/read', permissions: 'r' }] };
        // Whether it opens for reading is up to the kernel's settings.
        match((await another(reading)).devices['/dev/read'] ?? '', /^c 1:11 r?$/);
      },
    },
  ],
  cdiDevices: [
    {
      observed: 'a device that no CDI specification names is refused',
      view: () => ({ cdiDevices: ['skerry.dev/none=0'] }),
      refused: /cdi|device/i,
    },
  ],
  sysctls: [
    {
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
  ],
  ulimits: [
    {
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
  ],
  cpus: [
    {
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
  ],
  cpuSetCpus: [
    {
      observed: 'CPUs that the process may use',
      view: () => ({ cpuSetCpus: '0' }),
      inside: (seen) => equal(seen.cpus, '0'),
    },
  ],
  memoryLimit: [
    {
      observed: 'limit of the control group',
      view: () => ({ memoryLimit: 64 }),
      inside: (seen) => equal(control(seen, 'memory.limit_in_bytes', 'memory.max'), 64 * MIB),
    },
  ],
  memoryReservation: [
    {
      observed: 'soft limit of the control group',
      view: () => ({ memoryReservation: 32 }),
      inside: (seen) => equal(control(seen, 'memory.soft_limit_in_bytes', 'memory.low'), 32 * MIB),
    },
  ],
  memorySwap: [
    {
      observed: 'limit of memory and swap of the control group',
      view: () => ({ memoryLimit: 64, memorySwap: 96 }),
      inside: (seen) => {
        // The newer interface counts swap alone.
        const together = seen.controls['memory.memsw.limit_in_bytes'] !== undefined;
        equal(control(seen, 'memory.memsw.limit_in_bytes', 'memory.swap.max'), (together ? 96 : 32) * MIB);
      },
    },
  ],
  pidMode: [
    {
      observed: "process namespace is the host's; without it, it is not",
      view: () => ({ pidMode: 'host' }),
      outside: async ({ another }) => {
        equal((await another({ pidMode: 'host' })).namespaces.pid, hostNamespace('pid'));
        ok((await another({})).namespaces.pid !== hostNamespace('pid'));
      },
    },
  ],
  ipcMode: [
    {
      of: ' (host)',
      observed: "IPC namespace is the host's",
      view: () => ({ ipcMode: 'host' }),
      inside: ({ namespaces }) => equal(namespaces.ipc, hostNamespace('ipc')),
    },
    {
      of: ' (private)',
      observed: "IPC namespace is not the host's",
      view: () => ({ ipcMode: 'private' }),
      inside: ({ namespaces }) => ok(namespaces.ipc !== hostNamespace('ipc')),
    },
    {
      of: ' (shareable)',
      observed: "IPC namespace is not the host's",
      view: () => ({ ipcMode: 'shareable' }),
      inside: ({ namespaces }) => ok(namespaces.ipc !== hostNamespace('ipc')),
    },
  ],
  healthCheck: [
    {
      of: ' (healthy)',
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
      of: ' (unhealthy)',
      observed: 'unhealthy after so many failures, and still running',
      view: () => ({ healthCheck: healthCheck('/nothing') }),
      outside: async ({ look, until }) => {
        await until('unhealthy', async () => (await look()).health === 'unhealthy');
        const { state, failedCheck } = await look();
        equal(state, 'running');
        equal(failedCheck?.exitCode, 1);
        match(failedCheck?.output ?? '', /404/);
      },
    },
    {
      of: '.timeout',
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
      of: '.startPeriod',
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
      of: '.startInterval',
      observed: 'healthy long before the first interval is over',
      view: () => ({ healthCheck: { ...healthCheck('/healthz'), interval: 600, startPeriod: 600, startInterval: 1 } }),
      outside: async ({ look, until }) => {
        await until('healthy', async () => (await look()).health === 'healthy');
      },
    },
  ],
  logSize: [
    {
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
  ],
  annotations: [
    {
      observed: 'labels of the container',
      view: () => ({ annotations: '{"team":"shore","example.com/x":"y z"}' }),
      outside: async ({ labels }) => {
        const seen = await labels();
        deepEqual([seen.team, seen['example.com/x']], ['shore', 'y z']);
      },
    },
  ],
} satisfies Record<ContainerField | 'images' | 'names' | 'namesOfMachine', readonly [ContractRow, ...ContractRow[]]>;

/** All rows, each with its name. */
export const FIELDS: readonly Field[] = Object.entries(ROWS).flatMap(([name, rows]) =>
  rows.map((row: ContractRow) => ({ ...row, field: `${name}${row.of ?? ''}` })),
);

/** Makes what a row's container binds, as the agent does before it makes a container. */
export function makeSources(mounts: readonly { source: string }[]): void {
  for (const { source } of mounts) mkdirSync(source, { recursive: true, mode: 0o777 });
}
