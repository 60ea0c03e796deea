import type { ObjectMeta } from '../../api/meta.ts';
import { ANNOTATIONS } from '../../api/names.ts';
import { CONTENT, type StoredUsage } from '../../datastore/usage.ts';
import { HttpError } from '../../http/http-error.ts';
import { type Clock, systemClock } from '../../lib/clock.ts';
import { createTokenBuckets } from '../../lib/token-bucket.ts';
import {
  type BudgetRefusal,
  type Budgets,
  budgetRefusal,
  NO_USAGE,
  noteOf,
  storedBytes,
  sumOf,
  type Usage,
  usageOf,
} from '../../rules/budget.ts';
import {
  type ConfigMapForm,
  coreConfigMap,
  coreSecret,
  type SecretForm,
} from '../../subjects/content/rules/core-objects/form.ts';
import type { Caller } from '../contract/access.ts';
import type { Objects, RestDependencies, StoredObject, WriteBudgets } from '../contract/dependencies.ts';
import { tooOften } from '../contract/errors.ts';

/** The permission to use the reserve of the budgets, for those who handle incidents. */
const RESERVE = { resource: 'budgets/reserve', verb: 'create' } as const;

/**
 * Bytes of objects that a user writes, at each replica: the datastore keeps each version for up to ten minutes, so that
 * writing the same object again takes room as well. In ten minutes that is 214 MiB.
 */
const WRITTEN = { perSecond: 256 * 1024, burst: 64 * 2 ** 20 } as const;

export interface WriteBudgetsOptions {
  usage: StoredUsage;
  budgets: Budgets;
  clock?: Clock;
  metrics?: { budgetRefused?(labels: { budget: string; scope: string }): void };
}

export function createWriteBudgets({
  usage,
  budgets,
  clock = systemClock,
  metrics = {},
}: WriteBudgetsOptions): WriteBudgets {
  const written = createTokenBuckets({ clock, ...WRITTEN });
  /** writes that were allowed and that the stores do not have yet, of all users and of each */
  let pending = NO_USAGE;
  const pendingOf = new Map<string, Usage>();

  function hold(user: string, growth: Usage, ofUser: Usage): Disposable {
    const add = (factor: 1 | -1) => {
      pending = sumOf(pending, growth, factor);
      const sum = sumOf(pendingOf.get(user) ?? NO_USAGE, ofUser, factor);
      if (Object.values(sum).some((value) => value > 0)) pendingOf.set(user, sum);
      else pendingOf.delete(user);
    };
    add(1);
    return { [Symbol.dispose]: () => add(-1) };
  }

  return {
    usage,
    async reserve(caller, { usage: whole, growth, ofUser }) {
      const user = noteOf(caller.identity?.name ?? '');
      const judge = (isReserved: boolean) =>
        budgetRefusal(
          budgets,
          {
            installation: sumOf(usage.installation, pending),
            user: sumOf(usage.of(user), pendingOf.get(user) ?? NO_USAGE),
            more: { installation: growth, user: ofUser },
          },
          isReserved,
        );
      let refusal = judge(false);
      // The answer is awaited: what others wrote meanwhile counts.
      if (refusal && (await caller.may(RESERVE))) refusal = judge(true);
      if (refusal) {
        metrics.budgetRefused?.({ budget: refusal.quantity, scope: refusal.scope });
        throw budgetExceeded(refusal);
      }
      if (!written.take(user))
        throw tooOften(
          'you write more bytes than the datastore can keep, try again later',
          written.waitMs(user) / 1000,
        );
      written.charge(user, whole.content + whole.objects);
      return hold(user, growth, ofUser);
    },
  };
}

const budgetExceeded = ({ message }: BudgetRefusal) => new HttpError(413, 'BUDGET_EXCEEDED', message);

/** Whether a request stores what its sender chose; else only its writes are bounded, so that a rebuild is always possible. */
interface Charging {
  storesMore: boolean;
}

/**
 * The dependencies for one caller: what it creates, makes grow and writes is charged to it. Each member is made when it is first
 * read: most requests read a few of them, and those that are refused none.
 */
export function withinBudgets(deps: RestDependencies, caller: Caller, charging: Charging): RestDependencies {
  const made = new Map<PropertyKey, Objects<StoredObject>>();
  const member = (key: keyof RestDependencies): Objects<StoredObject> => {
    const known =
      made.get(key) ?? charged(deps.budgets, key, deps[key] as Objects<StoredObject>, { caller, ...charging });
    made.set(key, known);
    return known;
  };
  const isBudgeted = (key: PropertyKey): key is keyof RestDependencies =>
    typeof key === 'string' && (Object.hasOwn(deps.kinds, key) || CONTENT.has(key) || ROLES.has(key));
  return new Proxy(deps, {
    get: (target, key, receiver) => (isBudgeted(key) ? member(key) : Reflect.get(target, key, receiver)),
  });
}

const ROLES: ReadonlySet<string> = new Set(['roles', 'roleBindings']);

/** Objects of the v3 API as they are stored. */
const STORED: Readonly<Record<string, (object: never) => StoredObject>> = {
  secrets: (form: SecretForm) => coreSecret(form),
  configMaps: (form: ConfigMapForm) => coreConfigMap(form),
};

function charged<T extends StoredObject>(
  budgets: WriteBudgets,
  key: string,
  objects: Objects<T>,
  { caller, storesMore }: Charging & { caller: Caller },
): Objects<T> {
  const isContent = CONTENT.has(key);
  const user = noteOf(caller.identity?.name ?? '');
  const bytesOf = (object: T) => storedBytes((STORED[key] ?? ((one: T) => one))(object as never));

  return Object.create(objects, {
    create: {
      async value(object: T, signal: AbortSignal) {
        const usage = usageOf(isContent, bytesOf(object));
        using _held = await budgets.reserve(caller, { usage, growth: usage, ofUser: usage });
        return await objects.create(storedFor(object, user), signal);
      },
    },
    replace: {
      async value(object: T, signal: AbortSignal) {
        const { namespace = '', name } = object.metadata;
        const known = budgets.usage.find(key, namespace, name);
        const bytes = bytesOf(object);
        const more = storesMore ? bytes - (known?.bytes ?? 0) : 0;
        const usage = { ...usageOf(isContent, bytes), count: 0 };
        if (more <= 0) {
          using _held = await budgets.reserve(caller, { usage, growth: NO_USAGE, ofUser: NO_USAGE });
          return await objects.replace(object, signal);
        }
        // Whoever makes an object grow has all of it on the own account: nobody fills the budget of another.
        const growth = { ...usageOf(isContent, more), count: 0 };
        const ofUser = known?.user === user ? growth : usageOf(isContent, bytes);
        using _held = await budgets.reserve(caller, { usage, growth, ofUser });
        return await objects.replace(storedFor(object, user), signal);
      },
    },
  }) as Objects<T>;
}

const storedFor = <T extends StoredObject>(object: T, user: string): T => ({
  ...object,
  metadata: withNote(object.metadata, user),
});

const withNote = (metadata: ObjectMeta, user: string): ObjectMeta => ({
  ...metadata,
  annotations: { ...metadata.annotations, [ANNOTATIONS.storedBy]: user },
});
