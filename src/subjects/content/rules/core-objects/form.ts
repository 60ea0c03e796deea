import type { ObjectMeta } from '../../../../api/meta.ts';
import { ANNOTATIONS, LABELS, SYSTEM_SECRET_PREFIXES } from '../../../../api/names.ts';
import type { ConfigMap, Secret } from '../../../../api/resources.ts';
import type { KeyedText } from '../../../../rules/inputs.ts';
import { objectName } from '../../../../rules/names.ts';
import { base64OfText, textOfBase64 } from './base64.ts';
import { keysAnnotation, storedKey, withV3Keys } from './keys.ts';
import type { SecretType } from './rules.ts';

/**
 * Core Secrets and ConfigMaps in the form of the v3 API and back. What a form does not have, such as foreign labels and
 * the type of a core Secret, is taken from the stored object when the form is written back.
 */
export interface CoreForm<Spec, Core> {
  apiVersion: string;
  kind: string;
  metadata: ObjectMeta;
  spec: Spec;
  /** the stored object; absent before it is created */
  core?: Core;
}

interface CoreSpec {
  name?: string;
  id?: number;
  /** text by key; base64 by key in a Secret of type tls */
  data: Readonly<Record<string, string>>;
  /** base64 by key: bytes that are no text, which only kubectl can write */
  binaryData?: Readonly<Record<string, string>>;
  immutable?: boolean;
}
export type SecretForm = CoreForm<CoreSpec & { type: SecretType }, Secret>;
export type ConfigMapForm = CoreForm<CoreSpec, ConfigMap>;

/** Only an object with the label may be listed over REST or used by a microservice, and no Secret with keys of the system. */
export const isShareable = ({ metadata }: { metadata: ObjectMeta }): boolean =>
  metadata.labels?.[LABELS.shareable] === 'true' && !isOfSystem(metadata);

/** Whether a Secret has keys of the system, such as the keys of a node or of an authority. Whoever may label it cannot share it. */
const isOfSystem = ({ name, labels = {} }: ObjectMeta): boolean =>
  [LABELS.platform, LABELS.authority, LABELS.bus, LABELS.identity].some((label) => label in labels) ||
  isSystemSecretName(name);

/** Whether only a Secret of the system may have a name. */
export const isSystemSecretName = (name: string): boolean =>
  SYSTEM_SECRET_PREFIXES.some((prefix) => name.startsWith(prefix));

/** Metadata without what would make a Secret of the system an object of the v3 API, or give its keys other names. */
export function withoutSharing({ labels = {}, annotations = {}, ...metadata }: ObjectMeta): ObjectMeta {
  const { [LABELS.shareable]: _s, [LABELS.id]: _i, [LABELS.secretType]: _t, ...otherLabels } = labels;
  const { [ANNOTATIONS.name]: _n, [ANNOTATIONS.keys]: _k, ...otherAnnotations } = annotations;
  return {
    ...metadata,
    ...(Object.keys(otherLabels).length > 0 && { labels: otherLabels }),
    ...(Object.keys(otherAnnotations).length > 0 && { annotations: otherAnnotations }),
  };
}

/** v3 name of a core object. */
export const textNameOf = (object: { metadata: ObjectMeta }): string =>
  object.metadata.annotations?.[ANNOTATIONS.name] ?? object.metadata.name;

/** The number that the controller gave a core object. */
export function labelledNumber({ metadata: { labels } }: { metadata: ObjectMeta }): number | undefined {
  const id = labels?.[LABELS.id];
  return id !== undefined && /^[1-9][0-9]{0,9}$/.test(id) ? Number(id) : undefined;
}

/** The v3 type: a label, or the core type of a certificate. */
const secretTypeOf = ({ type, metadata }: Pick<Secret, 'type' | 'metadata'>): SecretType =>
  metadata.labels?.[LABELS.secretType] === 'tls' || type === 'kubernetes.io/tls' ? 'tls' : 'Opaque';

export function secretForm(core: Secret): SecretForm {
  const type = secretTypeOf(core);
  const encoded = withV3Keys(core, core.data ?? {});
  const head = { ...identityOf(core), type, ...(core.immutable !== undefined && { immutable: core.immutable }) };
  if (type === 'tls') return { ...headOf(core), spec: { ...head, data: encoded }, core };
  const data: Record<string, string> = {};
  const binaryData: Record<string, string> = {};
  for (const [key, value] of Object.entries(encoded)) {
    const plain = textOfBase64(value);
    if (plain === undefined) binaryData[key] = value;
    else data[key] = plain;
  }
  return { ...headOf(core), spec: { ...head, data, ...unlessEmpty({ binaryData }) }, core };
}

export function coreSecret({ metadata, spec, core }: SecretForm): Secret {
  const { type, data, binaryData = {}, immutable } = spec;
  const isTls = type === 'tls';
  return {
    apiVersion: 'v1',
    kind: 'Secret',
    // A core Secret of type kubernetes.io/tls keeps it: the API server lets no type change.
    type: core?.type ?? 'Opaque',
    ...(immutable !== undefined && { immutable }),
    metadata: metadataOf(metadata, spec, { ...(isTls && { [LABELS.secretType]: 'tls' }) }),
    data: stored({ ...binaryData, ...(isTls ? data : encoded(data)) }),
  };
}

export function configMapForm(core: ConfigMap): ConfigMapForm {
  const binaryData = withV3Keys(core, core.binaryData ?? {});
  return {
    ...headOf(core),
    spec: {
      ...identityOf(core),
      data: withV3Keys(core, core.data ?? {}),
      ...unlessEmpty({ binaryData }),
      ...(core.immutable !== undefined && { immutable: core.immutable }),
    },
    core,
  };
}

export function coreConfigMap({ metadata, spec }: ConfigMapForm): ConfigMap {
  const { data, binaryData = {}, immutable } = spec;
  const left = Object.entries(binaryData).filter(([key]) => !Object.hasOwn(data, key));
  return {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    ...(immutable !== undefined && { immutable }),
    metadata: metadataOf(metadata, spec),
    data: stored(data),
    ...(left.length > 0 && { binaryData: stored(Object.fromEntries(left)) }),
  };
}

/** A Secret as rules read it. */
export function textOfSecret(core: Secret): KeyedText {
  const base64 = withV3Keys(core, core.data ?? {});
  const texts = Object.entries(base64).map(([key, value]) => [key, Buffer.from(value, 'base64').toString()]);
  return { name: textNameOf(core), data: Object.fromEntries(texts), base64 };
}

/** A ConfigMap as rules read it; a variable cannot have bytes that are no text, and a file can. */
export const textOfConfigMap = (core: ConfigMap): KeyedText => ({
  name: textNameOf(core),
  data: withV3Keys(core, core.data ?? {}),
  base64: withV3Keys(core, core.binaryData ?? {}),
});

const headOf = ({ apiVersion, kind, metadata }: Secret | ConfigMap) => ({ apiVersion, kind, metadata });

function identityOf(core: Secret | ConfigMap): Pick<CoreSpec, 'name' | 'id'> {
  const [name, id] = [textNameOf(core), labelledNumber(core)];
  return { ...(name !== core.metadata.name && { name }), ...(id !== undefined && { id }) };
}

function metadataOf(
  metadata: ObjectMeta,
  { name, data, binaryData }: CoreSpec,
  labels: Record<string, string> = {},
): ObjectMeta {
  const { [ANNOTATIONS.keys]: _, ...annotations } = metadata.annotations ?? {};
  const keys = keysAnnotation([...Object.keys(data), ...Object.keys(binaryData ?? {})]);
  return {
    ...metadata,
    labels: { ...metadata.labels, ...labels, [LABELS.shareable]: 'true' },
    annotations: {
      ...annotations,
      ...(name !== undefined && name !== metadata.name && { [ANNOTATIONS.name]: name }),
      ...(keys !== undefined && { [ANNOTATIONS.keys]: keys }),
    },
  };
}

const encoded = (data: Readonly<Record<string, string>>) =>
  Object.fromEntries(Object.entries(data).map(([key, value]) => [key, base64OfText(value)]));

const stored = (data: Readonly<Record<string, string>>) =>
  Object.fromEntries(Object.entries(data).map(([key, value]) => [storedKey(key), value]));

const unlessEmpty = (members: { binaryData: Record<string, string> }) =>
  Object.keys(members.binaryData).length > 0 ? members : {};

/** Names of core objects that the controller keeps for itself. */
const RESERVED = /^(skerry-|provisioning-key-|node-key-)/;

/**
 * The name of the core object for a v3 name. What the controller keeps by name (counters, keys of machines) is out of
 * reach: whoever may create a shareable object must not be able to create one of those.
 */
export function coreName(name: string): string {
  const usual = objectName(name);
  return RESERVED.test(usual) ? `x-${objectName(`${name} `)}` : usual;
}
