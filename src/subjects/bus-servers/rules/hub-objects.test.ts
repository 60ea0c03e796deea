import { execFile } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, test } from 'vitest';
import { makeBus, natsServer } from '../../../../testing/bus.ts';
import { temporaryFolder } from '../../../../testing/temporary-folder.ts';
import type { BusHub } from '../../../api/v3/bus-hub.ts';
import { hubMembers, hubSettings } from './hub.ts';
import { type HubPlacement, hubConfig, hubHosts, hubObjects, type StoreMark, storeMarkIn } from './hub-objects.ts';

const placement: HubPlacement = {
  namespace: 'skerry',
  installation: 'plant',
  appLabel: 'skerry',
  componentDomain: 'skerry.dev',
  image: 'nats:2.15',
  replicas: 3,
  serviceType: 'ClusterIP',
};
const hubOf = (spec: BusHub['spec'] = {}): BusHub => ({
  apiVersion: 'skerry.dev/v3',
  kind: 'BusHub',
  metadata: { name: 'bus-hub', namespace: 'skerry' },
  spec,
});
const bus = makeBus();
const trust = {
  operators: [bus.operator],
  systemAccount: bus.system.publicKey,
  preload: { [bus.system.publicKey]: bus.system.token() },
  storeKey: 'k'.repeat(32),
};

interface Members {
  replicas: number;
  template: {
    metadata: { annotations: Record<string, string> };
    spec: {
      readinessGates: unknown;
      containers: { resources: { limits: { memory: string } }; ports: { name: string; containerPort: number }[] }[];
    };
  };
  volumeClaimTemplates: { spec: { resources: { requests: { storage: string } }; storageClassName?: string } }[];
}
const certificate = { 'ca.crt': 'ca', 'tls.crt': 'cert', 'tls.key': 'key' };
const certificates = { site: certificate, mqtt: certificate };
const configOf = (hub: BusHub, more: Partial<HubPlacement> = {}, former?: StoreMark) =>
  hubConfig(hub, { ...placement, ...more }, trust, certificates, former);
const objectsOf = (hub: BusHub, more: Partial<HubPlacement> = {}, former?: StoreMark) =>
  hubObjects(hub, { ...placement, ...more }, configOf(hub, more, former));
const membersOf = (hub: BusHub, more: Partial<HubPlacement> = {}, former?: StoreMark) =>
  objectsOf(hub, more, former).members.spec as unknown as Members;

describe('the configuration of the hub', () => {
  test.each([1, 3])('is accepted by nats-server for %s members, but for the files that a pod has', async (replicas) => {
    const file = join(temporaryFolder(), 'server.conf');
    // No folder of a pod is on this machine: without TLS nothing else is left out.
    const text = (configOf(hubOf(), { replicas }).files['server.conf'] ?? '').replace(/^ {2}tls: \{[^}]*\}\n/gm, '');
    writeFileSync(file, text);
    const env = { POD_NAME: 'bus-0' };
    const checked = await promisify(execFile)(await natsServer(), ['-t', '-c', file], { env });
    expect(checked.stderr).toContain('configuration file');
    expect(text.includes('nats://bus-2.bus-headless.skerry.svc:6222')).toBe(replicas === 3);
  });
});

test('the members of a hub with TLS for clients have the certificate of devices at the port of clients, and are replaced for it', () => {
  const [plain, secure] = [hubOf(), hubOf({ clientTls: true })].map((hub) => configOf(hub));
  const tls = /^tls: \{\n {2}cert_file: "([^"]+)"\n {2}key_file: "([^"]+)"/m;
  expect(secure?.files['server.conf']?.match(tls)?.slice(1)).toEqual([
    '/etc/nats/config/mqtt.tls.crt',
    '/etc/nats/config/mqtt.tls.key',
  ]);
  expect(plain?.files['server.conf']).not.toMatch(tls);
  expect(secure?.start).not.toBe(plain?.start);
  const urls = hubMembers(hubOf({ clientTls: true }), 'skerry', { replicas: 1 }).map(({ url }) => url);
  expect(urls).toEqual(['tls://bus-0.bus-headless.skerry.svc:4222']);
});

test('members are replaced once for lost keys of their account, whose token is in the Secret and in no file of a pod', () => {
  const [token, later] = [bus.system.token(), bus.system.token()];
  const configWith = (systemRenewed: string | undefined, of = token) =>
    hubConfig(hubOf(), placement, { ...trust, systemRenewed, preload: { [trust.systemAccount]: of } }, certificates);
  const first = configWith('1700000000');
  expect(first.start).not.toBe(configWith(undefined).start);
  expect(configWith('1700000000', later).start).toBe(first.start);
  expect(configWith('1700000001').start).not.toBe(first.start);
  expect(first.files['system-token']).toBe(token);
  expect(JSON.stringify(hubObjects(hubOf(), placement, first))).not.toContain('system-token');
});

describe('the Service of a hub that gets another port', () => {
  const portsOf = (former: number | undefined) => {
    const clients = {
      host: 'bus.skerry.svc',
      port: 4333,
      ...(former && { former: { host: 'bus.skerry.svc', port: former } }),
    };
    const hub = { ...hubOf({ serverPort: 4333 }), status: { observedGeneration: 1, clients } };
    const service = objectsOf(hub).services.find(({ metadata }) => metadata.name === 'bus');
    return (service as { spec: { ports: { name: string; port: number; targetPort: string }[] } }).spec.ports;
  };

  test('keeps the former port, which leads to clients, until every node has the present one', () => {
    expect(portsOf(4222)).toContainEqual({ name: 'client-former', port: 4222, protocol: 'TCP', targetPort: 'client' });
    expect(portsOf(undefined).map(({ name }) => name)).toEqual(['client', 'leaf', 'mqtt']);
  });

  test('has no second entry for a former port that it uses for something else now', () => {
    expect(portsOf(7422).map(({ name }) => name)).toEqual(['client', 'leaf', 'mqtt']);
  });
});

describe('the objects of the hub', () => {
  test('open the ports of the table in the page of the hub, by Service and by NetworkPolicy, and no other', () => {
    const page = readFileSync(join(import.meta.dirname, '../../../../docs/resources/bus-hub.md'), 'utf8');
    const table = [...page.matchAll(/^\| `(\w+Port)`, (\d+) \| `(\w+)` \| [^|]* \| ([^|]*) \| (\w+) \|/gm)].map(
      ([, field = '', port, name = '', services = '', who = '']) => ({
        field,
        port: Number(port),
        name,
        services,
        who,
      }),
    );
    const settings = hubSettings(hubOf());
    expect(table.map(({ field, port }) => [field, port])).toEqual(
      table.map(({ field }) => [field, settings[field as keyof typeof settings]]),
    );
    const objects = objectsOf(hubOf());
    const [container] = (objects.members.spec as unknown as Members).template.spec.containers;
    const sorted = (names: readonly string[]) => [...names].sort();
    const byPort = (a: { containerPort: number }, b: { containerPort: number }) => a.containerPort - b.containerPort;
    expect(container?.ports.toSorted(byPort)).toEqual(
      table.map(({ port, name }) => ({ name, containerPort: port, protocol: 'TCP' })).toSorted(byPort),
    );
    for (const { metadata, spec } of objects.services) {
      const listed = table.filter(({ services }) => services.includes(`\`${metadata.name}\``)).map(({ name }) => name);
      expect(sorted((spec as { ports: { name: string }[] }).ports.map(({ name }) => name))).toEqual(sorted(listed));
    }
    const { ingress } = objects.network.spec as { ingress: { from?: unknown; ports: { port: string }[] }[] };
    const open = (isForMembers: boolean) =>
      ingress.filter(({ from }) => (from !== undefined) === isForMembers).flatMap(({ ports }) => ports);
    for (const [isForMembers, who] of [
      [false, 'everybody'],
      [true, 'members'],
    ] as const)
      expect(sorted(open(isForMembers).map(({ port }) => port))).toEqual(
        sorted(table.filter((row) => row.who === who).map(({ name }) => name)),
      );
  });

  test('lead clients to a member only once it has every token, and the leader before', () => {
    const [headless, service] = objectsOf(hubOf()).services.map(({ spec }) => spec);
    expect(headless).toMatchObject({ publishNotReadyAddresses: true, clusterIP: 'None' });
    expect(service).not.toHaveProperty('publishNotReadyAddresses');
    expect(membersOf(hubOf()).template.spec.readinessGates).toEqual([{ conditionType: 'skerry.dev/bus-tokens' }]);
  });

  test('have the ports, sizes and class of the hub', () => {
    const hub = hubOf({ serverPort: 4333, jsStorageSize: '2g', jsMemoryStoreSize: '512m' });
    const { template, volumeClaimTemplates } = membersOf(hub, { storageClass: 'fast' });
    const [container] = template.spec.containers;
    expect(container?.ports).toContainEqual({ name: 'client', containerPort: 4333, protocol: 'TCP' });
    expect(container?.resources.limits.memory).toBe(String((768 + 512) * 2 ** 20));
    expect(volumeClaimTemplates[0]?.spec).toMatchObject({
      storageClassName: 'fast',
      resources: { requests: { storage: String(3 * 2 ** 30) } },
    });
  });

  const replaced = (members: Members) => members.template.metadata.annotations['skerry.dev/bus-config'];

  test('replace members for what a running server does not take, and for nothing else', () => {
    const present = replaced(membersOf(hubOf()));
    const store = configOf(hubOf()).store;
    expect(replaced(membersOf(hubOf({ jsStorageSize: '20g' }), {}, store))).toBe(present);
    expect(replaced(membersOf(hubOf(), { replicas: 5 }))).toBe(present);
    expect(replaced(membersOf(hubOf({ jsStorageSize: '5g' }), {}, store))).not.toBe(present);
    expect(replaced(membersOf(hubOf({ leafPort: 7000 }), {}, store))).not.toBe(present);
  });

  test('count each time that the store becomes smaller, also when it comes back to a size that it had', () => {
    const sizes = ['10g', '20g', '10g', '10g', '20g', '10g'];
    let former: StoreMark | undefined;
    const counts = sizes.map((jsStorageSize) => {
      const { members } = objectsOf(hubOf({ jsStorageSize }), {}, former);
      former = storeMarkIn(members.metadata.annotations);
      return former?.shrinks;
    });
    expect(counts).toEqual([0, 0, 1, 1, 1, 2]);
  });

  test('have a tag for each content of their files but tokens, which running members are sent', () => {
    const tagOf = (more: { preload?: Record<string, string>; ca?: string; hub?: BusHub['spec'] } = {}) => {
      const files = hubConfig(
        hubOf(more.hub),
        placement,
        { ...trust, ...(more.preload && { preload: more.preload }) },
        { ...certificates, site: { ...certificate, ...(more.ca && { 'ca.crt': more.ca }) } },
      ).files;
      expect(files['server.conf']).toContain(`"${files.tag}"`);
      return files.tag;
    };
    expect(tagOf()).toBe(tagOf({ preload: {} }));
    expect(new Set([tagOf(), tagOf({ ca: 'next' }), tagOf({ hub: { jsStorageSize: '20g' } })]).size).toBe(3);
  });
});

test('the certificates of the hub have the names of its Services, its members, and its host', () => {
  const hosts = hubHosts(hubOf({ host: 'bus.example' }), { namespace: 'skerry', replicas: 2 });
  expect(hosts).toEqual([
    ...['localhost', '127.0.0.1', 'bus', 'bus.skerry', 'bus.skerry.svc', 'bus.skerry.svc.cluster.local'],
    ...['bus-0.bus-headless.skerry.svc', 'bus-1.bus-headless.skerry.svc', 'bus.example'],
  ]);
});
