/** A runtime that containers may ask for by its name. */
export interface Handler {
  name: string;
  /** the name by which containerd finds the shim */
  type: string;
  /** absolute path of the program that the shim of runc starts */
  program?: string;
}

/** Programs with the command line of runc, by the name of the runtime; the first that is there is the default. */
const LIKE_RUNC: readonly (readonly [name: string, program: string])[] = [
  ['runc', 'runc'],
  ['crun', 'crun'],
  ['youki', 'youki'],
  ['nvidia', 'nvidia-container-runtime'],
];
const RUNC_SHIM = 'io.containerd.runc.v2';
const SHIM = /^containerd-shim-([a-z0-9]{1,40})-v([1-9])$/;

/** The runtimes that the programs of a machine make possible, the default one first. `programs` are absolute paths. */
export function handlersFrom(programs: readonly string[]): Handler[] {
  const nameOf = (path: string) => path.slice(path.lastIndexOf('/') + 1);
  const handlers = LIKE_RUNC.flatMap(([name, program]) => {
    const path = programs.find((each) => nameOf(each) === program);
    return path === undefined ? [] : [{ name, type: RUNC_SHIM, program: path }];
  });
  const taken = new Set(LIKE_RUNC.map(([name]) => name));
  const shims = [...new Set(programs.map(nameOf))].sort().flatMap((file) => {
    const [, name = '', version = ''] = SHIM.exec(file) ?? [];
    return name === '' || taken.has(name) ? [] : [{ name, type: `io.containerd.${name}.v${version}` }];
  });
  // A shim with several versions: the newest.
  return [...handlers, ...shims.filter(({ name }, at) => shims[at + 1]?.name !== name)];
}
