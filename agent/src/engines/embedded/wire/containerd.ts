import { bytes, flag, integer, list, map, one, text } from './protobuf.ts';

/** Messages of containerd's own services that the agent uses. */

const any = { type: text(1), value: bytes(2) };
const timestamp = { seconds: integer(1), nanos: integer(2) };
const mask = { paths: list(1, 'text') };
const descriptor = { mediaType: text(1), digest: text(2), size: integer(3) };

const container = {
  id: text(1),
  labels: map(2, 'text'),
  image: text(3),
  runtime: one(4, { name: text(1) }),
  spec: one(5, any),
  createdAt: one(8, timestamp),
  extensions: map(10, any),
};
const process = { containerId: text(1), id: text(2), pid: integer(3), status: integer(4) };
const image = { name: text(1), labels: map(2, 'text'), target: one(3, descriptor), createdAt: one(7, timestamp) };
const ofProcess = { containerId: text(1), execId: text(2) };

const method = <Q, A>(service: string, name: string, request: Q, answer: A) => ({
  path: `/containerd.services.${service}/${name}`,
  request,
  answer,
});

const id = { id: text(1) };
const filters = { filters: list(1, 'text') };
const withContainer = { container: one(1, container) };
const withImage = { image: one(1, image) };
const withBoth = { container: one(1, container), mask: one(2, mask) };

export const CONTAINERD = {
  version: method('version.v1.Version', 'Version', {}, { version: text(1) }),
  getContainer: method('containers.v1.Containers', 'Get', id, withContainer),
  listContainers: method('containers.v1.Containers', 'List', filters, { containers: list(1, container) }),
  createContainer: method('containers.v1.Containers', 'Create', withContainer, withContainer),
  updateContainer: method('containers.v1.Containers', 'Update', withBoth, withContainer),
  deleteContainer: method('containers.v1.Containers', 'Delete', id, {}),
  listTasks: method('tasks.v1.Tasks', 'List', {}, { tasks: list(1, process) }),
  getProcess: method('tasks.v1.Tasks', 'Get', ofProcess, { process: one(1, process) }),
  kill: method('tasks.v1.Tasks', 'Kill', { ...ofProcess, signal: integer(3), all: flag(4) }, {}),
  exec: method(
    'tasks.v1.Tasks',
    'Exec',
    {
      containerId: text(1),
      stdin: text(2),
      stdout: text(3),
      stderr: text(4),
      terminal: flag(5),
      spec: one(6, any),
      execId: text(7),
    },
    {},
  ),
  startProcess: method('tasks.v1.Tasks', 'Start', ofProcess, { pid: integer(1) }),
  wait: method('tasks.v1.Tasks', 'Wait', ofProcess, { exitStatus: integer(1) }),
  deleteProcess: method('tasks.v1.Tasks', 'DeleteProcess', ofProcess, {}),
  resize: method('tasks.v1.Tasks', 'ResizePty', { ...ofProcess, width: integer(3), height: integer(4) }, {}),
  closeIo: method('tasks.v1.Tasks', 'CloseIO', { ...ofProcess, stdin: flag(3) }, {}),
  pause: method('tasks.v1.Tasks', 'Pause', { containerId: text(1) }, {}),
  resume: method('tasks.v1.Tasks', 'Resume', { containerId: text(1) }, {}),
  listImages: method('images.v1.Images', 'List', filters, { images: list(1, image) }),
  getImage: method('images.v1.Images', 'Get', { name: text(1) }, withImage),
  createImage: method('images.v1.Images', 'Create', withImage, withImage),
  updateImage: method('images.v1.Images', 'Update', { image: one(1, image), mask: one(2, mask) }, withImage),
  deleteImage: method('images.v1.Images', 'Delete', { name: text(1), sync: flag(2) }, {}),
  readContent: method(
    'content.v1.Content',
    'Read',
    { digest: text(1), offset: integer(2), size: integer(3) },
    { data: bytes(2) },
  ),
  labelContent: method(
    'content.v1.Content',
    'Update',
    { info: one(1, { digest: text(1), labels: map(5, 'text') }), mask: one(2, mask) },
    {},
  ),
  /** of content that is being written */
  contentStatuses: method('content.v1.Content', 'ListStatuses', filters, {
    statuses: list(1, { ref: text(3), offset: integer(4), total: integer(5) }),
  }),
  writeContent: method(
    'content.v1.Content',
    'Write',
    {
      action: integer(1),
      ref: text(2),
      total: integer(3),
      expected: text(4),
      offset: integer(5),
      data: bytes(6),
      labels: map(7, 'text'),
    },
    { action: integer(1), digest: text(6) },
  ),
  snapshotUsage: method(
    'snapshots.v1.Snapshots',
    'Usage',
    { snapshotter: text(1), key: text(2) },
    {
      size: integer(1),
    },
  ),
  createLease: method('leases.v1.Leases', 'Create', { id: text(1), labels: map(3, 'text') }, {}),
  deleteLease: method('leases.v1.Leases', 'Delete', { id: text(1), sync: flag(2) }, {}),
  publish: method('events.v1.Events', 'Publish', { topic: text(1), event: one(2, any) }, {}),
  subscribe: method('events.v1.Events', 'Subscribe', filters, {
    namespace: text(2),
    topic: text(3),
    event: one(4, any),
  }),
} as const;

export const TASK_STATES = { created: 1, running: 2, stopped: 3, paused: 4, pausing: 5 } as const;
export const WRITE_ACTIONS = { write: 1, commit: 2 } as const;

/** What an event says: the container that it is about. */
export const containerEvent = { containerId: text(1) };
/** The end of a process: of the container when the program is the container itself. */
export const exitEvent = { containerId: text(1), program: text(2) };
