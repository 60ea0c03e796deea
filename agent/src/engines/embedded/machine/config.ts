import type { Handler } from './handlers.ts';
import type { ContainerdPlaces } from './places.ts';

/** The first two numbers of a version of containerd. */
export interface ContainerdVersion {
  major: number;
  minor: number;
  /** as it says it itself */
  text: string;
}

export interface ContainerdSettings {
  version: ContainerdVersion;
  places: ContainerdPlaces;
  /** the default one first */
  handlers: readonly Handler[];
  /** the folder of the CNI plugins */
  plugins: string;
  /** whether systemd manages the control groups */
  systemd: boolean;
  /** the name of the image whose program keeps the namespaces of a container */
  pauseImage: string;
}

/** The version that `containerd --version` prints: undefined for a text of another form. */
export function containerdVersionIn(text: string): ContainerdVersion | undefined {
  const [, version = '', major, minor] = /\sv?((\d{1,4})\.(\d{1,4})\.\S{1,64})/.exec(text) ?? [];
  return version === '' ? undefined : { major: Number(major), minor: Number(minor), text: version };
}

/** Whether a containerd knows CDI: containerd 1.7 or newer. */
export const knowsCdi = ({ major, minor }: ContainerdVersion): boolean => major > 1 || minor >= 7;

/** Of other snapshots, traces and folders outside its own: containerd starts without them. */
const UNUSED = [
  'io.containerd.internal.v1.opt',
  'io.containerd.internal.v1.tracing',
  'io.containerd.snapshotter.v1.aufs',
  'io.containerd.snapshotter.v1.blockfile',
  'io.containerd.snapshotter.v1.btrfs',
  'io.containerd.snapshotter.v1.devmapper',
  'io.containerd.snapshotter.v1.erofs',
  'io.containerd.snapshotter.v1.zfs',
  'io.containerd.tracing.processor.v1.otlp',
] as const;

/**
 * The file of settings of a private containerd, in the form of its version: 2 for containerd 1, 3 for containerd 2. Every
 * path that containerd would share with another one by default is set.
 */
export function containerdConfig(settings: ContainerdSettings): string {
  const { version, places } = settings;
  const isNew = version.major >= 2;
  const head = {
    version: isNew ? 3 : 2,
    root: places.root,
    state: places.state,
    disabled_plugins: UNUSED,
    // It would start without, and nothing would work.
    required_plugins: ['io.containerd.grpc.v1.cri'],
  };
  const grpc: Table = [['grpc'], { address: places.socket, uid: 0, gid: 0 }];
  return toml(head, [grpc, ...(isNew ? newTables(settings) : oldTables(settings))]);
}

const oldTables = (settings: ContainerdSettings): Table[] => {
  const { places, pauseImage } = settings;
  const cri = ['plugins', 'io.containerd.grpc.v1.cri'];
  return [
    [cri, { sandbox_image: pauseImage, ...common(settings), ...(knowsCdi(settings.version) && { enable_cdi: true }) }],
    ...runtimeTables(cri, settings),
    [[...cri, 'registry'], { config_path: places.registries }],
  ];
};

const newTables = (settings: ContainerdSettings): Table[] => {
  const { places, pauseImage } = settings;
  const images = ['plugins', 'io.containerd.cri.v1.images'];
  const runtime = ['plugins', 'io.containerd.cri.v1.runtime'];
  return [
    [[...images, 'pinned_images'], { sandbox: pauseImage }],
    [[...images, 'registry'], { config_path: places.registries }],
    [runtime, common(settings)],
    ...runtimeTables(runtime, settings),
    // Its socket and its folders are those of the whole machine.
    [['plugins', 'io.containerd.nri.v1.nri'], { disable: true }],
    [['plugins', 'io.containerd.shim.v1.manager'], { socket_dir: `${places.state}/s` }],
    [['plugins', 'io.containerd.transfer.v1.local'], { config_path: places.registries }],
  ];
};

const common = (_settings: ContainerdSettings) => ({
  // Where the machine is itself a container, a score of the OOM killer cannot be lowered.
  restrict_oom_score_adj: true,
  netns_mounts_under_state_dir: true,
});

const runtimeTables = (
  above: readonly string[],
  { version, places, handlers, plugins, systemd }: ContainerdSettings,
): Table[] => [
  [[...above, 'containerd'], { default_runtime_name: handlers[0]?.name ?? 'runc' }],
  ...handlers.flatMap(({ name, type, program }): Table[] => {
    const table = [...above, 'containerd', 'runtimes', name];
    const options = { BinaryName: program, Root: `${places.state}/runc`, SystemdCgroup: systemd };
    return [
      [table, { runtime_type: type }],
      ...(program === undefined ? [] : [[[...table, 'options'], options] as Table]),
    ];
  }),
  [[...above, 'cni'], { ...pluginFolder(version, plugins), conf_dir: places.networks, max_conf_num: 1 }],
];

/** containerd 2.1 has a list, and 2.4 no longer knows the single folder. */
const pluginFolder = ({ major, minor }: ContainerdVersion, folder: string) =>
  major > 2 || (major === 2 && minor >= 1) ? { bin_dirs: [folder] } : { bin_dir: folder };

type Value = string | number | boolean | readonly string[] | undefined;
type Table = [path: readonly string[], values: Readonly<Record<string, Value>>];

/** TOML, of which strings and lists of strings are written as in JSON. */
function toml(head: Table[1], tables: readonly Table[]): string {
  const lines = (values: Table[1]) =>
    Object.entries(values)
      .map(([key, value]) => `${key} = ${JSON.stringify(value)}\n`)
      .join('');
  const named = tables.map(
    ([path, values]) => `\n[${path.map((each) => JSON.stringify(each)).join('.')}]\n${lines(values)}`,
  );
  return `${lines(head)}${named.join('')}`;
}
