import { isIP } from 'node:net';
import {
  CONTAINER_FIELD_NAMES,
  CONTAINER_FIELDS,
  type ContainerField,
  fieldRow,
  isAbsent,
} from '../../../../src/api/container/index.ts';
import type { ContainerSpec } from '../../engine-port/container-spec.ts';
import type { Dialect } from './dialect.ts';

const SECOND_IN_NS = 1e9;
/** What a unit of a container field is in the unit of the API. */
const UNITS = { MiB: 1024 * 1024, cores: 1e9 } as const;

/** The fields that no member of the API takes as they are. */
type Translated = {
  [F in ContainerField]: (typeof CONTAINER_FIELDS)[F]['engine'] extends 'own' ? F : never;
}[ContainerField];

interface Context {
  networkName: string;
  dialect: Dialect;
}

/** Members of the body; those of its HostConfig apart. */
interface Part {
  body?: Record<string, unknown>;
  hostConfig?: Record<string, unknown>;
}

/** How the Docker API says each field that it does not take as it is. */
const TRANSLATIONS: Readonly<Record<Translated, (spec: ContainerSpec, context: Context) => Part>> = {
  annotations: ({ labels }) => ({ body: { Labels: labels } }),
  env: ({ env }) => ({ body: { Env: env } }),
  // the group is part of the user
  runAsUser: ({ user }) => ({ body: { User: user } }),
  runAsGroup: () => ({}),
  // an argument of the call
  platform: () => ({}),
  ports: ({ ports }) => ({
    body: { ExposedPorts: Object.fromEntries(ports.map(({ internal, protocol }) => [`${internal}/${protocol}`, {}])) },
    hostConfig: { PortBindings: portBindings(ports) },
  }),
  volumes: ({ mounts }) => ({
    hostConfig: {
      Mounts: filled(
        mounts
          .filter(({ relabel }) => !relabel)
          .map(({ source, target, readOnly }) => ({
            Type: 'bind',
            Source: source,
            Target: target,
            ReadOnly: readOnly,
          })),
      ),
      // The Mounts form has no word for SELinux labels.
      Binds: filled(
        mounts
          .filter(({ relabel }) => relabel)
          .map(({ source, target, readOnly }) => `${source}:${target}:${readOnly ? 'ro' : 'rw'},z`),
      ),
    },
  }),
  tmpfs: ({ fields: { tmpfs = [] } }) => ({
    hostConfig: {
      Tmpfs: Object.fromEntries(
        tmpfs.map(({ containerPath, size, mode }) => [
          containerPath,
          [size && `size=${size * UNITS.MiB}`, mode && `mode=${mode}`].filter(Boolean).join(','),
        ]),
      ),
    },
  }),
  extraHosts: ({ extraHosts }) => ({
    hostConfig: {
      ExtraHosts: filled(
        extraHosts.filter(({ address }) => !isName(address)).map(({ name, address }) => `${name}:${address}`),
      ),
    },
  }),
  hostNetworkMode: (spec, { networkName, dialect }) =>
    spec.fields.hostNetworkMode
      ? { body: { NetworkingConfig: undefined }, hostConfig: { NetworkMode: 'host' } }
      : {
          body: { NetworkingConfig: { EndpointsConfig: { [networkName]: endpoint(spec, dialect) } } },
          hostConfig: { NetworkMode: networkName },
        },
  devices: ({ fields: { devices = [] } }) => ({
    hostConfig: {
      Devices: filled(
        devices.map(({ hostPath, containerPath, permissions }) => ({
          PathOnHost: hostPath,
          PathInContainer: containerPath,
          CgroupPermissions: permissions,
        })),
      ),
    },
  }),
  cdiDevices: ({ cdiDevices }) => ({
    hostConfig: { DeviceRequests: filled(cdiDevices) && [{ Driver: 'cdi', DeviceIDs: cdiDevices }] },
  }),
  ulimits: ({ ulimits }) => ({
    hostConfig: { Ulimits: filled(ulimits.map(({ name, soft, hard }) => ({ Name: name, Soft: soft, Hard: hard }))) },
  }),
  healthCheck: ({ fields: { healthCheck } }) => ({ body: { Healthcheck: healthCheck && probe(healthCheck) } }),
  logSize: ({ fields: { logSize } }, { dialect }) => ({
    hostConfig: { LogConfig: dialect.log(logSize || CONTAINER_FIELDS.logSize.shown) },
  }),
};

/** The body of the Docker API's create call. Pure. */
export function createBody(spec: ContainerSpec, networkName: string, dialect: Dialect): Record<string, unknown> {
  const body: Record<string, unknown> = { Image: spec.image };
  // The agent alone supervises.
  const hostConfig: Record<string, unknown> = { RestartPolicy: { Name: 'no' } };
  for (const field of CONTAINER_FIELD_NAMES) {
    const { engine } = fieldRow(field);
    const part = engine === 'own' ? translate(field as Translated, spec, { networkName, dialect }) : plain(field, spec);
    Object.assign(body, part.body);
    Object.assign(hostConfig, part.hostConfig);
  }
  return { ...body, HostConfig: hostConfig };
}

const translate = (field: Translated, spec: ContainerSpec, context: Context): Part =>
  TRANSLATIONS[field](spec, context);

const HOST_CONFIG = 'HostConfig.';

/** A field that a member of the API takes as it is. What is empty is left out. */
function plain(field: ContainerField, { fields }: ContainerSpec): Part {
  const { engine, unit } = fieldRow(field);
  const value = fields[field];
  if (isAbsent(field, value)) return {};
  // -1 is no amount
  const inUnit = unit && typeof value === 'number' && value > 0 ? Math.round(value * UNITS[unit]) : value;
  return engine.startsWith(HOST_CONFIG)
    ? { hostConfig: { [engine.slice(HOST_CONFIG.length)]: inUnit } }
    : { body: { [engine]: inUnit } };
}

type HealthCheck = NonNullable<ContainerSpec['fields']['healthCheck']>;

function probe({ test, interval, timeout, startPeriod, startInterval, retries }: HealthCheck) {
  if (test.length === 0) return undefined;
  const seconds = (value: number | undefined) => (value ? Math.round(value * SECOND_IN_NS) : undefined);
  return {
    Test: /^(NONE|CMD|CMD-SHELL)$/.test(test[0] ?? '') ? test : ['CMD', ...test],
    Interval: seconds(interval),
    Timeout: seconds(timeout),
    StartPeriod: seconds(startPeriod),
    StartInterval: seconds(startInterval),
    Retries: retries || undefined,
  };
}

function portBindings(ports: ContainerSpec['ports']): Record<string, { HostIp: string; HostPort: string }[]> {
  const bindings: Record<string, { HostIp: string; HostPort: string }[]> = {};
  for (const { internal, external, protocol } of ports) {
    const key = `${internal}/${protocol}`;
    bindings[key] = [...(bindings[key] ?? []), { HostIp: '', HostPort: String(external) }];
  }
  return bindings;
}

function filled<T>(items: T[]): T[] | undefined {
  return items.length > 0 ? items : undefined;
}

/** `host-gateway` is the engine's word for the machine itself. */
function isName(address: string): boolean {
  return isIP(address) === 0 && address !== 'host-gateway';
}

/**
 * How the container is known on the network, and under which further names it knows others there. An extra host that
 * names a microservice follows it to whatever address it has: the engine resolves the name when it is asked.
 */
function endpoint({ aliases, extraHosts }: ContainerSpec, dialect: Dialect) {
  if (!dialect.links) return { Aliases: aliases };
  const links = extraHosts.filter(({ address }) => isName(address)).map(({ name, address }) => `${address}:${name}`);
  return { Aliases: aliases, Links: filled(links) };
}
