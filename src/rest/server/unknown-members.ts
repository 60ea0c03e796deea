import { isEmpty } from '../../rules/body-values.ts';
import { cut } from '../../rules/conditions.ts';
import { isObject } from '../../rules/document.ts';
import { bodyWarnings, fileWarnings } from '../../rules/unknown-members.ts';
import type { Body } from '../contract/route.ts';

/**
 * The warnings for members of a body or a file that are dropped, with its expressions replaced. Throws for an unknown member of a
 * file whose `apiVersion` is the product's own.
 */
export function memberWarnings(body: Body, value: unknown): string[] {
  if (body.kind === 'json') return bodyWarnings(value, body.documents ?? body.schema, body.shows);
  if (!isObject(value)) return [];
  const { metadata } = value;
  const unread = body.spec
    ? ['labels', 'annotations'].filter((member) => isObject(metadata) && !isEmpty(metadata[member]))
    : [];
  return [
    ...fileWarnings(value, body),
    ...unread.map((member) => `metadata.${member}: has no effect over REST; set it with kubectl`),
  ];
}

/** Most warnings of one response. */
const WARNINGS = 4;
/** Most characters of a warning, as it is escaped; with them the header stays below 5 KiB, which clients take. */
const WARNING_LENGTH = 1_200;

/** The header `Warning` (RFC 7234, 5.5) of a response; undefined without warnings. Names from bodies may have any character. */
export function warningHeader(warnings: readonly string[]): string | undefined {
  if (warnings.length === 0) return undefined;
  return [...new Set(warnings)]
    .slice(0, WARNINGS)
    .map((text) =>
      cut(text, WARNING_LENGTH)
        .replace(/[^\x20-\x7e]/g, '?')
        .replace(/["\\]/g, '\\$&')
        .slice(0, WARNING_LENGTH)
        // Half of an escape would take the closing quote with it.
        .replace(/(?<!\\)((?:\\\\)*)\\$/, '$1'),
    )
    .map((text) => `299 - "${text}"`)
    .join(', ');
}
