import { hash } from 'node:crypto';
import { LABELS } from '../../../../api/names.ts';
import type { VolumeMount } from '../../../../api/v3/index.ts';
import type { KeyedText, Lookups } from '../../../../rules/inputs.ts';
import type { Verdict } from '../../../../rules/verdict.ts';
import { identifyContent, problemOf } from '../core-objects/content.ts';

/** The Secret or ConfigMap of a volume mount. */
export interface MountSource {
  /** as agents know it */
  type: 'secret' | 'configMap';
  /** key of its kind */
  kind: 'secrets' | 'configMaps';
  name: string;
}

export const mountSourceOf = ({ spec: { secretName, configMapName } }: Pick<VolumeMount, 'spec'>): MountSource =>
  secretName !== undefined
    ? { type: 'secret', kind: 'secrets', name: secretName }
    : { type: 'configMap', kind: 'configMaps', name: configMapName ?? '' };

type FindSource = Pick<Lookups, 'secret' | 'configMap'>;

export const contentSource = (mount: VolumeMount, lookups: FindSource): KeyedText | undefined => {
  const { type, name } = mountSourceOf(mount);
  return lookups[type](name);
};

/** Names the source and its content, for the count of changes. */
export function contentName(mount: VolumeMount, source: KeyedText): string {
  const { type, name } = mountSourceOf(mount);
  return `${hash('sha256', `${type}/${name}`).slice(0, 16)}-${identifyContent(source)}`;
}

/**
 * How often a volume mount or its content has changed, from 1. The status counts; a change that it has not counted yet
 * counts at once, so that no node receives new content under an old version number. A missing source changes nothing.
 */
export function mountVersion(mount: VolumeMount, source: KeyedText | undefined): number {
  const { version, content } = mount.status ?? {};
  if (version === undefined) return 1;
  return source && content !== undefined && content !== contentName(mount, source) ? version + 1 : version;
}

/** What the status of a volume mount counts. */
export function countedVersion(mount: VolumeMount, source: KeyedText | undefined) {
  const content = source ? contentName(mount, source) : mount.status?.content;
  return { version: mountVersion(mount, source), ...(content !== undefined && { content }) };
}

const MISSING = {
  secret: { kind: 'Secret', reason: 'SecretNotFound', code: 'SECRET_NOT_FOUND', field: 'secretName' },
  configMap: { kind: 'ConfigMap', reason: 'ConfigMapNotFound', code: 'CONFIGMAP_NOT_FOUND', field: 'configMapName' },
} as const;

/** Why a volume mount has no files, by its source. */
export function volumeMountVerdict(mount: VolumeMount, source: KeyedText | undefined): Verdict | undefined {
  const { type, name } = mountSourceOf(mount);
  const { kind, field, ...missing } = MISSING[type];
  if (!source)
    return {
      ...missing,
      status: 404,
      field,
      message: `${field}: no ${kind} "${name}" with the label ${LABELS.shareable}=true`,
    };
  const problem = problemOf(source);
  if (problem === '') return undefined;
  return {
    reason: 'VolumeMountInvalid',
    status: 400,
    code: 'VOLUME_MOUNT_INVALID',
    field,
    message: `${field}: the ${kind} "${name}" cannot become files: ${problem}`,
  };
}
