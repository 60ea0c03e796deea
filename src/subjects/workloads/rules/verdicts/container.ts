import { BOUNDS } from '../../../../api/bounds.ts';
import { RESERVED_ENV_PREFIX, RESERVED_LABEL_PREFIX } from '../../../../api/names.ts';
import type { Verdict } from '../../../../rules/verdict.ts';
import { notRendered } from '../templates/pending.ts';
import type { VerdictInput } from './rule.ts';

/** An entry with a template runs with what the template adds, or not at all. */
export const templateIsRendered = ({ application, entry }: VerdictInput): Verdict | undefined =>
  notRendered(application, entry.name, entry.template);

export function annotationsAreAllowed({ entry }: VerdictInput): Verdict | undefined {
  const reserved = Object.keys(entry.container.annotations ?? {})
    .sort()
    .find((key) => key.startsWith(RESERVED_LABEL_PREFIX));
  if (reserved === undefined) return undefined;
  return {
    reason: 'ReservedAnnotation',
    status: 400,
    code: 'RESERVED_ANNOTATION',
    field: 'container.annotations',
    message: `the annotation "${reserved}" is refused: the prefix ${RESERVED_LABEL_PREFIX} is reserved`,
  };
}

export function envIsAllowed({ entry }: VerdictInput): Verdict | undefined {
  const reserved = (entry.container.env ?? []).find(({ key }) => key.startsWith(RESERVED_ENV_PREFIX));
  if (!reserved) return undefined;
  return {
    reason: 'ReservedEnv',
    status: 400,
    code: 'RESERVED_ENV',
    field: 'container.env',
    message: `the env variable "${reserved.key}" is refused: the prefix ${RESERVED_ENV_PREFIX} is reserved`,
  };
}

export function configIsSmall({ entry }: VerdictInput): Verdict | undefined {
  // The canonical text has the same length.
  const size = entry.config === undefined ? 0 : Buffer.byteLength(JSON.stringify(entry.config));
  if (size <= BOUNDS.configBytes) return undefined;
  return {
    reason: 'ConfigTooLarge',
    status: 400,
    code: 'CONFIG_TOO_LARGE',
    field: 'config',
    message: `config has ${size} bytes as JSON text; at most ${BOUNDS.configBytes} are allowed`,
  };
}

const VOLUME_NAME = /^[a-zA-Z0-9][a-zA-Z0-9_.-]*$/;
const ABSOLUTE = /^(\/|[A-Za-z]:[\\/])/;

export function volumesAreValid({ application, entry }: VerdictInput): Verdict | undefined {
  const refuse = (message: string): Verdict => ({
    reason: 'VolumeInvalid',
    status: 400,
    code: 'INVALID_VOLUME_MAPPING',
    field: 'container.volumes',
    message,
  });
  for (const { type = 'bind', hostDestination, containerDestination, scope } of entry.container.volumes ?? []) {
    if (type === 'volume' && scope === 'shared' && application.spec.isSystem)
      return refuse(`the volume "${hostDestination}" cannot be shared: microservices of the system share none`);
    if (/^\/+$/.test(containerDestination)) return refuse('a volume cannot be mounted on / of the container');
    if (type === 'volume' && !VOLUME_NAME.test(hostDestination))
      return refuse(`the volume name "${hostDestination}" must match ${VOLUME_NAME.source}`);
    if (type === 'bind' && !ABSOLUTE.test(hostDestination))
      return refuse(`the bind path "${hostDestination}" must be absolute; for a volume of that name, set type: volume`);
  }
  return undefined;
}
