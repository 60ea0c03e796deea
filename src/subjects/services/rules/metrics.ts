import type { EdgeNode, RouterHub } from '../../../api/v3/index.ts';
import type { Service } from '../../../api/v3/service.ts';

/** What single objects add to the figures of routers and services (src/telemetry/table.ts). */

type Conditioned = { status?: { conditions?: readonly { type: string; status: string; reason: string }[] } };
type Amounts = readonly (readonly [group: string, amount: number])[];

const found = ({ status }: Conditioned, type: string) => status?.conditions?.find((one) => one.type === type);

const STATES: Readonly<Record<string, string>> = { True: 'current', False: 'behind' };

/** A node with a router, by what its machine reports of it. */
export function routerOfNode(node: EdgeNode): Amounts {
  const ready = found(node, 'RouterReady');
  return ready ? [[STATES[ready.status] ?? 'unknown', 1]] : [];
}

export const defaultRouter = (hub: RouterHub): Amounts => [
  [STATES[found(hub, 'Ready')?.status ?? 'False'] ?? 'unknown', 1],
];

/** A service, by status and reason of its condition Ready. */
export function serviceByReady(service: Service): Amounts {
  const { status = 'Unknown', reason = 'Pending' } = found(service, 'Ready') ?? {};
  return [[`${status} ${reason}`, 1]];
}

/** The routers that are to listen for a service. */
export function serviceListeners({ status }: Service): Amounts {
  const { up = 0, of = 0 } = status?.listeners ?? {};
  return [
    ['up', up],
    ['down', Math.max(0, of - up)],
  ];
}
