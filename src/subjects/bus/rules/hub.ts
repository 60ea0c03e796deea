import type { BusHub } from '../../../api/v3/bus-hub.ts';
import { invalid } from '../../../rules/errors.ts';
import { storeBytes } from './sizes.ts';

/** The one object of the hub. */
export const HUB_OBJECT = 'bus-hub';

/** Settings of the hub as reads show them and its servers have them. */
const DEFAULTS = {
  serverPort: 4222,
  clusterPort: 6222,
  leafPort: 7422,
  mqttPort: 8883,
  httpPort: 8222,
  jsStorageSize: '10g',
  jsMemoryStoreSize: '1g',
} as const;

const PORTS = ['serverPort', 'clusterPort', 'leafPort', 'mqttPort', 'httpPort'] as const;
const SIZES = ['jsStorageSize', 'jsMemoryStoreSize'] as const;

/** What the hub is reached by, and what its servers have. */
export interface HubSettings extends Record<(typeof PORTS)[number], number>, Record<(typeof SIZES)[number], string> {
  /** absent while its Service has no address */
  host?: string;
}

export function hubSettings({ spec, status }: Pick<BusHub, 'spec' | 'status'>): HubSettings {
  const host = spec.host ?? status?.host;
  const entries = [...PORTS, ...SIZES].map((field) => [field, spec[field] ?? DEFAULTS[field]] as const);
  return { ...(host !== undefined && { host }), ...(Object.fromEntries(entries) as unknown as HubSettings) };
}

/** Why a hub cannot be, although each of its members has the right form. */
export function hubProblem({ spec }: Pick<BusHub, 'spec'>): { field: string; message: string } | undefined {
  const settings = hubSettings({ spec });
  for (const field of SIZES)
    if (storeBytes(settings[field]) === undefined)
      return { field, message: `${field}: "${settings[field]}" is no size above 0 and below 2^53 bytes, such as 10g` };
  for (const [i, field] of PORTS.entries()) {
    const other = PORTS.slice(0, i).find((before) => settings[before] === settings[field]);
    if (other) return { field, message: `${field}: ${settings[field]} is the port of ${other} as well` };
  }
  return undefined;
}

/** Throws when a hub cannot be. */
export function requireHub(hub: Pick<BusHub, 'spec'>): void {
  const problem = hubProblem(hub);
  if (problem) throw invalid(problem.message, problem.field);
}
