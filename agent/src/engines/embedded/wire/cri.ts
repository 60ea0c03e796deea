import { bytesField, flagField, integerField, listField, map, one, textField } from './protobuf.ts';

/** Messages of the Container Runtime Interface, version 1, that the agent uses. */

const metadata = { name: textField(1), uid: textField(2), namespace: textField(3), attempt: integerField(4) };
const namespaceOptions = { network: integerField(1), pid: integerField(2), ipc: integerField(3) };
const securityProfile = { type: integerField(1), reference: textField(2) };
const imageSpec = { image: textField(1) };

export const sandboxConfig = {
  metadata: one(1, metadata),
  hostname: textField(2),
  logDirectory: textField(3),
  dns: one(4, { servers: listField(1, 'text'), searches: listField(2, 'text'), options: listField(3, 'text') }),
  ports: listField(5, {
    protocol: integerField(1),
    containerPort: integerField(2),
    hostPort: integerField(3),
    hostAddress: textField(4),
  }),
  labels: map(6, 'text'),
  annotations: map(7, 'text'),
  linux: one(8, {
    cgroupParent: textField(1),
    security: one(2, {
      namespaces: one(1, namespaceOptions),
      privileged: flagField(6),
      seccomp: one(9, securityProfile),
    }),
    sysctls: map(3, 'text'),
  }),
};

export const containerConfig = {
  metadata: one(1, { name: textField(1), attempt: integerField(2) }),
  image: one(2, imageSpec),
  command: listField(3, 'text'),
  args: listField(4, 'text'),
  workingDir: textField(5),
  env: listField(6, { key: textField(1), value: bytesField(2) }),
  mounts: listField(7, {
    target: textField(1),
    source: textField(2),
    readOnly: flagField(3),
    relabel: flagField(4),
    propagation: integerField(5),
  }),
  devices: listField(8, { target: textField(1), source: textField(2), permissions: textField(3) }),
  labels: map(9, 'text'),
  annotations: map(10, 'text'),
  logPath: textField(11),
  linux: one(15, {
    resources: one(1, {
      cpuPeriod: integerField(1),
      cpuQuota: integerField(2),
      memoryLimit: integerField(4),
      cpus: textField(6),
      memoryAndSwap: integerField(10),
    }),
    security: one(2, {
      capabilities: one(1, { add: listField(1, 'text'), drop: listField(2, 'text') }),
      privileged: flagField(2),
      namespaces: one(3, namespaceOptions),
      user: textField(6),
      readOnlyRoot: flagField(7),
      seccomp: one(15, securityProfile),
    }),
  }),
  cdiDevices: listField(17, { name: textField(1) }),
};

const method = <Q, A>(service: 'Runtime' | 'Image', name: string, request: Q, answer: A) => ({
  path: `/runtime.v1.${service}Service/${name}`,
  request,
  answer,
});

const sandboxId = { sandboxId: textField(1) };
const containerId = { containerId: textField(1) };

export const CRI = {
  status: method(
    'Runtime',
    'Status',
    { verbose: flagField(1) },
    {
      status: one(1, {
        conditions: listField(1, {
          type: textField(1),
          status: flagField(2),
          reason: textField(3),
          message: textField(4),
        }),
      }),
      info: map(2, 'text'),
    },
  ),
  runSandbox: method('Runtime', 'RunPodSandbox', { config: one(1, sandboxConfig), handler: textField(2) }, sandboxId),
  stopSandbox: method('Runtime', 'StopPodSandbox', sandboxId, {}),
  removeSandbox: method('Runtime', 'RemovePodSandbox', sandboxId, {}),
  sandboxStatus: method('Runtime', 'PodSandboxStatus', sandboxId, {
    status: one(1, { id: textField(1), state: integerField(3), network: one(5, { ip: textField(1) }) }),
  }),
  listSandboxes: method(
    'Runtime',
    'ListPodSandbox',
    { filter: one(1, { labels: map(3, 'text') }) },
    {
      items: listField(1, { id: textField(1), state: integerField(3), labels: map(5, 'text') }),
    },
  ),
  createContainer: method(
    'Runtime',
    'CreateContainer',
    { sandboxId: textField(1), config: one(2, containerConfig), sandboxConfig: one(3, sandboxConfig) },
    containerId,
  ),
  startContainer: method('Runtime', 'StartContainer', containerId, {}),
  stopContainer: method('Runtime', 'StopContainer', { containerId: textField(1), timeout: integerField(2) }, {}),
  listContainers: method(
    'Runtime',
    'ListContainers',
    {},
    {
      containers: listField(1, { id: textField(1), sandboxId: textField(2), state: integerField(6) }),
    },
  ),
  containerStatus: method('Runtime', 'ContainerStatus', containerId, {
    status: one(1, {
      id: textField(1),
      state: integerField(3),
      /** nanoseconds, as all times here */
      createdAt: integerField(4),
      startedAt: integerField(5),
      finishedAt: integerField(6),
      exitCode: integerField(7),
      reason: textField(10),
      message: textField(11),
    }),
  }),
  execSync: method(
    'Runtime',
    'ExecSync',
    { containerId: textField(1), command: listField(2, 'text'), timeout: integerField(3) },
    { stdout: bytesField(1), stderr: bytesField(2), exitCode: integerField(3) },
  ),
  reopenLog: method('Runtime', 'ReopenContainerLog', containerId, {}),
  pullImage: method(
    'Image',
    'PullImage',
    {
      image: one(1, imageSpec),
      auth: one(2, { username: textField(1), password: textField(2), serverAddress: textField(4) }),
    },
    { reference: textField(1) },
  ),
  imageStatus: method('Image', 'ImageStatus', { image: one(1, imageSpec) }, { image: one(1, { id: textField(1) }) }),
} as const;

export const CONTAINER_STATES = { created: 0, running: 1, exited: 2, unknown: 3 } as const;
/** Whose namespace it is: of all containers of the sandbox, of the container alone, of the machine. */
export const NAMESPACES = { sandbox: 0, container: 1, machine: 2 } as const;
