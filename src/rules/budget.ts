import { createHash } from 'node:crypto';
import type { ObjectMeta } from '../api/meta.ts';
import { ANNOTATIONS, LABELS } from '../api/names.ts';

/**
 * Budgets of what users store (docs/decisions/2026-11-23-budgets-of-stored-bytes.md): the datastore and the memory of each
 * replica have everything that is stored, so that no user may store without a bound.
 */

/** What is bounded: bytes of Secrets and ConfigMaps, bytes of objects of our kinds, and the number of all of them. */
export const QUANTITIES = ['content', 'objects', 'count'] as const;
export type Quantity = (typeof QUANTITIES)[number];
export type Usage = Readonly<Record<Quantity, number>>;

/** What the operator sets. */
export interface BudgetSettings {
  contentMiB: number;
  objectsMiB: number;
  count: number;
  /** share of one user, in percent of the installation's */
  userPercent: number;
}

export interface Budgets {
  installation: Usage;
  user: Usage;
  /** beyond the budget of the installation, for those who handle incidents */
  reserve: Usage;
}

/**
 * For the memory that the chart gives a replica by default, and for 1,000 nodes with their applications
 * (docs/sizing.md#what-users-store).
 */
export const DEFAULT_BUDGETS: BudgetSettings = { contentMiB: 64, objectsMiB: 32, count: 20_000, userPercent: 50 };

/** The reserve, in percent of the installation's budget. */
const RESERVE_PERCENT = 10;
const MIB = 2 ** 20;

export const NO_USAGE: Usage = { content: 0, objects: 0, count: 0 };
const mapped = (of: (quantity: Quantity) => number): Usage =>
  Object.fromEntries(QUANTITIES.map((quantity) => [quantity, of(quantity)])) as Record<Quantity, number>;
/** a + factor * b */
export const sumOf = (a: Usage, b: Usage, factor = 1): Usage => mapped((one) => a[one] + factor * b[one]);

export function budgetsOf({ contentMiB, objectsMiB, count, userPercent }: BudgetSettings): Budgets {
  const installation = { content: contentMiB * MIB, objects: objectsMiB * MIB, count };
  const percent = (share: number) => mapped((one) => Math.ceil((installation[one] * share) / 100));
  return { installation, user: percent(userPercent), reserve: percent(RESERVE_PERCENT) };
}

interface Stored {
  metadata: ObjectMeta;
  type?: string;
}

/** Bytes of an object besides its own: what the API server adds, and an index entry in each store. */
const OVERHEAD = 1024;
/** Notes of the controller, which are no part of what a user stores as long as they are as short as the controller makes them. */
const NOTES = [ANNOTATIONS.storedBy, ANNOTATIONS.updatedAt, ANNOTATIONS.usedBy];
const NOTE_LENGTH = 1024;

/** Bytes that an object counts for: as JSON without the status, which the controller writes, plus a fixed part. */
export function storedBytes(object: Stored): number {
  const { status: _, metadata, ...own } = object as Stored & { status?: unknown };
  const { name, labels, annotations = {} } = metadata;
  const counted = Object.entries(annotations).filter(
    ([key, value]) => value.length > NOTE_LENGTH || !NOTES.some((note) => note === key),
  );
  return (
    OVERHEAD + Buffer.byteLength(JSON.stringify({ ...own, name, labels, annotations: Object.fromEntries(counted) }))
  );
}

/** Length of a Secret up to which it can be the key of a node, bytes: the controller's have less than half. */
const KEY_BYTES = 4 * 1024;

/** Core objects that no user stores: keys of nodes. A label is not enough, since users may set it over kubectl. */
export const countsForNobody = ({ metadata: { labels = {} } }: Stored, bytes: number): boolean =>
  bytes <= KEY_BYTES && (LABELS.nodeKey in labels || LABELS.provisioningKey in labels);

/** What the object counts for. */
export const usageOf = (isContent: boolean, bytes: number): Usage => ({
  content: isContent ? bytes : 0,
  objects: isContent ? 0 : bytes,
  count: 1,
});

/** Longest user name that is noted as it is. */
const NAME_LENGTH = 256;

/** A user name as the annotation has it. */
export const noteOf = (user: string): string =>
  user.length <= NAME_LENGTH ? user : `sha256:${createHash('sha256').update(user).digest('hex')}`;

/** Whom the object counts for; undefined when it was last stored over kubectl by someone who has not said so. */
export const storedBy = ({ metadata }: Stored): string | undefined => metadata.annotations?.[ANNOTATIONS.storedBy];

export interface BudgetQuestion {
  installation: Usage;
  /** what the user who writes stores so far */
  user: Usage;
  /** by which the write makes the installation's grow, and that of the user */
  more: { installation: Usage; user: Usage };
}

export interface BudgetRefusal {
  scope: 'user' | 'installation';
  quantity: Quantity;
  message: string;
}

/** Why a write exceeds a budget, if it does. `isReserved`: for those who handle incidents, whom no share of a user limits. */
export function budgetRefusal(budgets: Budgets, asked: BudgetQuestion, isReserved: boolean): BudgetRefusal | undefined {
  const limits = isReserved
    ? ([['installation', sumOf(budgets.installation, budgets.reserve)]] as const)
    : ([
        ['installation', budgets.installation],
        ['user', budgets.user],
      ] as const);
  for (const [scope, limit] of limits)
    for (const quantity of QUANTITIES) {
      const after = asked[scope][quantity] + asked.more[scope][quantity];
      if (asked.more[scope][quantity] > 0 && after > limit[quantity])
        return { scope, quantity, message: refusalText(scope, quantity, after, limit[quantity]) };
    }
  return undefined;
}

interface Words {
  amount: (value: number) => string;
  what: string;
  remedy: string;
  setting: keyof BudgetSettings;
}

const bytes = (value: number) => `${(value / MIB).toFixed(1)} MiB`;
const WORDS: Readonly<Record<Quantity, Words>> = {
  content: {
    amount: bytes,
    what: 'of Secrets and ConfigMaps',
    remedy: 'delete Secrets or ConfigMaps that nothing uses',
    setting: 'contentMiB',
  },
  objects: {
    amount: bytes,
    what: 'of applications, templates and other objects',
    remedy: 'delete applications or other objects that are no longer needed',
    setting: 'objectsMiB',
  },
  count: { amount: String, what: 'objects', remedy: 'delete objects that are no longer needed', setting: 'count' },
};

function refusalText(scope: BudgetRefusal['scope'], quantity: Quantity, after: number, limit: number): string {
  const { amount, what, remedy, setting } = WORDS[quantity];
  const whose = scope === 'user' ? 'you would store' : 'the installation would store';
  const values = scope === 'user' ? `budgets.${setting} or budgets.userPercent` : `budgets.${setting}`;
  return `${whose} ${amount(after)} ${what}, and the budget is ${amount(limit)}: ${remedy}, or have the operator raise ${values}`;
}

/**
 * How much of a budget is used, as the admission policy knows it: at `full` only the holders of the reserve create objects or
 * make content grow, at `closed` only they change a spec, at `spent` nobody but the controller and Helm does either.
 */
const LEVELS = ['open', 'full', 'closed', 'spent'] as const;
type Level = (typeof LEVELS)[number];

const levelOf = (used: number, budget: number, reserve: number): Level =>
  used < budget ? 'open' : used < budget + reserve / 2 ? 'full' : used < budget + reserve ? 'closed' : 'spent';

/** Data of the ConfigMap that the admission policy reads: a level and a text for each quantity. */
export const policyData = ({ installation, reserve }: Budgets, used: Usage): Record<string, string> =>
  Object.fromEntries(
    QUANTITIES.flatMap((quantity) => {
      const { amount, what, remedy, setting } = WORDS[quantity];
      const level = levelOf(used[quantity], installation[quantity], reserve[quantity]);
      const text = `the installation's budget of ${amount(installation[quantity])} ${what} is used up: ${remedy}, or have the operator raise budgets.${setting}`;
      return [
        [quantity, level],
        [`${quantity}-text`, text],
      ];
    }),
  );
