import { freePort } from '../hack/ports.ts';
import type { Daemon } from '../hack/process.ts';
import { type HubMemberPorts, prepareBusHub } from '../hack/stack/bus-hub.ts';
import { temporaryFolder } from '../testing/temporary-folder.ts';
import { Relay } from './_relay.ts';
import type { Stack } from './_stack.ts';

/** Members of the hub. */
const MEMBERS = 3;

/** A hub of three servers on this machine, with the configuration that its pods have in a cluster. */
export interface BusHubOfTest extends AsyncDisposable {
  /** where clients connect */
  url: string;
  /** the domain of its streams */
  domain: string;
  /** every port at which leafs reach it */
  leafPorts: readonly number[];
  /** Ends a member as a crash would. */
  kill(index: number): Promise<void>;
  /** Starts a member again with what it has on the disk. */
  start(index: number): Promise<void>;
}

export async function startHubOfThree({ kube, namespace }: Stack): Promise<BusHubOfTest> {
  const dir = temporaryFolder();
  const started = new AsyncDisposableStack();
  const hub = await prepareBusHub({ dir, kube, namespace, log: () => {} });
  const members: HubMemberPorts[] = [];
  for (let i = 0; i < MEMBERS; i++)
    members.push({
      serverPort: await freePort(),
      leafPort: await freePort(),
      mqttPort: await freePort(),
      httpPort: await freePort(),
      clusterPort: await freePort(),
    });
  const relayTo = async (port: 'serverPort' | 'leafPort') =>
    started.use(await Relay.start({ host: hub.host, ports: members.map((member) => member[port]) }, hub.host));
  const [clients, leafs] = [await relayTo('serverPort'), await relayTo('leafPort')];
  const daemons: Daemon[] = [];
  const start = async (index: number) => {
    daemons[index] = await hub.start(index, members);
  };
  started.defer(async () => void (await Promise.all(daemons.map((daemon) => daemon.kill()))));
  for (const index of members.keys()) await start(index);
  const { mqttPort = 0, httpPort = 0 } = members[0] ?? {};
  await hub.announce({ serverPort: clients.port, leafPort: leafs.port, mqttPort, httpPort }, () => {
    for (const daemon of daemons) daemon.assertRunning();
  });
  return {
    url: `nats://${hub.host}:${clients.port}`,
    domain: hub.domain,
    leafPorts: [leafs.port, ...members.map(({ leafPort }) => leafPort)],
    kill: async (index) => daemons[index]?.kill(),
    start,
    [Symbol.asyncDispose]: () => started.disposeAsync(),
  };
}
