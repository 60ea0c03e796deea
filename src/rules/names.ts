import { hash } from 'node:crypto';
import { BOUNDS } from '../api/bounds.ts';
import { NAME_PATTERN } from '../api/meta.ts';
import type { Application } from '../api/v3/index.ts';
import { applicationUuid } from './identity.ts';

const LEGAL = new RegExp(NAME_PATTERN);
const sha256 = (text: string) => hash('sha256', text, 'buffer');

/** Name of an object in the v3 API: its own, else that of the Kubernetes object. */
export function v3Name({ metadata, spec }: { metadata: { name: string }; spec?: object }): string {
  return (spec as { name?: string } | undefined)?.name ?? metadata.name;
}

/** The Kubernetes object name for a v3 name: the name itself when legal, else slug, `-`, 8 hex digits of its SHA-256. */
export function objectName(name: string): string {
  if (name.length <= BOUNDS.name && LEGAL.test(name)) return name;
  const digest = sha256(name).toString('hex').slice(0, 8);
  const slug = name
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .slice(0, 63)
    .replace(/^-+|(?<!-)-+$/g, '');
  return slug ? `${slug}-${digest}` : `x-${digest}`;
}

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** Name-based UUID, version 5 (RFC 9562). A namespace that is no UUID is hashed as text. */
export function uuid5(namespace: string, name: string): string {
  const space = UUID.test(namespace) ? Buffer.from(namespace.replaceAll('-', ''), 'hex') : Buffer.from(namespace);
  const bytes = hash('sha1', Buffer.concat([space, Buffer.from(name)]), 'buffer');
  bytes[6] = ((bytes[6] as number) & 0x0f) | 0x50;
  bytes[8] = ((bytes[8] as number) & 0x3f) | 0x80;
  const hex = bytes.toString('hex', 0, 16);
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-');
}

/** Identity of a microservice: its own uuid, else derived from its application and its name. */
export function entryUuid(application: Application, entry: { name: string; uuid?: string }): string {
  if (entry.uuid !== undefined) return entry.uuid;
  const owner = applicationUuid(application);
  const known = derived.get(entry);
  if (known?.owner === owner && known.name === entry.name) return known.uuid;
  const uuid = uuid5(owner, entry.name);
  derived.set(entry, { owner, name: entry.name, uuid });
  return uuid;
}

/** A cache, since each report needs the uuid of an entry many times; the objects are shared and never change. */
const derived = new WeakMap<object, { owner: string; name: string; uuid: string }>();

/** Id of a volume mapping in the v3 API: 31 bits of the SHA-256 of its path in the container. */
export function volumeMappingId(containerPath: string): number {
  return sha256(containerPath).readUInt32BE(0) >>> 1;
}
