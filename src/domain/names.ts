import { createHash } from 'node:crypto';
import { BOUNDS } from '../api/bounds.ts';
import { NAME_PATTERN } from '../api/meta.ts';
import type { Application, EdgeNode } from '../api/v3/index.ts';

const LEGAL = new RegExp(NAME_PATTERN);
const sha256 = (text: string) => createHash('sha256').update(text).digest();

/** Name of an object in the v3 API: its own, else that of the Kubernetes object. */
export function v3Name(object: { metadata: { name: string }; spec?: { name?: string } }): string {
  return object.spec?.name ?? object.metadata.name;
}

/** The Kubernetes object name for a v3 name: the name itself when legal, else slug, `-`, 8 hex digits of its SHA-256. */
export function objectName(name: string): string {
  if (name.length <= BOUNDS.name && LEGAL.test(name)) return name;
  const digest = sha256(name).toString('hex').slice(0, 8);
  const slug = name
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .slice(0, 63)
    .replace(/^-+|-+$/g, '');
  return slug ? `${slug}-${digest}` : `x-${digest}`;
}

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** Name-based UUID, version 5 (RFC 9562). A namespace that is no UUID counts as text, so that it still tells apart. */
export function uuid5(namespace: string, name: string): string {
  const bytes = createHash('sha1')
    .update(UUID.test(namespace) ? Buffer.from(namespace.replaceAll('-', ''), 'hex') : namespace)
    .update(name)
    .digest()
    .subarray(0, 16);
  bytes[6] = ((bytes[6] as number) & 0x0f) | 0x50;
  bytes[8] = ((bytes[8] as number) & 0x3f) | 0x80;
  return bytes.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
}

/** Identity of an application: what the spec says, else the uid that the API server gave. */
export function applicationUuid(application: Application): string {
  return application.spec.uuid ?? application.metadata.uid ?? '';
}

/** Identity of a node: what the spec says, else the uid that the API server gave. */
export function nodeUuid(node: EdgeNode): string {
  return node.spec.uuid ?? node.metadata.uid ?? '';
}

/** Identity of a microservice: its own uuid, else derived from its application and its name. */
export function entryUuid(application: Application, entry: { name: string; uuid?: string }): string {
  return entry.uuid ?? uuid5(applicationUuid(application), entry.name);
}

/** Id of a volume mapping in the v3 API: 31 bits of the SHA-256 of its path in the container. */
export function volumeMappingId(containerPath: string): number {
  return sha256(containerPath).readUInt32BE(0) >>> 1;
}
