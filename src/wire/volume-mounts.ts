import { z } from 'zod';
import { BOUNDS } from '../api/bounds.ts';

/**
 * A volume mount with the content of its Secret or ConfigMap (docs/spec/agent-channel.md#volume-mounts). The list that a
 * node gets is complete: the agent removes what it does not name.
 */
export const volumeMountViewSchema = z.object({
  uuid: z.string().max(64),
  name: z.string().max(BOUNDS.anyName),
  /** counts the changes of the volume mount and of its content */
  version: z.number().int().min(0),
  type: z.enum(['secret', 'configMap']),
  /** base64 by key; a key with slashes is a path below the mount */
  data: z.record(z.string().max(BOUNDS.path), z.string()).default({}),
  /** ours: the Secret or ConfigMap does not exist now; the agent keeps the content that it has */
  sourceMissing: z.boolean().default(false),
});
export type VolumeMountView = z.infer<typeof volumeMountViewSchema>;

const CONTROL = /\p{Cc}/u;
const BASE64 = /^[A-Za-z0-9+/]*={0,2}$/;
/** Bytes that a file system allows for one name. */
const NAME_BYTES = 255;

/**
 * Why the content of a volume mount cannot become files, in one sentence that names the key, or undefined. A key is a path
 * below the mount and never leads out of it; names that begin with two dots belong to the agent.
 */
export function volumeMountProblem(data: Readonly<Record<string, string>>): string | undefined {
  const keys = Object.keys(data);
  const wrong = keys.find((key) => !BASE64.test(data[key] ?? ''));
  const isNone = wrong === undefined ? undefined : `the value of key ${JSON.stringify(wrong)} is not base64`;
  return pathsProblem(keys, 'key') ?? isNone;
}

/** Why paths cannot be files of one directory, in one sentence that names the path, which people call `noun`; or undefined. */
export function pathsProblem(paths: readonly string[], noun: string): string | undefined {
  const all = new Set(paths);
  for (const path of all) {
    const wrong = keyProblem(path) ?? parentProblem(path, all, noun);
    if (wrong) return `${noun} ${JSON.stringify(path.slice(0, NAME_BYTES))} ${wrong}`;
  }
  return undefined;
}

/** Why a key of a volume mount is no path below it, as text to follow the key; undefined when it is one. */
export function keyProblem(key: string): string | undefined {
  if (key.startsWith('/')) return 'is absolute; it has to be a path below the mount';
  if (CONTROL.test(key)) return 'has a control character';
  const segments = key.split('/');
  if (segments.includes('')) return 'has an empty name in it';
  if (segments.includes('.') || segments.includes('..'))
    return 'has . or .. in it; it has to be a path below the mount';
  if (key.startsWith('..')) return 'begins with two dots; such names are kept for the agent';
  if (segments.some((segment) => Buffer.byteLength(segment) > NAME_BYTES)) return `has a name over ${NAME_BYTES} bytes`;
  return undefined;
}

/** One name cannot be a file and a directory. */
function parentProblem(key: string, keys: ReadonlySet<string>, noun: string): string | undefined {
  for (let slash = key.indexOf('/'); slash > 0; slash = key.indexOf('/', slash + 1))
    if (keys.has(key.slice(0, slash)))
      return `lies below ${JSON.stringify(key.slice(0, slash))}, which is a ${noun} too`;
  return undefined;
}
