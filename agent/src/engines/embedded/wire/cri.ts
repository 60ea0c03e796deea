import { bytes, flag, integer, list, map, one, text } from './protobuf.ts';

/** Messages of the Container Runtime Interface, version 1, that the agent uses. */

const metadata = { name: text(1), uid: text(2), namespace: text(3), attempt: integer(4) };
const namespaceOptions = { network: integer(1), pid: integer(2), ipc: integer(3) };
const securityProfile = { type: integer(1), reference: text(2) };
const imageSpec = { image: text(1) };

export const sandboxConfig = {
  metadata: one(1, metadata),
  hostname: text(2),
  logDirectory: text(3),
  dns: one(4, { servers: list(1, 'text'), searches: list(2, 'text'), options: list(3, 'text') }),
  ports: list(5, { protocol: integer(1), containerPort: integer(2), hostPort: integer(3), hostAddress: text(4) }),
  labels: map(6, 'text'),
  annotations: map(7, 'text'),
  linux: one(8, {
    cgroupParent: text(1),
    security: one(2, { namespaces: one(1, namespaceOptions), privileged: flag(6), seccomp: one(9, securityProfile) }),
    sysctls: map(3, 'text'),
  }),
};

export const containerConfig = {
  metadata: one(1, { name: text(1), attempt: integer(2) }),
  image: one(2, imageSpec),
  command: list(3, 'text'),
  args: list(4, 'text'),
  workingDir: text(5),
  env: list(6, { key: text(1), value: bytes(2) }),
  mounts: list(7, {
    target: text(1),
    source: text(2),
    readOnly: flag(3),
    relabel: flag(4),
    propagation: integer(5),
  }),
  devices: list(8, { target: text(1), source: text(2), permissions: text(3) }),
  labels: map(9, 'text'),
  annotations: map(10, 'text'),
  logPath: text(11),
  linux: one(15, {
    resources: one(1, {
      cpuPeriod: integer(1),
      cpuQuota: integer(2),
      memoryLimit: integer(4),
      cpus: text(6),
      memoryAndSwap: integer(10),
    }),
    security: one(2, {
      capabilities: one(1, { add: list(1, 'text'), drop: list(2, 'text') }),
      privileged: flag(2),
      namespaces: one(3, namespaceOptions),
      user: text(6),
      readOnlyRoot: flag(7),
      seccomp: one(15, securityProfile),
    }),
  }),
  cdiDevices: list(17, { name: text(1) }),
};

const method = <Q, A>(service: 'Runtime' | 'Image', name: string, request: Q, answer: A) => ({
  path: `/runtime.v1.${service}Service/${name}`,
  request,
  answer,
});

const sandboxId = { sandboxId: text(1) };
const containerId = { containerId: text(1) };

export const CRI = {
  status: method(
    'Runtime',
    'Status',
    { verbose: flag(1) },
    {
      status: one(1, { conditions: list(1, { type: text(1), status: flag(2), reason: text(3), message: text(4) }) }),
      info: map(2, 'text'),
    },
  ),
  runSandbox: method('Runtime', 'RunPodSandbox', { config: one(1, sandboxConfig), handler: text(2) }, sandboxId),
  stopSandbox: method('Runtime', 'StopPodSandbox', sandboxId, {}),
  removeSandbox: method('Runtime', 'RemovePodSandbox', sandboxId, {}),
  sandboxStatus: method('Runtime', 'PodSandboxStatus', sandboxId, {
    status: one(1, { id: text(1), state: integer(3), network: one(5, { ip: text(1) }) }),
  }),
  listSandboxes: method(
    'Runtime',
    'ListPodSandbox',
    { filter: one(1, { labels: map(3, 'text') }) },
    {
      items: list(1, { id: text(1), state: integer(3), labels: map(5, 'text') }),
    },
  ),
  createContainer: method(
    'Runtime',
    'CreateContainer',
    { sandboxId: text(1), config: one(2, containerConfig), sandboxConfig: one(3, sandboxConfig) },
    containerId,
  ),
  startContainer: method('Runtime', 'StartContainer', containerId, {}),
  stopContainer: method('Runtime', 'StopContainer', { containerId: text(1), timeout: integer(2) }, {}),
  listContainers: method(
    'Runtime',
    'ListContainers',
    {},
    {
      containers: list(1, { id: text(1), sandboxId: text(2), state: integer(6) }),
    },
  ),
  containerStatus: method('Runtime', 'ContainerStatus', containerId, {
    status: one(1, {
      id: text(1),
      state: integer(3),
      /** nanoseconds, as all times here */
      createdAt: integer(4),
      startedAt: integer(5),
      finishedAt: integer(6),
      exitCode: integer(7),
      reason: text(10),
      message: text(11),
    }),
  }),
  execSync: method(
    'Runtime',
    'ExecSync',
    { containerId: text(1), command: list(2, 'text'), timeout: integer(3) },
    { stdout: bytes(1), stderr: bytes(2), exitCode: integer(3) },
  ),
  reopenLog: method('Runtime', 'ReopenContainerLog', containerId, {}),
  pullImage: method(
    'Image',
    'PullImage',
    {
      image: one(1, imageSpec),
      auth: one(2, { username: text(1), password: text(2), serverAddress: text(4) }),
    },
    { reference: text(1) },
  ),
  imageStatus: method('Image', 'ImageStatus', { image: one(1, imageSpec) }, { image: one(1, { id: text(1) }) }),
} as const;

export const SANDBOX_READY = 0;
export const CONTAINER_STATES = { created: 0, running: 1, exited: 2, unknown: 3 } as const;
/** Whose namespace it is: of all containers of the sandbox, of the container alone, of the machine. */
export const NAMESPACES = { sandbox: 0, container: 1, machine: 2 } as const;
