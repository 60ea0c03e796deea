import { hash } from 'node:crypto';
import type { Digests, Section } from '../wire/sections.ts';

/**
 * Digest of a section. Plain JSON is several times cheaper than canonical JSON and sufficient: the members are built in one place,
 * always in the same order, and an unnecessary difference costs one fetch.
 */
export const sectionDigest = (value: unknown): string => hash('sha256', JSON.stringify(value)).slice(0, 16);

/** The digest of a list that an agent need not fetch while it is empty. */
export const digestUnlessEmpty = (section: Section, value: readonly unknown[]): Digests =>
  value.length > 0 ? { [section]: sectionDigest(value) } : {};
