import type { z } from 'zod';
import { type StatusReport, statusReportSchema } from '../wire/index.ts';
import { AgentFailure } from './failure.ts';

/**
 * A status report as an agent sent it, whatever else is in it. Agents in the field are older and newer than we are, and
 * one that is refused looks dead: texts that are too long are cut, and of what cannot be read only the smallest part is
 * left out. `repaired` names the fields.
 */
export function readReport(body: unknown): { report: StatusReport; repaired: string[] } {
  if (body === null || typeof body !== 'object' || Array.isArray(body)) {
    throw new AgentFailure('VALIDATION_ERROR', 'the report must be a JSON object');
  }
  const first = statusReportSchema.safeParse(body);
  if (first.success) return { report: first.data, repaired: [] };
  const raw = withoutJsonText(body as Record<string, unknown>);
  const repaired = new Set<string>();
  let issues = first.error.issues;
  for (let round = 0; round < ROUNDS; round++) {
    for (const issue of issues) {
      repaired.add(String(issue.path[0] ?? ''));
      mend(raw, issue);
    }
    dropNameless(raw);
    const next = statusReportSchema.safeParse(raw);
    if (next.success) return { report: next.data, repaired: [...repaired] };
    issues = next.error.issues;
  }
  throw new AgentFailure('VALIDATION_ERROR', `the report cannot be read: ${[...repaired].join(', ')}`);
}

const ROUNDS = 4;

/** Lists that came as JSON text, as lists, so that they can be mended; a copy. */
function withoutJsonText(body: Record<string, unknown>): Record<string, unknown> {
  const copy = structuredClone(body);
  for (const key of ['microserviceStatus', 'repositoryStatus']) {
    if (typeof copy[key] !== 'string') continue;
    try {
      copy[key] = JSON.parse(copy[key]);
    } catch {
      delete copy[key];
    }
  }
  return copy;
}

/** Without its id an item says nothing. */
function dropNameless(raw: Record<string, unknown>): void {
  const items = raw.microserviceStatus;
  if (Array.isArray(items)) raw.microserviceStatus = items.filter((item) => typeof item?.id === 'string');
}

function mend(raw: Record<string, unknown>, issue: z.core.$ZodIssue): void {
  const path = issue.path as (string | number)[];
  let parent: unknown = raw;
  for (const step of path.slice(0, -1)) parent = (parent as Record<string | number, unknown> | undefined)?.[step];
  const last = path.at(-1);
  if (last === undefined || parent === null || typeof parent !== 'object') return;
  const holder = parent as Record<string | number, unknown>;
  const value = holder[last];
  if (issue.code === 'too_big' && (typeof value === 'string' || Array.isArray(value))) {
    holder[last] = value.slice(0, Number(issue.maximum));
  } else if (Array.isArray(parent)) {
    // An item that is no object at all. Its place must stay until the other issues are mended.
    holder[last] = {};
  } else {
    delete holder[last];
  }
}
