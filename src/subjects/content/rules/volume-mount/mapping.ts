import type { MicroserviceEntry } from '../../../../api/v3/index.ts';
import type { Lookups } from '../../../../rules/inputs.ts';
import type { Verdict } from '../../../../rules/verdict.ts';
import { SYSTEM_FILES_PREFIX } from '../../../../wire/system-files.ts';
import { keyProblem } from '../../../../wire/volume-mounts.ts';
import { hasKey, identifyContent } from '../core-objects/content.ts';
import { contentSource, mountSourceOf, volumeMountVerdict } from './volume-mount.ts';

type Volume = NonNullable<NonNullable<MicroserviceEntry['container']>['volumes']>[number];

/** `<mount>`, `<mount>/<key>` or `<mount>/<beginning of keys>`: the name ends at the first slash. */
function parseMapping(hostDestination: string): { name: string; key?: string } {
  const slash = hostDestination.indexOf('/');
  return slash < 0
    ? { name: hostDestination }
    : { name: hostDestination.slice(0, slash), key: hostDestination.slice(slash + 1) };
}

/** Names of the volume mounts of an entry. */
export const volumeMountsOf = ({ container }: Pick<MicroserviceEntry, 'container'>): string[] =>
  (container?.volumes ?? []).flatMap(({ type, hostDestination }) =>
    type === 'volumeMount' ? [parseMapping(hostDestination).name] : [],
  );

/** Why a mapping of type volumeMount cannot be carried out. */
export function mappingVerdict({ hostDestination }: Pick<Volume, 'hostDestination'>, lookups: Lookups) {
  const field = 'container.volumes';
  const refuse = (verdict: Pick<Verdict, 'reason' | 'status' | 'code' | 'message'>): Verdict => ({ ...verdict, field });
  const { name, key } = parseMapping(hostDestination);
  const wrong = key === undefined ? undefined : keyProblem(key);
  if (name === '' || wrong !== undefined)
    return refuse({
      reason: 'VolumeInvalid',
      status: 400,
      code: 'INVALID_VOLUME_MOUNT_REFERENCE_FOR_VOLUME_MAPPING',
      message: `"${hostDestination}" must be <volume mount>[/<key>]: ${wrong === undefined ? 'it has no name' : `the key ${wrong}`}`,
    });
  const isOfSystem = name.startsWith(SYSTEM_FILES_PREFIX);
  const mount = isOfSystem ? undefined : lookups.find('volumeMounts', name);
  if (!mount) {
    const why = `: a name that begins with "${SYSTEM_FILES_PREFIX}" is of files that the system alone mounts`;
    return refuse({
      reason: 'VolumeMountNotFound',
      status: 404,
      code: 'VOLUME_MOUNT_NOT_FOUND',
      message: `no volume mount "${name}"${isOfSystem ? why : ''}`,
    });
  }
  const source = contentSource(mount, lookups);
  const missing = volumeMountVerdict(mount, source);
  if (missing) return refuse({ ...missing, message: `volume mount ${name}: ${missing.message}` });
  if (key === undefined || !source || hasKey(source, key)) return undefined;
  if (Object.keys({ ...source.data, ...source.base64 }).some((one) => one.startsWith(`${key}/`))) return undefined;
  const { type, name: of } = mountSourceOf(mount);
  return refuse({
    reason: 'VolumeMountKeyNotFound',
    status: 400,
    code: type === 'secret' ? 'SECRET_KEY_NOT_FOUND_IN_VOLUME_MOUNT' : 'CONFIGMAP_KEY_NOT_FOUND_IN_VOLUME_MOUNT',
    message: `volume mount ${name}: the ${type === 'secret' ? 'Secret' : 'ConfigMap'} "${of}" has no key "${key}", and none below it`,
  });
}

/**
 * Names the content of the one key that a mapping mounts: its container is replaced when it changes. Undefined for
 * directories, which change in place.
 */
export function mappedContent({ hostDestination }: Pick<Volume, 'hostDestination'>, lookups: Lookups) {
  const { name, key } = parseMapping(hostDestination);
  const mount = key === undefined ? undefined : lookups.find('volumeMounts', name);
  const source = mount && contentSource(mount, lookups);
  return source && key !== undefined && hasKey(source, key) ? identifyContent(source, key) : undefined;
}
