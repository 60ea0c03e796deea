import { bytesField, flagField, integerField, listField, map, one, textField } from './protobuf.ts';

/** Messages of containerd's own services that the agent uses. */

const any = { type: textField(1), value: bytesField(2) };
const timestamp = { seconds: integerField(1), nanos: integerField(2) };
const mask = { paths: listField(1, 'text') };
const descriptor = { mediaType: textField(1), digest: textField(2), size: integerField(3) };

const container = {
  id: textField(1),
  labels: map(2, 'text'),
  image: textField(3),
  runtime: one(4, { name: textField(1) }),
  spec: one(5, any),
  createdAt: one(8, timestamp),
  extensions: map(10, any),
};
const process = { containerId: textField(1), id: textField(2), pid: integerField(3), status: integerField(4) };
const image = { name: textField(1), labels: map(2, 'text'), target: one(3, descriptor), createdAt: one(7, timestamp) };
const ofProcess = { containerId: textField(1), execId: textField(2) };

const method = <Q, A>(service: string, name: string, request: Q, answer: A) => ({
  path: `/containerd.services.${service}/${name}`,
  request,
  answer,
});

const id = { id: textField(1) };
const filters = { filters: listField(1, 'text') };
const withContainer = { container: one(1, container) };
const withImage = { image: one(1, image) };
const withBoth = { container: one(1, container), mask: one(2, mask) };

export const CONTAINERD = {
  version: method('version.v1.Version', 'Version', {}, { version: textField(1) }),
  getContainer: method('containers.v1.Containers', 'Get', id, withContainer),
  listContainers: method('containers.v1.Containers', 'List', filters, { containers: listField(1, container) }),
  createContainer: method('containers.v1.Containers', 'Create', withContainer, withContainer),
  updateContainer: method('containers.v1.Containers', 'Update', withBoth, withContainer),
  deleteContainer: method('containers.v1.Containers', 'Delete', id, {}),
  listTasks: method('tasks.v1.Tasks', 'List', {}, { tasks: listField(1, process) }),
  getProcess: method('tasks.v1.Tasks', 'Get', ofProcess, { process: one(1, process) }),
  kill: method('tasks.v1.Tasks', 'Kill', { ...ofProcess, signal: integerField(3), all: flagField(4) }, {}),
  exec: method(
    'tasks.v1.Tasks',
    'Exec',
    {
      containerId: textField(1),
      stdin: textField(2),
      stdout: textField(3),
      stderr: textField(4),
      terminal: flagField(5),
      spec: one(6, any),
      execId: textField(7),
    },
    {},
  ),
  startProcess: method('tasks.v1.Tasks', 'Start', ofProcess, { pid: integerField(1) }),
  wait: method('tasks.v1.Tasks', 'Wait', ofProcess, { exitStatus: integerField(1) }),
  deleteProcess: method('tasks.v1.Tasks', 'DeleteProcess', ofProcess, {}),
  resize: method('tasks.v1.Tasks', 'ResizePty', { ...ofProcess, width: integerField(3), height: integerField(4) }, {}),
  closeIo: method('tasks.v1.Tasks', 'CloseIO', { ...ofProcess, stdin: flagField(3) }, {}),
  pause: method('tasks.v1.Tasks', 'Pause', { containerId: textField(1) }, {}),
  resume: method('tasks.v1.Tasks', 'Resume', { containerId: textField(1) }, {}),
  listImages: method('images.v1.Images', 'List', filters, { images: listField(1, image) }),
  getImage: method('images.v1.Images', 'Get', { name: textField(1) }, withImage),
  createImage: method('images.v1.Images', 'Create', withImage, withImage),
  updateImage: method('images.v1.Images', 'Update', { image: one(1, image), mask: one(2, mask) }, withImage),
  deleteImage: method('images.v1.Images', 'Delete', { name: textField(1), sync: flagField(2) }, {}),
  readContent: method(
    'content.v1.Content',
    'Read',
    { digest: textField(1), offset: integerField(2), size: integerField(3) },
    { data: bytesField(2) },
  ),
  labelContent: method(
    'content.v1.Content',
    'Update',
    { info: one(1, { digest: textField(1), labels: map(5, 'text') }), mask: one(2, mask) },
    {},
  ),
  /** of content that is being written */
  contentStatuses: method('content.v1.Content', 'ListStatuses', filters, {
    statuses: listField(1, { ref: textField(3), offset: integerField(4), total: integerField(5) }),
  }),
  writeContent: method(
    'content.v1.Content',
    'Write',
    {
      action: integerField(1),
      ref: textField(2),
      total: integerField(3),
      expected: textField(4),
      offset: integerField(5),
      data: bytesField(6),
      labels: map(7, 'text'),
    },
    { action: integerField(1), digest: textField(6) },
  ),
  snapshotUsage: method(
    'snapshots.v1.Snapshots',
    'Usage',
    { snapshotter: textField(1), key: textField(2) },
    {
      size: integerField(1),
    },
  ),
  listSnapshots: method(
    'snapshots.v1.Snapshots',
    'List',
    { snapshotter: textField(1) },
    { snapshots: listField(1, { name: textField(1), parent: textField(2), kind: integerField(3) }) },
  ),
  removeSnapshot: method('snapshots.v1.Snapshots', 'Remove', { snapshotter: textField(1), key: textField(2) }, {}),
  createLease: method('leases.v1.Leases', 'Create', { id: textField(1), labels: map(3, 'text') }, {}),
  deleteLease: method('leases.v1.Leases', 'Delete', { id: textField(1), sync: flagField(2) }, {}),
  publish: method('events.v1.Events', 'Publish', { topic: textField(1), event: one(2, any) }, {}),
  subscribe: method('events.v1.Events', 'Subscribe', filters, {
    namespace: textField(2),
    topic: textField(3),
    event: one(4, any),
  }),
} as const;

export const TASK_STATES = { created: 1, running: 2, stopped: 3, paused: 4, pausing: 5 } as const;
export const SNAPSHOT_KINDS = { view: 1, active: 2, committed: 3 } as const;
export const WRITE_ACTIONS = { write: 1, commit: 2 } as const;

/** What an event says: the container that it is about. */
export const containerEvent = { containerId: textField(1) };
/** The end of a process: of the container when the program is the container itself. */
export const exitEvent = { containerId: textField(1), program: textField(2) };
