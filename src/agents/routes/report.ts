import type { z } from 'zod';
import { BOUNDS } from '../../api/bounds.ts';
import {
  microserviceStatusSchema,
  parseJson,
  repositoryStatusSchema,
  type StatusReport,
  statusReportSchema,
} from '../../wire/agent.ts';
import { artifactStatusSchema } from '../../wire/artifacts.ts';
import { AgentFailure } from '../channel/failure.ts';

/**
 * Reads the status report of an agent. Agents may be older or newer than the controller, and a node whose reports are refused
 * would count as silent: texts that are too long are truncated, and of invalid values only the smallest part is left out.
 * `repaired` names the field of each such part, `mistakes` is the number of mistakes.
 *
 * The time for that is limited: lists are truncated before their items are checked, and beyond a number of mistakes a list
 * is left out as a whole. Modifies the body.
 */
export function readReport(body: unknown): {
  report: StatusReport;
  repaired: string[];
  mistakes: number;
} {
  if (body === null || typeof body !== 'object' || Array.isArray(body)) {
    throw new AgentFailure('VALIDATION_ERROR', 'the report must be a JSON object');
  }
  const whole = statusReportSchema.safeParse(body);
  if (whole.success) return { report: whole.data, repaired: [], mistakes: 0 };
  const said = body as Record<string, unknown>;
  const report: Record<string, unknown> = {};
  const repaired: string[] = [];
  const mender = createMender();
  for (const [field, schema] of Object.entries(statusReportSchema.shape)) {
    if (!Object.hasOwn(said, field)) continue;
    const items = Object.hasOwn(LISTS, field) ? LISTS[field as keyof typeof LISTS] : undefined;
    const { value, mistakes } = items ? readList(items, said[field], mender) : mender.read(schema, said[field]);
    if (value !== undefined) report[field] = value;
    repaired.push(...Array<string>(mistakes).fill(field));
  }
  return { report: report as StatusReport, repaired, mistakes: mender.mistakes };
}

/** Lists whose items are read one by one, and how many. */
const LISTS = {
  microserviceStatus: { item: microserviceStatusSchema, max: BOUNDS.report },
  repositoryStatus: { item: repositoryStatusSchema, max: BOUNDS.report },
  modelStatus: { item: artifactStatusSchema, max: BOUNDS.artifacts },
  knowledgeStatus: { item: artifactStatusSchema, max: BOUNDS.artifacts },
} as const;

interface Read {
  /** undefined: nothing of it can be read */
  value: unknown;
  /** parts that were repaired or left out */
  mistakes: number;
}

const UNREAD: Read = { value: undefined, mistakes: 1 };

function readList({ item, max }: { item: z.ZodType; max: number }, said: unknown, mender: Mender): Read {
  const list = typeof said === 'string' ? parseJson(said) : said;
  if (!Array.isArray(list)) return UNREAD;
  const read = list.slice(0, max).map((one) => mender.read(item, one));
  // In a part of a list the missing items would count as removed.
  if (mender.isTired) return UNREAD;
  return {
    value: read.flatMap(({ value }) => (value === undefined ? [] : [value])),
    mistakes: read.reduce((sum, { mistakes }) => sum + Math.min(mistakes, 1), list.length > max ? 1 : 0),
  };
}

interface Mender {
  /** The value, or what is left of it without its mistakes. */
  read(schema: z.ZodType, value: unknown): Read;
  /** found so far, those of what was then left out included */
  readonly mistakes: number;
  /** The limit of mistakes is reached: nothing more is repaired. */
  readonly isTired: boolean;
}

const ROUNDS = 4;
/** Mistakes that are repaired in one report: four in each of as many microservices as a node may have. */
const MOST_MISTAKES = 4 * BOUNDS.report;

function createMender(): Mender {
  let left = MOST_MISTAKES;
  return {
    get mistakes() {
      return MOST_MISTAKES - left;
    },
    get isTired() {
      return left <= 0;
    },
    read(schema, said) {
      const holder = { value: said };
      let mistakes = 0;
      for (let round = 0; round < ROUNDS; round++) {
        const read = schema.safeParse(holder.value);
        if (read.success) return { value: read.data, mistakes };
        if (left <= 0) break;
        // Only what is asked for them makes the issues, which is most of the work.
        const { issues } = read.error;
        left -= issues.length;
        mistakes += issues.length;
        const lists = new Set<unknown[]>();
        for (const issue of issues) mend(holder, ['value', ...(issue.path as (string | number)[])], issue, lists);
        for (const list of lists) list.splice(0, list.length, ...list.filter((item) => item !== undefined));
        if (holder.value === undefined) break;
      }
      return { value: undefined, mistakes: Math.max(mistakes, 1) };
    },
  };
}

/** Cuts what is too long, and leaves out what is wrong; of a list its place, until all issues are repaired. */
function mend(raw: object, path: readonly (string | number)[], issue: z.core.$ZodIssue, lists: Set<unknown[]>): void {
  const last = path.at(-1) as string | number;
  const parent = path
    .slice(0, -1)
    .reduce<unknown>((at, step) => (at as Record<string | number, unknown> | undefined)?.[step], raw);
  if (parent === null || typeof parent !== 'object') return;
  const holder = parent as Record<string | number, unknown>;
  const value = holder[last];
  if (issue.code === 'too_big' && (typeof value === 'string' || Array.isArray(value))) {
    holder[last] = value.slice(0, Number(issue.maximum));
  } else if (value === undefined && !Array.isArray(parent) && path.length > 1) {
    // A required member is absent, so its object is invalid.
    mend(raw, path.slice(0, -1), { ...issue, code: 'custom' } as z.core.$ZodIssue, lists);
  } else {
    holder[last] = undefined;
    if (Array.isArray(parent)) lists.add(parent);
  }
}
